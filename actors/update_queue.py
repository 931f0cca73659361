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
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import trio

from authorizerd.acl.errors import AclError
from authorizerd.acl.model import Acl, AclFilter, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import ITEMS_PER_CHUNK, Steps, free
from authorizerd.acl.updates import (
    RECORDS_PER_REQUEST_MAX,
    AclTail,
    Deleted,
    Plan,
    plan_creations,
    plan_deletions,
)
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp, Prepare
from authorizerd.actors.steps import finish_in_turns
from authorizerd.actors.update_request import LogTail, UpdateRequest, list_probes
from authorizerd.actors.updates import PlanCluster, UpdateStatistics
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import ClusterImage

T = TypeVar("T")

CHANGES_PER_FLUSH_MAX: Final = 20_000
"""The maximum number of ACL changes per flush. One request has RECORDS_PER_REQUEST_MAX at most."""


LogChange = Change | ClusterChange


class ChangeLog(Protocol):
    """The log in which batches become durable."""

    async def append(
        self, batches: Sequence[tuple[LogChange, ...]], before_sync: Callable[[], None]
    ) -> int:
        """Write each item of ``batches`` as one record batch, and sync once.

        Return the last offset.

        Args:
            before_sync: called in the event loop once everything is written. It must not raise.

        Raises:
            UpdateRefusedError: nothing was written, and a later append may succeed.
            OSError: it is not known which batches are durable.
        """


async def _applied_here() -> None:
    """Return at once: no other process makes decisions."""


