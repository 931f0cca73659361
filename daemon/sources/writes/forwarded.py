"""Accept changes of ACLs, and send them to the cluster concurrently.

**Invariant:** accepted work is done within the caller's time limit, even if the caller is
cancelled. The number of unanswered requests is bounded. Requests of different callers are not
ordered; each connection has one request in flight.

Source: KIP-504 (asynchronous ACL updates), KIP-590; Kafka 4.3 ForwardingManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.updates import Deleted
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import RejectedUpdateError, UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.updates import PlanCluster
from authorizerd.config.follow.settings import FollowSettings, SourceKind, Writes
from authorizerd.daemon.sources.remedies import missing_alter
from authorizerd.daemon.sources.source import Destination
from authorizerd.daemon.sources.writes.connections import Connections
from authorizerd.daemon.sources.writes.delivery import INTERRUPTED, Delivery, Means
from authorizerd.daemon.sources.writes.refused import (
    RefusedUpdates,
    reject_cluster_change,
    reject_items,
)
from authorizerd.daemon.sources.writes.requests import Creations, Deletions, Update, fail
from authorizerd.daemon.sources.writes.rights import ForwardingRights, check_caller
from authorizerd.daemon.sources.writes.submission import Submission
from authorizerd.kafka_client.connection import OpenNode
from authorizerd.protocol.kafka.error_codes import ErrorCode

T = TypeVar("T")

ENDING_SECONDS: Final = 5.0
"""How long requests may take after ``close``."""
_MARGIN_SECONDS_MAX: Final = 1.0
_MARGIN: Final = 0.1
"""The fraction of the caller's time limit reserved for an answer that gives the reason."""


class ForwardedUpdates:
    """Accepts changes of ACLs, sends them, and acknowledges them.

    Args:
        rights: whose changes are forwarded; None if the daemon sends every change under its own
            name.
        requests_max: the maximum number of unanswered requests. Further ones are refused.
        timeout_ms: returns how long a caller waits for its answer.
    """

    def __init__(
        self,
        means: Means,
        *,
        rights: ForwardingRights | None,
        requests_max: int,
        timeout_ms: Callable[[], int],
    ) -> None:
        self._means = means
        self._rights = rights
        self._timeout_ms = timeout_ms
        self._requests_max = requests_max
        self._nursery: trio.Nursery | None = None
        self._closed = trio.Event()
        self._scope = trio.CancelScope()
        self.statistics: Final = means.statistics

    @property
    def checks_guards(self) -> bool:
        """False: others change the cluster's ACLs, and its answers do not carry an offset."""
        return False

    def create(self, acls: Sequence[Acl], context: RequestContext) -> Sequence[Completion[None]]:
        """Queue one creation request. Return one completion per item, in order."""
        return self._submit(Creations, acls, context)

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext
    ) -> Sequence[Completion[Deleted]]:
        """Queue one deletion request. Return one completion per filter, in order."""
        return self._submit(Deletions, filters, context)

    def _submit(
        self, kind: type[Update], items: Sequence[Any], context: RequestContext
    ) -> Sequence[Completion[Any]]:
        obstacle = self._find_obstacle(context)
        if obstacle is not None:
            return reject_items(obstacle, len(items))
        if not items:
            return []
        # A copy, since the caller may empty its list.
        update = kind(items=list(items), caller=context, deadline=self._deadline())
        self._accept(update)
        return ItemCompletions[Any](update.completion, len(items))

    def change_cluster(self, plan: PlanCluster[T], on_applied: Callable[[], None]) -> Completion[T]:
        """Return a failed completion: a follower changes only ACLs."""
        return reject_cluster_change()

    def _find_obstacle(self, caller: RequestContext) -> RejectedUpdateError | None:
        obstacle = None if self._rights is None else self._rights.find_obstacle(caller)
        if obstacle is None:
            return None
        self.statistics.results["denied"] += 1
        return RejectedUpdateError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, obstacle)

    def _deadline(self) -> float:
        seconds = self._timeout_ms() / 1000
        return trio.current_time() + seconds - min(_MARGIN_SECONDS_MAX, seconds * _MARGIN)

    def _accept(self, update: Update) -> None:
        if self._nursery is None or self._closed.is_set():
            fail(update, UpdateRefusedError(INTERRUPTED))
        elif self.statistics.requests_waiting >= self._requests_max:
            fail(update, UpdateRefusedError("too many updates are waiting"))
        else:
            self.statistics.requests_waiting += 1
            self._nursery.start_soon(self._handle, update)

    def close(self) -> None:
        """Accept no more requests. ``run`` ends soon: see ``ENDING_SECONDS``."""
        self._closed.set()
        self._scope.deadline = trio.current_time() + ENDING_SECONDS

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send requests until ``close``. If cancelled, refuse what was not sent."""
        with self._scope:
            async with trio.open_nursery() as services:
                services.start_soon(self._means.submission.connections.run)
                try:
                    async with trio.open_nursery() as self._nursery:
                        task_status.started()
                        await self._closed.wait()
                finally:
                    self._closed.set()
                    services.cancel_scope.cancel()

    async def _handle(self, update: Update) -> None:
        try:
            await Delivery(self._means, update).run()
        finally:
            self.statistics.requests_waiting -= 1


def new_updates(
    settings: FollowSettings,
    *,
    destination: Destination,
    open_node: OpenNode,
    snapshot: View[AclSnapshot | None],
    journal: AclJournal,
    is_super_user: Callable[[str], bool],
    may_alter: Callable[[RequestContext], bool],
    requests_max: int,
    timeout_ms: Callable[[], int],
    applied_everywhere: Callable[[], Awaitable[None]],
) -> RefusedUpdates | ForwardedUpdates:
    """Return the handler of the changes that clients send.

    Args:
        is_super_user: returns True if this daemon's ``super.users`` contains a principal.
        may_alter: see ``check_caller``.
        requests_max, timeout_ms: see ``ForwardedUpdates``.
        applied_everywhere: see ``Means``.
    """
    if settings.writes is Writes.REFUSE:
        return RefusedUpdates(settings)
    forwards = settings.writes is Writes.FORWARD
    rights = ForwardingRights(settings, is_super_user) if forwards else None
    submission = Submission(
        Connections(open_node),
        carries_caller=forwards,
        to_controllers=settings.kind is SourceKind.QUORUM,
        check_caller=lambda caller: check_caller(caller, rights, may_alter),
    )
    means = Means(
        destination=destination,
        submission=submission,
        snapshot=snapshot,
        journal=journal,
        request_timeout_ms=settings.write_timeout_ms,
        no_right="" if forwards else missing_alter(settings.username),
        applied_everywhere=applied_everywhere,
    )
    return ForwardedUpdates(
        means,
        rights=rights,
        requests_max=requests_max,
        timeout_ms=timeout_ms,
    )
