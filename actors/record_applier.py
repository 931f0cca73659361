"""The RecordApplier: committed changes in, ACL snapshots and cluster images out, in log order.

Invariant: it alone replaces the two, and publishes them together: whoever reads both without
waiting in between sees one state of the log. Nothing is published before the source says that it
has handed on everything up to the high water mark; from then on every batch shows whole or not at
all. A batch that does not fit what came before means the log or this code is wrong, so the error
ends the daemon.

It works in slices, with a checkpoint after each: the unit of what shows is the batch, the unit of
what holds the event loop is the slice. Once it has loaded, and after each slice from then on, it
calls ``settle``: the objects that now exist will stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from authorizerd.acl.builder import SnapshotBuilder
from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import (
    CHANGES_PER_STATE,
    STATES_FREED_PER_STEP,
    AclSnapshot,
    apply_changes,
    at_offset,
)
from authorizerd.acl.steps import free
from authorizerd.actors.errors import UnfitChangeError
from authorizerd.actors.published import Published, View
from authorizerd.actors.steps import finish_in_turns
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ChangeError

CHANGES_PER_SLICE: Final = CHANGES_PER_STATE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Said once by a source: everything up to the high water mark, ``offset``, was handed on."""

    offset: int


@dataclass(frozen=True, slots=True)
class ApplierStatistics:
    """``offset`` and ``acls`` are -1 until the snapshot is loaded."""

    offset: int
    acls: int
    batches_waiting: int


class RecordApplier:
    def __init__(
        self,
        inbox: trio.MemoryReceiveChannel[ChangeBatch | CaughtUp],
        *,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._inbox = inbox
        self._settle = settle
        self._snapshot: Published[AclSnapshot | None] = Published(None)
        self._cluster: Published[ClusterImage] = Published(EMPTY_IMAGE)

    @property
    def snapshot(self) -> View[AclSnapshot | None]:
        """The newest snapshot, None until it is loaded."""
        return self._snapshot

    @property
    def cluster(self) -> View[ClusterImage]:
        """What the log says beside ACLs, empty until it is loaded."""
        return self._cluster

    def statistics(self) -> ApplierStatistics:
        newest = self._snapshot.newest
        return ApplierStatistics(
            offset=-1 if newest is None else newest.offset,
            acls=-1 if newest is None else len(newest.acls),
            batches_waiting=self._inbox.statistics().current_buffer_used,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load, then apply batches until every sender has closed its end.

        Raises:
            UnfitChangeError: a batch that the ACLs before it do not allow.
        """
        async with self._inbox:
            task_status.started()
            loaded = await self._load()
            if loaded is None:
                return
            snapshot, cluster = loaded
            del loaded  # or what was loaded would be kept for ever
            self._settle()
            self._publish(snapshot, cluster)
            replaced: list[AclSnapshot] = []
            async for message in self._inbox:
                assert isinstance(message, ChangeBatch), "a source catches up once"
                snapshot = await self._apply(snapshot, message, replaced)
                cluster = await self._apply_to_cluster(cluster, message)
                if message.is_end:
                    snapshot = at_offset(snapshot, message.last_offset)
                    self._publish(snapshot, cluster)
                    await _let_go(replaced)

    def _publish(self, snapshot: AclSnapshot, cluster: ClusterImage) -> None:
        """Show both; the snapshot, whose offset others wait for, when the image is there."""
        if cluster is not self._cluster.newest:
            self._cluster.publish(cluster)
        self._snapshot.publish(snapshot)

    async def _load(self) -> tuple[AclSnapshot, ClusterImage] | None:
        """Return what is loaded, None where the source ended before it had caught up."""
        builder = SnapshotBuilder()
        cluster = EMPTY_IMAGE
        async for message in self._inbox:
            if isinstance(message, CaughtUp):
                snapshot = await finish_in_turns(builder.freeze_in_steps(message.offset))
                return snapshot, cluster
            try:
                for changes in _slices(message.changes):
                    builder.apply_changes(changes)
                    await trio.lowlevel.checkpoint()
            except ChangeError as error:
                raise UnfitChangeError(message.last_offset, error) from error
            cluster = await self._apply_to_cluster(cluster, message)
        return None

    async def _apply(
        self, snapshot: AclSnapshot, batch: ChangeBatch, replaced: list[AclSnapshot]
    ) -> AclSnapshot:
        """Return the state that follows; add those before it, in order, to ``replaced``."""
        assert batch.last_offset > snapshot.offset, "batches are applied in log order"
        try:
            for changes in _slices(batch.changes):
                replaced.append(snapshot)
                snapshot = apply_changes(snapshot, changes)
                self._settle()
                await trio.lowlevel.checkpoint()
        except ChangeError as error:
            raise UnfitChangeError(batch.last_offset, error) from error
        return snapshot

    async def _apply_to_cluster(self, cluster: ClusterImage, batch: ChangeBatch) -> ClusterImage:
        try:
            for changes in _slices(batch.cluster_changes):
                cluster = apply_cluster_changes(cluster, changes)
                if self._snapshot.newest is not None:
                    self._settle()
                await trio.lowlevel.checkpoint()
        except ChangeError as error:
            raise UnfitChangeError(batch.last_offset, error) from error
        return cluster


async def _let_go(replaced: list[AclSnapshot]) -> None:
    """Free states, the oldest first, in turns with others."""
    replaced.reverse()
    await finish_in_turns(free(replaced, STATES_FREED_PER_STEP))


def _slices(changes: tuple[T, ...]) -> list[tuple[T, ...]]:
    return [
        changes[start : start + CHANGES_PER_SLICE]
        for start in range(0, len(changes), CHANGES_PER_SLICE)
    ]
