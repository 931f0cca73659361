"""The RecordApplier turns committed changes into ACL snapshots and cluster images, in log order.

**Invariant:** only the applier replaces the snapshot and the image. Nothing is published before the
source reports that it has passed on everything up to the high water mark. From then on, every batch
becomes visible atomically. A batch that contradicts the state before it means that the log or this
code is wrong: the error ends the applier, or if the log is not ours, decisions.

The applier works in chunks (``acl.steps``), so that a long batch does not block the event loop.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, assert_never

import trio

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Change, ChangeBatch
from authorizerd.acl.release_in_force import UNKNOWN_RELEASE, ReleaseInForce
from authorizerd.acl.snapshot import AclSnapshot, at_offset
from authorizerd.acl.steps import Steps, free, in_chunks
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.actors.errors import UnfitChangeError
from authorizerd.actors.prepared_states import PreparedStates, apply_in_steps
from authorizerd.actors.published_state import STALE, STOPPED, PublishedState
from authorizerd.actors.steps import finish_in_turns
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ChangeError

BATCHES_WAITING_MAX: Final = 16
"""Capacity of the applier's inbox."""

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Sent once a source has passed on everything up to the high water mark, ``offset``."""

    offset: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Sent before CaughtUp only: forget everything so far, because a complete state follows."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """These batches of changes are being synced, and are sent again once they are durable.

    Compute the states after them, and publish nothing.
    """

    batches: tuple[tuple[Change, ...], ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """The state passed on so far may be used for decisions until ``deadline``, a time of the
    clock."""

    deadline: float


@dataclass(frozen=True, slots=True)
class Suspend:
    """Stop publishing snapshots, so that only super users get answers.

    Others are told ``reason``. It names no resource and no principal.
    """

    reason: str


Message: TypeAlias = ChangeBatch | Prepare | CaughtUp | Reset | Renew | Suspend


@dataclass(frozen=True, slots=True)
class ApplierStatistics:
    """The state of the applier. ``offset`` and ``acls`` are -1 while no snapshot is published."""

    offset: int
    acls: int
    batches_waiting: int


class RecordApplier(PublishedState):
    """Apply committed changes, and publish the results.

    Args:
        inbox: the batches of the source, in log order.
        journal: gets every change once it is applied.
        judge, stops_if_newer, deadline, why_expired, clock: see ``PublishedState``.
        on_misfit: if given, a batch that contradicts the state does not end the applier. Instead,
            it publishes no snapshot any more, and calls this function once.
    """

    def __init__(
        self,
        inbox: trio.MemoryReceiveChannel[Message],
        *,
        journal: AclJournal | None = None,
        judge: Callable[[ClusterImage], ReleaseInForce] = lambda image: UNKNOWN_RELEASE,
        stops_if_newer: bool = False,
        on_misfit: Callable[[UnfitChangeError], None] | None = None,
        deadline: float = math.inf,
        why_expired: str = STALE,
        clock: Clock = boot_time,
    ) -> None:
        super().__init__(
            AclJournal(0) if journal is None else journal,
            judge=judge,
            stops_if_newer=stops_if_newer,
            deadline=deadline,
            why_expired=why_expired,
            clock=clock,
        )
        self._inbox = inbox
        self._on_misfit = on_misfit
        self._prepared = PreparedStates()
        self.acls_changed_at = -1
        """The log offset of the last change of ACLs that was passed on, -1 before the first.

        A checkpoint has no deletions, so the last change may be as late as the checkpoint's end.
        """

    def statistics(self) -> ApplierStatistics:
        """Return the current state, for metrics."""
        newest = self._snapshot.newest
        return ApplierStatistics(
            offset=-1 if newest is None else newest.offset,
            acls=-1 if newest is None else len(newest.acls),
            batches_waiting=self._inbox.statistics().current_buffer_used,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load, then apply batches until every sender has closed its end.

        Raises:
            UnfitChangeError: a batch contradicts the state before it, and ``on_misfit`` is None.
        """
        # Closed at the end, so that senders get an error instead of waiting for ever.
        async with self._inbox:
            task_status.started()
            misfit: UnfitChangeError | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._notice_expiry)
                try:
                    await self._apply_all()
                except UnfitChangeError as error:  # raised below, so that it is not in a group
                    misfit = error
                nursery.cancel_scope.cancel()
            if misfit is None:
                return
            if self._on_misfit is None:
                raise misfit
            self._suspend(STOPPED)
            self._on_misfit(misfit)
            async for _ in self._inbox:  # senders must not wait for ever
                pass

    async def _apply_all(self) -> None:
        loaded = await self._load()
        if loaded is None:
            return
        snapshot, cluster = loaded
        del loaded  # otherwise this task would keep the first snapshot forever
        snapshot = self._publish(snapshot, cluster)
        self._is_loaded = True
        self.journal.begin(snapshot.offset, self._why_withheld)
        replaced: list[AclSnapshot] = []
        replaced_images: list[ClusterImage] = []
        async for message in self._inbox:
            match message:
                case Prepare():
                    await finish_in_turns(self._prepared.prepare(snapshot, message.batches))
                case ChangeBatch():
                    await finish_in_turns(self.journal.collect(snapshot, message.changes))
                    self._note_change(message)
                    snapshot = await self._apply(snapshot, message, replaced)
                    cluster = await self._apply_to_cluster(cluster, message, replaced_images)
                    if message.is_end:
                        snapshot = at_offset(snapshot, message.last_offset)
                        snapshot = self._publish(snapshot, cluster)
                        self.journal.commit(snapshot.offset)
                        await _free_states(replaced)
                        await _free_states(replaced_images)
                        await finish_in_turns(self.journal.trim())
                case Suspend(reason):
                    self._suspend(reason)
                case Renew(deadline):
                    self._renew(deadline)
                case CaughtUp() | Reset():
                    raise AssertionError("a source sends these only until it has caught up")
                case _:
                    assert_never(message)
            # Otherwise, the next message would free the changes of this one at once.
            del message

    def _note_change(self, batch: ChangeBatch) -> None:
        if batch.changes:
            self.acls_changed_at = batch.last_offset

    async def _load(self) -> tuple[AclSnapshot, ClusterImage] | None:
        """Return the loaded state, or None if the source ended before it caught up."""
        builder = SnapshotBuilder()
        cluster = EMPTY_IMAGE
        replaced: list[ClusterImage] = []
        async for message in self._inbox:
            match message:
                case CaughtUp(offset):
                    snapshot = await finish_in_turns(
                        builder.freeze_in_steps(offset), creates_many=True
                    )
                    return snapshot, cluster
                case ChangeBatch():
                    self._note_change(message)
                    await _load_changes(builder, message)
                    cluster = await self._apply_to_cluster(cluster, message, replaced)
                    await _free_states(replaced)
                case Reset():
                    builder, cluster = SnapshotBuilder(), EMPTY_IMAGE
                    self.acls_changed_at = -1
                case Suspend(reason):
                    self._suspended = reason
                case Renew(deadline):
                    self._snapshot.publish_until(None, deadline)
                case Prepare():
                    raise AssertionError("nothing is written while the log is read")
                case _:
                    assert_never(message)
        return None

    async def _apply(
        self, snapshot: AclSnapshot, batch: ChangeBatch, replaced: list[AclSnapshot]
    ) -> AclSnapshot:
        """Return the state after ``batch``.

        Append the states that it replaces, in order, to ``replaced``.
        """
        assert batch.last_offset > snapshot.offset, "batches must be applied in log order"
        if not batch.changes:
            return snapshot
        prepared = self._prepared.take(snapshot, batch.changes, replaced)
        if prepared is not None:
            return prepared
        try:
            return await finish_in_turns(apply_in_steps(snapshot, batch.changes, replaced))
        except ChangeError as error:
            raise UnfitChangeError(batch.last_offset, error) from error

    async def _apply_to_cluster(
        self,
        cluster: ClusterImage,
        batch: ChangeBatch,
        replaced: list[ClusterImage],
    ) -> ClusterImage:
        """Return the image after ``batch``; ``replaced`` is as for ``_apply``."""
        if not batch.cluster_changes:
            return cluster
        try:
            return await finish_in_turns(
                _apply_to_cluster_in_steps(cluster, batch.cluster_changes, replaced)
            )
        except ChangeError as error:
            raise UnfitChangeError(batch.last_offset, error) from error


