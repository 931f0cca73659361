"""The UpdateQueue: creations and deletions in, one durable batch a request out, in order.

Invariant: it is the one writer of the log's tail. A request is planned against the tail (what is
published and what was planned before it), so two equal creations in one flush write one record.
An item is acknowledged only after the sync of its batch has returned *and* its change is applied,
so whoever is told "created" is judged by it from then on.

What waits together is written together: several batches, one append, one sync. Work that was
accepted is done whatever becomes of its caller. An error of the log fails all that waits and ends
the daemon: what is on the disk then is not known, and nothing may be built on it.

Source: KIP-504 (asynchronous ACL updates), KIP-801; Kafka 4.3 QuorumController.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, assert_never

import trio

from acl.cluster import ClusterImage, apply_cluster_changes
from acl.cluster_changes import ClusterChange
from acl.errors import AclError
from acl.model import Acl, AclFilter, Change, ChangeBatch
from acl.snapshot import AclSnapshot
from acl.updates import CreationPlan, Deleted, DeletionPlan, plan_creations, plan_deletions
from actors.completion import Completion
from actors.errors import LogWriteError, UpdateRefusedError
from actors.published import View
from actors.record_applier import CaughtUp
from actors.steps import finish_in_turns

T = TypeVar("T")

CHANGES_PER_FLUSH_MAX: Final = 20_000
"""Requests are taken into one flush until it holds so many changes."""


LogChange = Change | ClusterChange


@dataclass(frozen=True, slots=True)
class ClusterPlan(Generic[T]):
    """What a request changes beside ACLs, and what it is answered."""

    changes: tuple[ClusterChange, ...]
    result: T


class ChangeLog(Protocol):
    """Where batches become durable."""

    async def append(self, batches: Sequence[tuple[LogChange, ...]]) -> int:
        """Write each item of ``batches`` as one record batch, sync once, return the last offset.

        Raises:
            UpdateRefusedError: nothing was written, and a later append may succeed.
            OSError: it is not known what of the batches is durable.
        """


@dataclass(frozen=True, slots=True)
class _Creations:
    acls: Sequence[Acl]
    completions: Sequence[Completion[None]]


@dataclass(frozen=True, slots=True)
class _Deletions:
    filters: Sequence[AclFilter]
    completions: Sequence[Completion[Deleted]]


@dataclass(frozen=True, slots=True)
class _ClusterRequest:
    plan: Callable[[ClusterImage], ClusterPlan[Any]]
    take: Callable[[], None]
    completions: Sequence[Completion[Any]]


_Request = _Creations | _Deletions | _ClusterRequest
_Plan = CreationPlan | DeletionPlan | ClusterPlan[Any]


@dataclass(slots=True)
class _Tail:
    """The state after all that was planned, and what was planned of late."""

    snapshot: AclSnapshot
    image: ClusterImage
    planned: list[tuple[_Request, _Plan]] = field(default_factory=list)


@dataclass(slots=True)
class UpdateStatistics:
    """``requests_waiting`` were accepted and are not acknowledged yet."""

    requests_waiting: int = 0
    flushes: int = 0
    batches_written: int = 0


async def _nowhere_else() -> None:
    """Return at once: nobody decides beside this process."""


class UpdateQueue:
    """Args:
    applied_everywhere: returns once whoever else decides has applied all that is published.
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
        applied_everywhere: Callable[[], Awaitable[None]] = _nowhere_else,
    ) -> None:
        self._applied_everywhere = applied_everywhere
        self._log = log
        self._applier = applier
        self._snapshot = snapshot
        self._image = image
        self._new_id = new_id
        self._inbox_sender, self._inbox = trio.open_memory_channel[_Request](requests_max)
        self.statistics: Final = UpdateStatistics()

    def create(self, acls: Sequence[Acl]) -> list[Completion[None]]:
        """Queue one request of creations; one completion an item, in order.

        A completion fails with an AclError (that item's fault), with UpdateRefusedError (not done)
        or with LogWriteError (it is not known whether it was done).
        """
        completions: list[Completion[None]] = [Completion() for _ in acls]
        self._accept(_Creations(tuple(acls), tuple(completions)))
        return completions

    def delete(self, filters: Sequence[AclFilter]) -> list[Completion[Deleted]]:
        """Queue one request of deletions; one completion a filter, in order.

        A completion fails with UpdateRefusedError or LogWriteError, as for ``create``; a filter's
        own fault is part of what it is answered.
        """
        completions: list[Completion[Deleted]] = [Completion() for _ in filters]
        self._accept(_Deletions(tuple(filters), tuple(completions)))
        return completions

    def change_cluster(
        self, plan: Callable[[ClusterImage], ClusterPlan[T]], take: Callable[[], None]
    ) -> Completion[T]:
        """Queue one request of changes beside ACLs.

        Args:
            plan: is given the tail of the log; short, and changes nothing.
            take: called once what was planned is durable and applied, before it is answered; what
                it hands on to whoever else decides is waited for, too.

        The completion fails with UpdateRefusedError or LogWriteError, as for ``create``.
        """
        completion = Completion[T]()
        self._accept(_ClusterRequest(plan, take, (completion,)))
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
        """Accept no more; ``run`` ends once what was accepted is done."""
        self._inbox_sender.close()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until the ACLs are loaded, then write until ``close``.

        Cancelled, it finishes the append under way and refuses what waits.

        Raises:
            LogWriteError: the log could not be written.
        """
        task_status.started()
        async with self._inbox:
            try:
                await self._snapshot.wait_until(lambda newest: newest is not None)
                async for request in self._inbox:
                    await self._flush(self._group(request))
            finally:
                self._refuse_all(UpdateRefusedError("the daemon is shutting down"))

    def _group(self, first: _Request) -> list[_Request]:
        """Return ``first`` and what waits behind it, as much as fits into one flush."""
        group = [first]
        size = _size(first)
        while size < CHANGES_PER_FLUSH_MAX:
            try:
                request = self._inbox.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            group.append(request)
            size += _size(request)
        return group

    async def _flush(self, group: list[_Request]) -> None:
        """Plan each request against the tail, write all, apply all, answer all."""
        try:
            snapshot = self._snapshot.newest
            assert snapshot is not None, "nothing is flushed before it is loaded"
            tail = _Tail(snapshot, self._image.newest)
            for request in group:
                await self._plan(tail, request)
            await self._write([plan for _, plan in tail.planned if plan.changes])
            for request, _ in tail.planned:
                if isinstance(request, _ClusterRequest):
                    request.take()
            await self._applied_everywhere()
            for request, plan in tail.planned:
                _answer(request, plan)
        except UpdateRefusedError as error:  # what was planned is forgotten: nothing is written
            for request in group:
                _refuse(request, error)
        finally:
            for request in group:
                _refuse(request, LogWriteError("interrupted: the update may still apply"))
            self.statistics.requests_waiting -= len(group)

    async def _plan(self, tail: _Tail, request: _Request) -> None:
        """Plan one request against the tail, and move the tail on."""
        plan: _Plan
        match request:
            case _Creations(acls):
                plan = await finish_in_turns(plan_creations(tail.snapshot, acls, self._new_id))
                tail.snapshot = plan.tail
            case _Deletions(filters):
                plan = await finish_in_turns(plan_deletions(tail.snapshot, filters))
                tail.snapshot = plan.tail
            case _ClusterRequest(plan_changes):
                plan = plan_changes(tail.image)
                tail.image = apply_cluster_changes(tail.image, plan.changes)
            case _:
                assert_never(request)
        tail.planned.append((request, plan))

    async def _write(self, plans: list[_Plan]) -> None:
        """Return once what is planned, a batch each, is durable and applied."""
        if not plans:
            return
        try:
            last_offset = await self._log.append([plan.changes for plan in plans])
        except OSError as error:
            raise LogWriteError(f"the log could not be written: {error}") from error
        self.statistics.flushes += 1
        self.statistics.batches_written += len(plans)
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


def _size(request: _Request) -> int:
    return len(request.completions)


def _batch_of(plan: _Plan, last_offset: int) -> ChangeBatch:
    if isinstance(plan, ClusterPlan):
        return ChangeBatch(last_offset, cluster_changes=plan.changes)
    return ChangeBatch(last_offset, plan.changes)


def _answer(request: _Request, plan: _Plan) -> None:
    match request, plan:
        case _Creations(), CreationPlan():
            for created, error in zip(request.completions, plan.errors, strict=True):
                if error is None:
                    created.succeed(None)
                else:
                    created.fail(error)
        case _Deletions(), DeletionPlan():
            for deleted, result in zip(request.completions, plan.results, strict=True):
                deleted.succeed(result)
        case _ClusterRequest(), ClusterPlan():
            (changed,) = request.completions
            changed.succeed(plan.result)


def _refuse(request: _Request, error: UpdateRefusedError | LogWriteError | AclError) -> None:
    """Fail what is not done yet."""
    for completion in request.completions:
        if not completion.is_done:
            completion.fail(error)
