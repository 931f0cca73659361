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

from authorizerd.acl.model import Acl, AclFilter, Change, ChangeBatch
from authorizerd.acl.snapshot import CHANGES_PER_STATE, STATES_FREED_PER_STEP, AclSnapshot
from authorizerd.acl.steps import Steps, free
from authorizerd.acl.updates import (
    RECORDS_PER_REQUEST_MAX,
    CreationPlan,
    Deleted,
    DeletionPlan,
    plan_creations,
    plan_deletions,
)
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.actors.steps import finish_in_turns
from authorizerd.actors.updates import ClusterPlan, PlanCluster, UpdateStatistics
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import ClusterImage, apply_cluster_changes

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
    completion: Completion[Sequence[Exception | None]]


@dataclass(frozen=True, slots=True)
class _Deletions:
    """A deletion request. Planning empties ``filters``."""

    filters: list[AclFilter]
    completion: Completion[Sequence[Deleted | Exception]]


@dataclass(frozen=True, slots=True)
class _ClusterRequest:
    """A request that does not concern ACLs."""

    plan: PlanCluster[Any]
    on_applied: Callable[[], None]
    completion: Completion[Any]


_Request = _Creations | _Deletions | _ClusterRequest
_Plan = CreationPlan | DeletionPlan | ClusterPlan[Any]


@dataclass(slots=True)
class _Tail:
    """The state after everything planned so far, and the recent plans.

    ``states`` leads from the published state to ``snapshot``, and ``images`` to ``image``.
    """

    snapshot: AclSnapshot
    image: ClusterImage
    states: list[AclSnapshot] = field(default_factory=list)
    images: list[ClusterImage] = field(default_factory=list)
    planned: list[tuple[_Request, _Plan]] = field(default_factory=list)

    def advance(self, states: list[AclSnapshot]) -> None:
        """Move to the last of a plan's states, and take over all of them from the plan."""
        self.snapshot = states[-1]
        self.states += states
        states.clear()

    def apply_to_cluster(self, changes: tuple[ClusterChange, ...]) -> Steps[None]:
        """Apply a plan's changes to the image, in steps."""
        for start in range(0, len(changes), CHANGES_PER_STATE):
            some = changes[start : start + CHANGES_PER_STATE]
            self.image = apply_cluster_changes(self.image, some)
            self.images.append(self.image)
            yield

    def release(self, snapshot: AclSnapshot, image: ClusterImage) -> Steps[None]:
        """Return to the published state. Free the later ones in steps, since each is large."""
        self.snapshot, self.image = snapshot, image
        yield from free(self.states, STATES_FREED_PER_STEP)
        yield from free(self.images, STATES_FREED_PER_STEP)


async def _applied_here() -> None:
    """Return at once: no other process makes decisions."""