def _apply_to_cluster_in_steps(
    cluster: ClusterImage,
    changes: tuple[ClusterChange, ...],
    replaced: list[ClusterImage],
) -> Steps[ClusterImage]:
    """Return the image after ``changes``. Append the one before each chunk to ``replaced``."""
    for chunk in in_chunks(changes):
        replaced.append(cluster)
        cluster = apply_cluster_changes(cluster, chunk)
        yield
    return cluster


def _load_in_steps(builder: SnapshotBuilder, changes: tuple[Change, ...]) -> Steps[None]:
    for chunk in in_chunks(changes):
        builder.apply_changes(chunk)
        yield


async def _load_changes(builder: SnapshotBuilder, batch: ChangeBatch) -> None:
    """Add the batch to a state that nobody sees yet.

    Raises:
        UnfitChangeError: it contradicts that state.
    """
    try:
        await finish_in_turns(_load_in_steps(builder, batch.changes), creates_many=True)
    except ChangeError as error:
        raise UnfitChangeError(batch.last_offset, error) from error


async def _free_states(replaced: list[AclSnapshot] | list[ClusterImage]) -> None:
    """Free states, the oldest first, and let other tasks run in between."""
    replaced.reverse()  # `free` begins at the end of the list
    await finish_in_turns(free(replaced))
