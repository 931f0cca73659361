"""A request to change the ACLs or other metadata: it is planned against the tail of the log.

**Invariant:** a request is planned as a whole, and its plan advances the tail, so that the next
request sees its changes. A request whose guard does not hold is rejected, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from authorizerd.acl.errors import AclError
from authorizerd.acl.expected_offset import ExpectedOffset
from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.steps import Steps, free, in_chunks
from authorizerd.acl.updates import AclTail, Plan
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.updates import ClusterPlan, PlanCluster
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes

T = TypeVar("T")


def _do_nothing() -> None: ...


@dataclass(slots=True, eq=False)
class UpdateRequest(Generic[T]):
    """A request and, once it is planned, its plan.

    Attributes:
        prepare: plans it in steps, and advances the tail.
        reject: returns the answer if the condition of ``guard`` does not hold.
        on_applied: called once its changes are durable and applied.
        on_written: called before its answer with the last offset of its changes, if it has any.
        is_of_acls: whether its changes are of ACLs.
    """

    prepare: Callable[[LogTail], Steps[Plan[Any, T]]]
    reject: Callable[[AclError], T] | None = None
    guard: ExpectedOffset | None = None
    on_applied: Callable[[], None] = _do_nothing
    on_written: Callable[[int], None] | None = None
    completion: Completion[T] = field(default_factory=Completion)
    is_of_acls: bool = True
    plan: Plan[Any, T] | None = None

    def make_plan(self, tail: LogTail) -> Steps[None]:
        """Plan the request in steps, or reject it if its guard's condition does not hold."""
        conflict = tail.acls.find_conflict(self.guard)
        if conflict is None:
            self.plan = yield from self.prepare(tail)
        else:
            assert self.reject is not None, "only requests that concern ACLs have a guard"
            self.plan, self.guard = Plan((), self.reject(conflict)), None

    @property
    def changes(self) -> tuple[Any, ...]:
        """The changes of the request's plan."""
        return () if self.plan is None else self.plan.changes

    def batch(self, last_offset: int) -> ChangeBatch:
        """Return its changes as the batch that ends at ``last_offset``."""
        if self.is_of_acls:
            return ChangeBatch(last_offset, self.changes)
        return ChangeBatch(last_offset, cluster_changes=self.changes)

    def answer(self, offset: int) -> None:
        """Give the result, and tell the guard the offset of the state after the request."""
        assert self.plan is not None, "each request of a flush is planned"
        if self.guard is not None:
            self.guard.set_written(offset)
        if self.on_written is not None and self.plan.changes:
            self.on_written(offset)
        self.completion.succeed(self.plan.result)

    def refuse(self, error: UpdateRefusedError | LogWriteError) -> None:
        """Fail the request, unless it is already done."""
        if not self.completion.is_done:
            self.completion.fail(error)


class LogTail:
    """The state after the requests planned so far. ``_images`` leads to ``image``."""

    def __init__(self, acls: AclTail, image: ClusterImage) -> None:
        self.acls: Final = acls
        self.image = image
        self._images: list[ClusterImage] = []

    def plan_cluster(self, plan: PlanCluster[T]) -> Steps[ClusterPlan[T]]:
        """Make a plan that does not concern ACLs, and apply it to the image in steps."""
        made = plan(self.image)
        for chunk in in_chunks(made.changes):
            self.image = apply_cluster_changes(self.image, chunk)
            self._images.append(self.image)
            yield
        return made

    def release_images(self) -> Steps[None]:
        """Free, in steps, the images. Each is large, but it differs little from the published one.

        So this must happen before the applier replaces that one.
        """
        self.image = EMPTY_IMAGE
        yield from free(self._images)


def list_probes(
    group: Sequence[UpdateRequest[Any]], last_offset: int
) -> Iterator[tuple[UpdateRequest[Any], int]]:
    """Yield each request, and the offset of its last change; all end at ``last_offset``."""
    # Each change is one record, so the offsets of the batches follow from their lengths.
    offset = last_offset - sum(len(request.changes) for request in group)
    for request in group:
        offset += len(request.changes)
        yield request, offset
