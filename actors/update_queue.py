"""The UpdateQueue: it turns requests into durable batches, one batch per request, in order.

**Invariant:** the queue is the only writer at the log's tail. It plans each request against the
tail: the published state plus everything planned since. So two equal creations in one flush write
one record. An item is acknowledged only after the sync of its batch has returned *and* its change
is applied, so a caller that gets "created" sees the ACL in every later decision.

Requests that wait together are written together: several batches, one append, one sync. Accepted
work is done even if its caller is cancelled. An error of the log fails every waiting request and
ends the daemon: the contents of the disk are then unknown, and nothing may build on them.

Source: KIP-504 (asynchronous ACL updates), KIP-801; Kafka 4.3 QuorumController.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, assert_never

import trio

from authorizerd.acl.change_guard import ChangeGuard, check_unchanged
from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.model import Acl, AclFilter, Change, ChangeBatch
from authorizerd.acl.snapshot import CHANGES_PER_STATE, STATES_FREED_PER_STEP, AclSnapshot
from authorizerd.acl.steps import Steps, free
from authorizerd.acl.updates import (
    RECORDS_PER_REQUEST_MAX,
    CreationPlan,
    Deleted,
    DeletionPlan,
    Tail,
    plan_creations,
    plan_deletions,
    reject_creations,
    reject_deletions,
)
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.actors.steps import finish_in_turns
from authorizerd.actors.updates import ClusterPlan, PlanCluster, UpdateStatistics
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes

T = TypeVar("T")

CHANGES_PER_FLUSH_MAX: Final = 20_000
"""The maximum number of ACL changes per flush. One request has RECORDS_PER_REQUEST_MAX at most."""


LogChange = Change | ClusterChange


class ChangeLog(Protocol):
    """The log in which batches become durable."""

    async def append(self, batches: Sequence[tuple[LogChange, ...]]) -> int:
        """Write each item of ``batches`` as one record batch, and sync once.

        Return the last offset.

        Raises:
            UpdateRefusedError: nothing was written, and a later append may succeed.
            OSError: it is not known which batches are durable.
        """


@dataclass(frozen=True, slots=True)
class _Creations:
    """A creation request. Planning empties ``acls``."""

    acls: list[Acl]
    guard: ChangeGuard | None
    completion: Completion[Sequence[Exception | None]]


@dataclass(frozen=True, slots=True)
class _Deletions:
    """A deletion request. Planning empties ``filters``."""

    filters: list[AclFilter]
    guard: ChangeGuard | None
    completion: Completion[Sequence[Deleted | Exception]]


@dataclass(frozen=True, slots=True)
class _ClusterRequest:
    """A request that does not concern ACLs."""

    plan: PlanCluster[Any]
    on_applied: Callable[[], None]
    completion: Completion[Any]


_Request = _Creations | _Deletions | _ClusterRequest
_Plan = CreationPlan | DeletionPlan | ClusterPlan[Any]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A request and its plan.

    ``guard`` is to be told where the request was written; None if the request is rejected.
    """

    request: _Request
    plan: _Plan
    guard: ChangeGuard | None = None


@dataclass(slots=True)
class _Flush:
    """The requests that are planned so far.

    ``offset`` is the log offset before them; ``changed_at`` is that of the last change of ACLs, or
    a later one.
    """

    offset: int
    changed_at: int
    planned: list[_Planned] = field(default_factory=list)

    def find_conflict(self, guard: ChangeGuard | None) -> StateMovedError | None:
        """Return why the condition of a request does not hold at the tail, or None if it does."""
        if guard is None or not guard.is_conditional:
            return None
        try:
            check_unchanged(guard.expected_offset, offset=self.offset, changed_at=self.changed_at)
        except StateMovedError as error:
            # The traceback has frames that hold the tail and this error, so they would be a cycle.
            return error.with_traceback(None)
        return None

    def add(
        self, request: _Request, plan: CreationPlan | DeletionPlan, guard: ChangeGuard | None
    ) -> None:
        """Note what was planned for a request that concerns ACLs."""
        if plan.changes:
            # Not written yet, so after every offset that a client can have seen.
            self.changed_at = self.offset + 1
        self.planned.append(_Planned(request, plan, guard))


class _Tail:
    """The state after the requests that are planned so far. ``_images`` leads to ``image``."""

    def __init__(self, snapshot: AclSnapshot, image: ClusterImage) -> None:
        self.acls: Final = Tail(snapshot)
        self.image = image
        self._images: list[ClusterImage] = []

    def apply_to_cluster(self, changes: tuple[ClusterChange, ...]) -> Steps[None]:
        """Apply a plan's changes to the image, in steps."""
        for start in range(0, len(changes), CHANGES_PER_STATE):
            some = changes[start : start + CHANGES_PER_STATE]
            self.image = apply_cluster_changes(self.image, some)
            self._images.append(self.image)
            yield

    def release_images(self) -> Steps[None]:
        """Free, in steps, the images. Each is large, but it differs little from the published one.

        So this must happen before the applier replaces that one.
        """
        self.image = EMPTY_IMAGE
        yield from free(self._images, STATES_FREED_PER_STEP)


