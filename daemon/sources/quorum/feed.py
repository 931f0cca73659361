"""Pass a followed log on to the applier: the copy first, then batches and snapshots of the quorum.

**Invariant:** the applier gets each committed change once, in order. Once the applier has caught
up, it gets a snapshot as the differences from its state, in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import trio

from authorizerd.acl.difference import plan_differences
from authorizerd.acl.listing import Listing
from authorizerd.acl.model import AclAdded, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import in_chunks
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp, Message, Reset
from authorizerd.actors.steps import finish_in_turns
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.own_log_reader import read_some, send_parts
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.difference import plan_image_differences
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import CorruptLogError, MetadataLogError
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.replay import Replay
from authorizerd.protocol.records.batch import RecordBatch

_FETCHED: Final = Path(METADATA_TOPIC_DIRECTORY)
"""The path that errors name for batches that were never in a file."""


class MisfitError(Exception):
    """A committed record cannot be read, or contradicts the records before it."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"log offset {offset}: {reason}")
        self.offset = offset


class Feed:
    """Decode committed batches, and send their changes to the applier.

    Args:
        applier: where the changes are sent.
        applied: the newest state of the applier, also while decisions are stopped.
        cluster: the image that is published together with it.
    """

    def __init__(
        self,
        applier: trio.MemorySendChannel[Message],
        applied: View[AclSnapshot | None],
        cluster: View[ClusterImage],
    ) -> None:
        self._applier = applier
        self._applied = applied
        self._cluster = cluster
        self._replay = Replay()
        self._open_offset = -1
        self.is_caught_up = False
        self.last_offset = -1

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version, or -1 if the log has none."""
        return self._replay.metadata_version

    def is_complete(self, offset: int) -> bool:
        """Return True if no metadata transaction was open after the batch that ends at ``offset``.

        An offset before the end of the last transaction also counts as incomplete.
        """
        return offset > self._open_offset

    async def read_copy(self, batches: Iterator[LogBatch]) -> None:
        """Pass on all batches of files. A thread reads them.

        Raises:
            MisfitError: see the class. Nothing after it is passed on.
            MetadataLogError: a file cannot be read.
        """
        while read := await run_in_thread(read_some, batches):
            for log_batch in read:
                await self._pass_on(log_batch)

    async def pass_on(self, batches: Iterable[RecordBatch]) -> None:
        """Pass on committed batches that follow each other.

        Raises:
            MisfitError: see the class. Nothing after it is passed on.
        """
        for batch in batches:
            placed = PlacedBatch(batch, _FETCHED, 0)
            await self._pass_on(LogBatch(placed, batch.last_offset, is_checkpoint=False))

    async def _pass_on(self, log_batch: LogBatch) -> None:
        for step in self._steps(log_batch):
            if step is None:
                await trio.lowlevel.checkpoint()
            else:
                await self._applier.send(step)
        self.last_offset = log_batch.last_offset
        if self._replay.is_transaction_open:
            self._open_offset = log_batch.last_offset

    def _steps(self, log_batch: LogBatch) -> Iterator[ChangeBatch | None]:
        try:
            yield from self._replay.steps(log_batch)
        except CorruptLogError as error:
            raise MisfitError(log_batch.last_offset, error.reason) from error

    async def catch_up(self) -> None:
        """Report once that everything that decisions need was passed on."""
        if not self.is_caught_up:
            self.is_caught_up = True
            await self._applier.send(CaughtUp(self.last_offset))

    async def replace(self, batches: Iterator[LogBatch], *, end_offset: int) -> None:
        """Replace everything passed on so far with a snapshot.

        Args:
            end_offset: the offset after the snapshot's last record.

        Raises:
            MisfitError: as for ``read_copy``.
            MetadataLogError: as for ``read_copy``. After the applier has caught up, nothing was
                replaced.
        """
        # An open transaction is void: a snapshot is never taken within one.
        before = self._replay
        self._replay = Replay()
        if not self.is_caught_up:
            await self._applier.send(Reset())
            await self.read_copy(batches)
        else:
            acls = Listing()
            try:
                image = await self._read_state(batches, acls)
            except MetadataLogError:
                self._replay = before
                await finish_in_turns(acls.free_in_steps())
                raise
            await self._send_differences(acls, image, end_offset - 1)
        self.last_offset = end_offset - 1

    async def _read_state(self, batches: Iterator[LogBatch], acls: Listing) -> ClusterImage:
        """Read a snapshot: put its ACLs into ``acls``, and return the rest."""
        image = EMPTY_IMAGE
        while read := await run_in_thread(read_some, batches):
            for log_batch in read:
                for step in self._steps(log_batch):
                    await trio.lowlevel.checkpoint()
                    if step is not None:
                        _add_acls(acls, step)
                        image = await _apply_in_turns(image, step)
        return image

    async def _send_differences(self, acls: Listing, image: ClusterImage, last_offset: int) -> None:
        # The plan needs the state after everything that was passed on.
        passed = self.last_offset
        before = await self._applied.wait_until(
            lambda newest: newest is not None and newest.offset >= passed
        )
        assert before is not None, "caught up"
        changes = await finish_in_turns(plan_differences(before, acls))
        del before  # freeing it later would block the loop
        cluster_changes = await finish_in_turns(plan_image_differences(self._cluster.newest, image))
        await send_parts(self._applier, last_offset, changes, cluster_changes)
        await finish_in_turns(acls.free_in_steps())


def _add_acls(acls: Listing, batch: ChangeBatch) -> None:
    for change in batch.changes:
        assert isinstance(change, AclAdded), "a snapshot removes nothing"
        if acls.get(change.id) is not None:
            raise MisfitError(batch.last_offset, f"two ACLs have the id {change.id.hex()}")
        acls.put(change.id, change.acl)


async def _apply_in_turns(image: ClusterImage, batch: ChangeBatch) -> ClusterImage:
    changes = batch.cluster_changes
    try:
        for chunk in in_chunks(changes):
            image = apply_cluster_changes(image, chunk)
            await trio.lowlevel.checkpoint()
    except ChangeError as error:
        raise MisfitError(batch.last_offset, str(error)) from error
    return image