class UpdateQueue:
    """Accept updates, write them, and acknowledge them.

    Args:
        log: makes the batches durable.
        applier: the inbox of the applier, which gets the durable changes.
        requests_max: the maximum number of waiting requests. More are refused.
        new_id: returns a new 16-byte id for an ACL.
        applied_everywhere: returns once every other deciding process has applied what is published.
        collect_garbage: called between the steps of a plan, which create many objects.
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
        applied_everywhere: Callable[[], Awaitable[None]] = _applied_here,
        collect_garbage: Callable[[], None] = lambda: None,
    ) -> None:
        self._applied_everywhere = applied_everywhere
        self._collect_garbage = collect_garbage
        self._log = log
        self._applier = applier
        self._snapshot = snapshot
        self._image = image
        self._new_id = new_id
        self._inbox_sender, self._inbox = trio.open_memory_channel[_Request](requests_max)
        self.statistics: Final = UpdateStatistics()

    def create(
        self, acls: Sequence[Acl], context: RequestContext | None = None
    ) -> Sequence[Completion[None]]:
        """Queue one creation request. Return one completion per item, in order.

        A completion fails with an AclError (that item is invalid), UpdateRefusedError (nothing was
        done) or LogWriteError (it is not known whether it was done).

        The log does not say who made a change, so ``context`` is not used.
        """
        completion: Completion[Sequence[Exception | None]] = Completion()
        # A copy, since planning empties the list.
        self._accept(_Creations(list(acls), completion))
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
        self._accept(_Deletions(list(filters), completion))
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
        group: list[_Request] = []
        # Read once: requests that change nothing could otherwise extend this flush for ever.
        waiting = self._inbox.statistics().current_buffer_used
        try:
            snapshot = self._snapshot.newest
            assert snapshot is not None, "nothing is flushed before the ACLs are loaded"
            image = self._image.newest
            tail = _Tail(snapshot, image)
            changes = 0
            group.append(first)
            while True:
                changes += await self._plan(tail, group[-1])
                # The size of the next request is known only after planning: assume the maximum.
                if not waiting or changes + RECORDS_PER_REQUEST_MAX > CHANGES_PER_FLUSH_MAX:
                    break
                group.append(self._inbox.receive_nowait())
                waiting -= 1
            await finish_in_turns(tail.release(snapshot, image))
            await self._write([plan for _, plan in tail.planned if plan.changes])
            for request, _ in tail.planned:
                if isinstance(request, _ClusterRequest):
                    request.on_applied()
            await self._applied_everywhere()
            for request, plan in tail.planned:
                _answer(request, plan)
        except UpdateRefusedError as error:  # nothing was written: forget the plans
            for request in group:
                _refuse(request, error)
        finally:
            # After a cancellation, the append may have been completed or not.
            for request in group:
                _refuse(request, LogWriteError("interrupted: the update may still apply"))
            self.statistics.requests_waiting -= len(group)

    async def _plan(self, tail: _Tail, request: _Request) -> int:
        """Plan one request against the tail, and advance the tail. Return the number of changes."""
        plan: _Plan
        match request:
            case _Creations(acls):
                plan = await finish_in_turns(
                    plan_creations(tail.snapshot, acls, self._new_id), self._collect_garbage
                )
                tail.advance(plan.states)
                await finish_in_turns(free(acls))
            case _Deletions(filters):
                plan = await finish_in_turns(
                    plan_deletions(tail.snapshot, filters), self._collect_garbage
                )
                tail.advance(plan.states)
                await finish_in_turns(free(filters))
            case _ClusterRequest(plan_changes):
                plan = await finish_in_turns(plan_changes(tail.image), self._collect_garbage)
                await finish_in_turns(tail.apply_to_cluster(plan.changes), self._collect_garbage)
            case _:
                assert_never(request)
        tail.planned.append((request, plan))
        return len(plan.changes)

    async def _write(self, plans: list[_Plan]) -> None:
        """Return once the plans, one batch each, are durable and applied."""
        if not plans:
            return
        try:
            last_offset = await self._log.append([plan.changes for plan in plans])
        except OSError as error:
            raise LogWriteError(f"the log could not be written: {error}") from error
        self.statistics.flushes += 1
        self.statistics.batches_written += len(plans)
        # Each change is one record, so the offsets of the batches follow from their lengths.
        offset = last_offset - sum(len(plan.changes) for plan in plans)
        for plan in plans:
            offset += len(plan.changes)
            await self._applier.send(_batch_of(plan, offset))
        await self._snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= last_offset
        )

    def _refuse_all(self, error: UpdateRefusedError) -> None:
        while True:
            try:
                request = self._inbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return
            _refuse(request, error)
            self.statistics.requests_waiting -= 1


def _batch_of(plan: _Plan, last_offset: int) -> ChangeBatch:
    if isinstance(plan, ClusterPlan):
        return ChangeBatch(last_offset, cluster_changes=plan.changes)
    return ChangeBatch(last_offset, plan.changes)


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