async def _applied_here() -> None:
    """Return at once: no other process makes decisions."""


class UpdateQueue:
    """Accept updates, write them, and acknowledge them.

    Args:
        log: makes the batches durable.
        applier: the inbox of the applier, which gets the durable changes.
        requests_max: the maximum number of waiting requests. More are refused.
        new_id: returns a new 16-byte id for an ACL.
        acls_changed_at: returns the log offset of the last applied change of ACLs, or a later one.
        applied_everywhere: returns once every other deciding process has applied what is published.
    """

    def __init__(
        self,
        log: ChangeLog,
        applier: trio.MemorySendChannel[ChangeBatch | CaughtUp],
        snapshot: View[AclSnapshot | None],
        image: View[ClusterImage],
        *,
        requests_max: int,
        new_id: Callable[[], bytes],
        acls_changed_at: Callable[[], int],
        applied_everywhere: Callable[[], Awaitable[None]] = _applied_here,
    ) -> None:
        self._applied_everywhere = applied_everywhere
        self._log = log
        self._applier = applier
        self._snapshot = snapshot
        self._image = image
        self._new_id = new_id
        self._acls_changed_at = acls_changed_at
        self._inbox_sender, self._inbox = trio.open_memory_channel[_Request](requests_max)
        self.statistics: Final = UpdateStatistics()

    @property
    def checks_guards(self) -> bool:
        """True: a request is planned against the end of the log, which only this queue writes."""
        return True

    def create(
        self, acls: Sequence[Acl], context: RequestContext | None = None
    ) -> Sequence[Completion[None]]:
        """Queue one creation request. Return one completion per item, in order.

        A completion fails with an AclError (that item is invalid, or the guard's condition does not
        hold), UpdateRefusedError (nothing was done) or LogWriteError (it is not known whether it
        was done).

        The log does not say who made a change, so only ``context.guard`` is used.
        """
        completion: Completion[Sequence[Exception | None]] = Completion()
        # A copy, since planning empties the list.
        self._accept(_Creations(list(acls), _guard_of(context), completion))
        return ItemCompletions(completion, len(acls))

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext | None = None
    ) -> Sequence[Completion[Deleted]]:
        """Queue one deletion request. Return one completion per filter, in order.

        A completion fails with UpdateRefusedError or LogWriteError, as for ``create``. An invalid
        filter is reported in its answer.
        """
        completion: Completion[Sequence[Deleted | Exception]] = Completion()
        # A copy, since planning empties the list.
        self._accept(_Deletions(list(filters), _guard_of(context), completion))
        return ItemCompletions(completion, len(filters))

    def change_cluster(self, plan: PlanCluster[T], on_applied: Callable[[], None]) -> Completion[T]:
        """Queue one request that does not concern ACLs.

        Args:
            plan: called with the image at the tail of the log. It must change nothing.
            on_applied: called once the plan is durable and applied. It may send values to the other
                deciding processes; the request is answered once they have applied these, too.

        The completion fails with UpdateRefusedError or LogWriteError, as for ``create``.
        """
        completion = Completion[T]()
        self._accept(_ClusterRequest(plan, on_applied, completion))
        return completion

    def _accept(self, request: _Request) -> None:
        try:
            self._inbox_sender.send_nowait(request)
        except trio.WouldBlock:
            _refuse(request, UpdateRefusedError("too many updates are waiting"))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            _refuse(request, UpdateRefusedError("the daemon is shutting down"))
        else:
            self.statistics.requests_waiting += 1

    def close(self) -> None:
        """Accept no more requests. ``run`` ends once the accepted ones are done."""
        self._inbox_sender.close()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until the ACLs are loaded, then write until ``close``.

        If cancelled, it finishes the current append and refuses the waiting requests.

        Raises:
            LogWriteError: the log could not be written.
        """
        task_status.started()
        async with self._inbox:
            try:
                await self._snapshot.wait_until(lambda newest: newest is not None)
                async for request in self._inbox:
                    await self._flush(request)
            finally:
                # Nothing is awaited before the inbox closes, so no request is left unanswered.
                self._refuse_all(UpdateRefusedError("the daemon is shutting down"))

    async def _flush(self, first: _Request) -> None:
        """Plan ``first`` and the requests waiting behind it. Write, apply and answer all of them.

        Each request is planned against the tail. A flush takes as many requests as its limit of
        changes allows.
        """
        group = [first]
        try:
            flush = await finish_in_turns(self._plan_group(group))
            offset = await self._write(flush)
            for each in flush.planned:
                if isinstance(each.request, _ClusterRequest):
                    each.request.on_applied()
            await self._applied_everywhere()
            _set_written(flush.planned, offset)
            for each in flush.planned:
                _answer(each.request, each.plan)
        except UpdateRefusedError as error:  # nothing was written: forget the plans
            for request in group:
                _refuse(request, error)
        finally:
            # After a cancellation, the append may have been completed or not.
            for request in group:
                _refuse(request, LogWriteError("interrupted: the update may still apply"))
            self.statistics.requests_waiting -= len(group)

    def _plan_group(self, group: list[_Request]) -> Steps[_Flush]:
        """Plan, in steps, the first request of ``group``; add and plan those waiting behind it."""
        snapshot = self._snapshot.newest
        assert snapshot is not None, "nothing is flushed before the ACLs are loaded"
        # The applier frees the published state in steps, unless it is kept after the planning.
        tail = _Tail(snapshot, self._image.newest)
        flush = _Flush(snapshot.offset, self._acls_changed_at())
        # Read once: requests that change nothing could otherwise extend this flush for ever.
        waiting = self._inbox.statistics().current_buffer_used
        changes = 0
        while True:
            changes += yield from self._plan(flush, tail, group[-1])
            # The size of the next request is known only after planning: assume the maximum.
            if not waiting or changes + RECORDS_PER_REQUEST_MAX > CHANGES_PER_FLUSH_MAX:
                break
            group.append(self._inbox.receive_nowait())
            waiting -= 1
            yield
        yield from tail.release_images()
        return flush

    def _plan(self, flush: _Flush, tail: _Tail, request: _Request) -> Steps[int]:
        """Plan one request against the tail, and advance the tail. Return the number of changes."""
        plan: _Plan
        match request:
            case _Creations(acls, guard):
                conflict = flush.find_conflict(guard)
                if conflict is None:
                    plan = yield from plan_creations(tail.acls, acls, self._new_id)
                    yield from tail.acls.add(plan)
                else:
                    plan, guard = reject_creations(len(acls), conflict), None
                flush.add(request, plan, guard)
                yield from free(acls)
            case _Deletions(filters, guard):
                conflict = flush.find_conflict(guard)
                if conflict is None:
                    plan = yield from plan_deletions(tail.acls, filters)
                    yield from tail.acls.remove(plan)
                else:
                    plan, guard = reject_deletions(len(filters), conflict), None
                flush.add(request, plan, guard)
                yield from free(filters)
            case _ClusterRequest(plan_changes):
                plan = yield from plan_changes(tail.image)
                yield from tail.apply_to_cluster(plan.changes)
                flush.planned.append(_Planned(request, plan))
            case _:
                assert_never(request)
        return len(plan.changes)

    async def _write(self, flush: _Flush) -> int:
        """Return the last offset once the plans, one batch each, are durable and applied."""
        planned = [each for each in flush.planned if each.plan.changes]
        if not planned:
            return flush.offset
        try:
            last_offset = await self._log.append([each.plan.changes for each in planned])
        except OSError as error:
            raise LogWriteError(f"the log could not be written: {error}") from error
        self.statistics.flushes += 1
        self.statistics.batches_written += len(planned)
        # Each change is one record, so the offsets of the batches follow from their lengths.
        offset = last_offset - sum(len(each.plan.changes) for each in planned)
        for each in planned:
            offset += len(each.plan.changes)
            await self._applier.send(_batch_of(each, offset))
        await self._snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= last_offset
        )
        return last_offset

    def _refuse_all(self, error: UpdateRefusedError) -> None:
        while True:
            try:
                request = self._inbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return
            _refuse(request, error)
            self.statistics.requests_waiting -= 1


def _batch_of(planned: _Planned, last_offset: int) -> ChangeBatch:
    plan = planned.plan
    if isinstance(plan, ClusterPlan):
        return ChangeBatch(last_offset, cluster_changes=plan.changes)
    return ChangeBatch(last_offset, plan.changes)


def _guard_of(context: RequestContext | None) -> ChangeGuard | None:
    return None if context is None else context.guard


def _set_written(planned: Sequence[_Planned], last_offset: int) -> None:
    """Tell each guard the offset of the state after its request; ``last_offset`` is the last's."""
    offset = last_offset - sum(len(each.plan.changes) for each in planned)
    for each in planned:
        offset += len(each.plan.changes)
        if each.guard is not None:
            each.guard.set_written(offset)


def _answer(request: _Request, plan: _Plan) -> None:
    match request, plan:
        case _Creations(completion=created), CreationPlan():
            created.succeed(plan.errors)
        case _Deletions(completion=deleted), DeletionPlan():
            deleted.succeed(plan.results)
        case _ClusterRequest(completion=changed), ClusterPlan():
            changed.succeed(plan.result)


def _refuse(request: _Request, error: UpdateRefusedError | LogWriteError) -> None:
    """Fail the request, unless it is already done."""
    if not request.completion.is_done:
        request.completion.fail(error)