class UpdateQueue:
    """Accept updates, write them, and acknowledge them.

    Args:
        log: makes the batches durable.
        applier: the inbox of the applier, which gets the durable changes, and before that, while
            the log syncs them, Prepare.
        requests_max: the maximum number of waiting requests. More are refused.
        new_id: returns a new 16-byte id for an ACL.
        acls_changed_at: returns the log offset of the last applied change of ACLs, or a later one.
        applied_everywhere: returns once every other deciding process has applied what is published.
        on_written: called for each request that has changed ACLs, with the last offset of its
            changes.
    """

    def __init__(
        self,
        log: ChangeLog,
        applier: trio.MemorySendChannel[ChangeBatch | Prepare | CaughtUp],
        snapshot: View[AclSnapshot | None],
        image: View[ClusterImage],
        *,
        requests_max: int,
        new_id: Callable[[], bytes],
        acls_changed_at: Callable[[], int],
        applied_everywhere: Callable[[], Awaitable[None]] = _applied_here,
        on_written: Callable[[RequestContext, int], None] | None = None,
    ) -> None:
        self._on_written = on_written
        self._applied_everywhere = applied_everywhere
        self._log = log
        self._applier = applier
        self._snapshot = snapshot
        self._image = image
        self._new_id = new_id
        self._acls_changed_at = acls_changed_at
        self._inbox_sender, self._inbox = trio.open_memory_channel[UpdateRequest[Any]](requests_max)
        self.statistics: Final = UpdateStatistics()

    @property
    def checks_guards(self) -> bool:
        """Return True: requests are planned against the log's end, which only this queue writes."""
        return True

    def create(
        self, acls: Sequence[Acl], context: RequestContext | None = None
    ) -> Sequence[Completion[None]]:
        """Queue one creation request. Return one completion per item, in order.

        A completion fails with an AclError (that item is invalid, or the guard's condition does not
        hold), UpdateRefusedError (nothing was done) or LogWriteError (it is not known whether it
        was done).

        The log does not say who made a change; ``on_written`` gets the context.
        """
        items = list(acls)
        return self._accept_items(
            items, lambda tail: plan_creations(tail, items, self._new_id), _reject_creation, context
        )

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext | None = None
    ) -> Sequence[Completion[Deleted]]:
        """Queue one deletion request. Return one completion per filter, in order.

        A completion fails with UpdateRefusedError or LogWriteError, as for ``create``. An invalid
        filter is reported in its answer.
        """
        items = list(filters)
        return self._accept_items(
            items, lambda tail: plan_deletions(tail, items), _reject_deletion, context
        )

    def _accept_items(
        self,
        items: list[Acl] | list[AclFilter],
        plan: Callable[[AclTail], Steps[Plan[Change, Sequence[T | Exception]]]],
        reject: Callable[[AclError], T | Exception],
        context: RequestContext | None,
    ) -> Sequence[Completion[T]]:
        """Queue a request. ``items`` is a copy: planning empties it."""
        count = len(items)

        def prepare(tail: LogTail) -> Steps[Plan[Change, Sequence[T | Exception]]]:
            made = yield from plan(tail.acls)
            yield from free(items, ITEMS_PER_CHUNK)
            return made

        guard = None if context is None else context.guard
        request = UpdateRequest(prepare, lambda error: (reject(error),) * count, guard)
        if context is not None and self._on_written is not None:
            request.on_written = partial(self._on_written, context)
        return ItemCompletions(self._accept(request), count)

    def change_cluster(self, plan: PlanCluster[T], on_applied: Callable[[], None]) -> Completion[T]:
        """Queue one request that does not concern ACLs.

        Args:
            plan: called with the image at the tail of the log. It must change nothing.
            on_applied: called once the plan is durable and applied. It may send values to the other
                deciding processes; the request is answered once they have also applied these.

        The completion fails with UpdateRefusedError or LogWriteError, as for ``create``.
        """
        return self._accept(
            UpdateRequest(
                lambda tail: tail.plan_cluster(plan), on_applied=on_applied, is_of_acls=False
            )
        )

    def _accept(self, request: UpdateRequest[T]) -> Completion[T]:
        try:
            self._inbox_sender.send_nowait(request)
        except trio.WouldBlock:
            request.refuse(UpdateRefusedError("too many updates are waiting"))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            request.refuse(UpdateRefusedError("the daemon is shutting down"))
        else:
            self.statistics.requests_waiting += 1
        return request.completion

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

    async def _flush(self, first: UpdateRequest[Any]) -> None:
        """Plan ``first`` and the requests waiting behind it. Write, apply and answer all of them.

        Each request is planned against the tail. A flush takes as many requests as its limit of
        changes allows.
        """
        group = [first]
        try:
            offset = await finish_in_turns(self._plan_group(group))
            offset = await self._write(group, offset)
            for request in group:
                request.on_applied()
            await self._applied_everywhere()
            for request, end in list_probes(group, offset):
                request.answer(end)
        except UpdateRefusedError as error:  # nothing was written: forget the plans
            for request in group:
                request.refuse(error)
        finally:
            # After a cancellation, the append may have been completed or not.
            for request in group:
                request.refuse(LogWriteError("interrupted: the update may still apply"))
            self.statistics.requests_waiting -= len(group)

    def _plan_group(self, group: list[UpdateRequest[Any]]) -> Steps[int]:
        """Plan, in steps, the first request of ``group``; add and plan those waiting behind it.

        Return the log offset before them.
        """
        snapshot = self._snapshot.newest
        assert snapshot is not None, "nothing is flushed before the ACLs are loaded"
        # Keep no reference to the state after planning: the applier frees it in steps.
        acls = AclTail(snapshot, self._acls_changed_at())
        tail = LogTail(acls, self._image.newest)
        # Read once: requests that change nothing could otherwise extend this flush for ever.
        waiting = self._inbox.statistics().current_buffer_used
        changes = 0
        while True:
            yield from group[-1].make_plan(tail)
            changes += len(group[-1].changes)
            # The size of the next request is known only after planning: assume the maximum.
            if not waiting or changes + RECORDS_PER_REQUEST_MAX > CHANGES_PER_FLUSH_MAX:
                break
            group.append(self._inbox.receive_nowait())
            waiting -= 1
            yield
        yield from tail.release_images()
        return snapshot.offset

    async def _write(self, group: Sequence[UpdateRequest[Any]], offset: int) -> int:
        """Return the last offset once the plans, one batch each, are durable and applied.

        Args:
            offset: the last offset if there is nothing to write.
        """
        written = [request for request in group if request.changes]
        if not written:
            return offset
        try:
            last_offset = await self._log.append(
                [request.changes for request in written], partial(self._prepare, written)
            )
        except OSError as error:
            raise LogWriteError(f"the log could not be written: {error}") from error
        self.statistics.flushes += 1
        self.statistics.batches_written += len(written)
        for request, end in list_probes(written, last_offset):
            await self._applier.send(request.batch(end))
        await self._snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= last_offset
        )
        return last_offset

    def _prepare(self, written: Sequence[UpdateRequest[Any]]) -> None:
        """Let the applier compute the next states while the log is synced."""
        batches = tuple(request.changes for request in written if request.is_of_acls)
        # The applier itself computes what is not prepared, so this may fail.
        with suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            self._applier.send_nowait(Prepare(batches))

    def _refuse_all(self, error: UpdateRefusedError) -> None:
        while True:
            try:
                request = self._inbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                return
            request.refuse(error)
            self.statistics.requests_waiting -= 1


def _reject_creation(error: AclError) -> Exception | None:
    return error


def _reject_deletion(error: AclError) -> Deleted | Exception:
    return Deleted(error=error)
