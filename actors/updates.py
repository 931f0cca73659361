"""Updates: the ways to change the ACLs and other metadata, no matter which process writes.

**Invariant:** an item is acknowledged only once every decision, in every process, uses a state that
includes it. Accepted work is done even if its caller is cancelled.

Source: KIP-504 (asynchronous ACL updates).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.updates import Deleted, Plan
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import ClusterImage

T = TypeVar("T")


ClusterPlan: TypeAlias = Plan[ClusterChange, T]
"""The changes of a request that does not concern ACLs, and its answer."""

PlanCluster: TypeAlias = Callable[[ClusterImage], ClusterPlan[T]]
"""A function that plans a request from the image at the end of the log."""


@dataclass(slots=True)
class UpdateStatistics:
    """The counters of updates. ``requests_waiting`` counts requests that are accepted but not
    acknowledged yet."""

    requests_waiting: int = 0
    flushes: int = 0
    batches_written: int = 0


class Updates(Protocol):
    """Accept updates, have them written, and acknowledge them.

    A completion fails with an AclError (that item is invalid), RejectedUpdateError (the cluster, or
    the daemon's configuration, rejects the item), UpdateRefusedError (nothing was done) or
    LogWriteError (it is not known whether it was done).
    """

    @property
    def statistics(self) -> UpdateStatistics: ...

    @property
    def checks_guards(self) -> bool:
        """True if no other change can slip between the check of a guard and its request."""

    def create(self, acls: Sequence[Acl], context: RequestContext) -> Sequence[Completion[None]]:
        """Create ACLs for the caller in ``context``. Return one completion per item, in order.

        A request with ``context.guard`` fails as a whole with StateMovedError if its condition does
        not hold, provided that ``checks_guards``.
        """

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext
    ) -> Sequence[Completion[Deleted]]:
        """Delete ACLs for the caller in ``context``. Return one completion per filter, in order.

        An invalid filter, and a guard whose condition does not hold, are reported in the answer.
        """

    def change_cluster(self, plan: PlanCluster[T], on_applied: Callable[[], None]) -> Completion[T]:
        """Make a change that does not concern ACLs.

        Args:
            plan: called with the image at the tail of the log. It must change nothing.
            on_applied: called once the plan is durable and applied. It may send values to the other
                deciding processes; the request is answered once they have also applied these.
        """

    def close(self) -> None:
        """Accept no more requests. ``run`` ends once the accepted ones are done."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Handle requests until ``close``. If cancelled, refuse the waiting ones."""
