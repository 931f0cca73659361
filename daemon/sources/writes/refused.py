"""Refuse changes, and name where to make them instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.actors.updates import PlanCluster, UpdateStatistics
from authorizerd.config.follow.settings import WRITES, FollowSettings, SourceKind, Writes
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ErrorCode

T = TypeVar("T")

CLUSTER_CHANGE_REFUSED: Final = (
    "This daemon follows a cluster: it changes neither SCRAM credentials nor configs. Change SCRAM"
    " credentials in the cluster, and the daemon's settings in its configuration file; then send"
    " SIGHUP to the daemon."
)
"""The answer to every change that does not concern ACLs, in every mode."""


class RefusedUpdates:
    """Refuses every change: ``authorizerd.writes=refuse``."""

    def __init__(self, settings: FollowSettings) -> None:
        self._error: Final = RejectedUpdateError(ErrorCode.POLICY_VIOLATION, _explain(settings))
        self._closed: Final = trio.Event()
        self.statistics: Final = UpdateStatistics()

    @property
    def checks_guards(self) -> bool:
        """False: others change the cluster's ACLs, and its answers do not carry an offset."""
        return False

    def create(self, acls: Sequence[Acl], context: RequestContext) -> Sequence[Completion[None]]:
        """Return one failed completion per item."""
        return reject_items(self._error, len(acls))

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext
    ) -> Sequence[Completion[Deleted]]:
        """Return one failed completion per filter."""
        return reject_items(self._error, len(filters))

    def change_cluster(self, plan: PlanCluster[T], on_applied: Callable[[], None]) -> Completion[T]:
        """Return a failed completion."""
        return reject_cluster_change()

    def close(self) -> None:
        """End ``run``."""
        self._closed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait for ``close``."""
        task_status.started()
        await self._closed.wait()


def reject_items(error: Exception, count: int) -> Sequence[Completion[T]]:
    """Return ``count`` completions that have failed with ``error``."""
    whole: Completion[Sequence[T | Exception]] = Completion()
    whole.fail(error)
    return ItemCompletions(whole, count)


def reject_cluster_change() -> Completion[T]:
    """Return the failed completion of a change that does not concern ACLs."""
    completion: Completion[T] = Completion()
    completion.fail(RejectedUpdateError(ErrorCode.POLICY_VIOLATION, CLUSTER_CHANGE_REFUSED))
    return completion


def _explain(settings: FollowSettings) -> str:
    servers = ", ".join(str(Address(server.host, server.port)) for server in settings.servers)
    if settings.kind is SourceKind.QUORUM:
        where, modes = "a broker of the cluster, or to a controller", "as-self or forward"
    else:
        where, modes = "a broker of the cluster", str(Writes.AS_SELF)
    return (
        f"This daemon follows a cluster and does not change its ACLs ({WRITES}={Writes.REFUSE})."
        f" Send the change to {where} ({servers}), or set {WRITES} to {modes}."
    )
