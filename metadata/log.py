"""The batches of a metadata log in order: the newest checkpoint, then the log after it.

**Invariant:** offsets have no gap, and an epoch begins only with its LeaderChange, from the first
batch to the last. No CRC covers offsets and epochs, so the order of the batches confirms them.
A checkpoint is used only after it was read to its end and its position in the log was checked. An
unusable checkpoint is skipped if the log, alone or with an older checkpoint, contains the same
state.

This is also the recovery of both kinds of log (``Origin``): it finds what a crash has left
unfinished, which ``SegmentWriter.start`` cuts before the log continues.

Source: KIP-595, KIP-630; Kafka 4.3 KafkaRaftLog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.batch_file import BatchFile, PlacedBatch, TornTail
from authorizerd.metadata.checkpoint import (
    CheckpointReader,
    check_epoch,
    corrupt,
    locate_checkpoint,
    place_fault,
)
from authorizerd.metadata.directory import (
    NAME_DIRECTORY_OR_CHECKPOINT,
    Checkpoint,
    LogFiles,
    Segment,
    check_names,
    find_files,
)
from authorizerd.metadata.errors import CorruptLogError, MetadataLogError
from authorizerd.metadata.past.batch_index import IndexedBatch
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.batch import RecordBatch
from authorizerd.protocol.records.control import SnapshotHeader


class Origin(Enum):
    """The process that assigns a log's offsets. It determines what a crash can leave at the end.

    - OWN: this daemon, which acknowledges nothing before it is durable. Only an unfinished write is
      cut (see ``BatchFile``). Everything else stops the start.
    - FOLLOWED: a cluster, which has all records. Appends to its copy are not synced, so a crash may
      leave any damage in the last segment: everything from the first invalid batch on is cut, and
      fetched again. Segments that end below the newest checkpoint are superseded: the cluster no
      longer had the records after them, or these were lost with the page cache. The checkpoint
      cannot be replaced, since the log before it is removed.
    """

    OWN = auto()
    FOLLOWED = auto()


class LogBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch of the log or of a checkpoint.

    ``last_offset`` is the log offset up to which the state is complete after this batch. For a
    checkpoint's batches, it is the last offset that the checkpoint covers.
    """

    placed: PlacedBatch
    last_offset: int
    is_checkpoint: bool


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """A skipped checkpoint. ``error`` names the file and its fault."""

    checkpoint: Checkpoint
    error: MetadataLogError


@dataclass(slots=True)
class Progress:
    """How far reading has come.

    ``damaged_checkpoints``, newest first, is complete from the first batch on. ``torn_tail``,
    ``segment`` and ``segment_bytes`` are set at the end: the file in which the log continues (None:
    a new one), and its valid bytes. ``superseded`` are the files of a followed log that have no
    further use. ``checkpoint_offset`` is the last offset of the checkpoint that was read, -1
    without one, and ``bytes_since_checkpoint`` is the size of the batches after it.
    """

    last_offset: int = -1
    last_epoch: int = 0
    checkpoint_offset: int = -1
    bytes_since_checkpoint: int = 0
    torn_tail: TornTail | None = None
    segment: Path | None = None
    segment_bytes: int = 0
    superseded: list[Path] = field(default_factory=list)
    damaged_checkpoints: list[DamagedCheckpoint] = field(default_factory=list)


class MetadataLog:
    """The files of one log, as they were when it was opened.

    Args:
        from_disk: bypass the page cache for the file that may have a torn tail.
        origin: whose log it is, if this is its recovery. Any other reading treats a copy like an
            own log: its owner may be writing to it, but cuts nothing that was read.
    """

    def __init__(
        self,
        files: LogFiles,
        storage: Storage = DISK,
        *,
        from_disk: bool = True,
        origin: Origin = Origin.OWN,
    ) -> None:
        self._storage: Final = storage
        self._from_disk: Final = from_disk
        self._is_followed: Final = origin is Origin.FOLLOWED
        self._checkpoints: Final = files.checkpoints
        self._segments: Final = files.segments
        self._may_be_torn: Final = not files.was_shut_down_cleanly
        self._log_end = 0
        self.progress: Final = Progress()

    @classmethod
    def open(cls, path: Path, storage: Storage = DISK) -> MetadataLog:
        """Open the log below a log directory, or a single checkpoint file.

        Raises:
            LogDirectoryError: there is no log, or a file next to it has a wrong name.
        """
        return cls(open_files(path, storage), storage)

    def batches(self, begin: IndexedBatch | None = None) -> Iterator[LogBatch]:
        """Yield every batch in order. Blocks on the files.

        Args:
            begin: the first batch; None: the newest checkpoint, or the beginning of the log.

        Raises:
            CorruptLogError: a batch cannot be trusted, or does not follow the previous one.
            LogDirectoryError: a file cannot be read.
        """
        if begin is None:
            reader = self.find_checkpoint()
            for placed in () if reader is None else reader.batches():
                yield LogBatch(placed, self.progress.checkpoint_offset, is_checkpoint=True)
        yield from self.batches_after_checkpoint(begin)

    def batches_after_checkpoint(self, begin: IndexedBatch | None = None) -> Iterator[LogBatch]:
        """Yield the batches after the checkpoint that was found, or from ``begin`` on."""
        progress = self.progress
        if begin is not None:
            progress.last_offset, progress.last_epoch = begin.base_offset - 1, begin.epoch_before
        end = progress.last_offset + 1
        segments = self._segments_from(end)
        for number, segment in enumerate(segments, 1):
            following = segments[number] if number < len(segments) else None
            yield from self._of_segment(segment, following, end, begin)
            begin = None
        self._check_damaged_are_covered()
        self._check_nothing_is_missing(end)

    def find_checkpoint(self) -> CheckpointReader | None:
        """Read and return the newest usable checkpoint, and record it as the beginning."""
        reader = self._newest_whole_checkpoint()
        if reader is not None:
            progress, checkpoint = self.progress, reader.checkpoint
            progress.last_offset = progress.checkpoint_offset = checkpoint.end_offset - 1
            progress.last_epoch = checkpoint.epoch
        return reader

    def _newest_whole_checkpoint(self) -> CheckpointReader | None:
        for checkpoint in reversed(self._checkpoints):
            try:
                reader = CheckpointReader(checkpoint, self._storage)
                for _ in reader.batches():  # read to its end before any of it is used
                    pass
                self._check_place(checkpoint, reader.header)
            except MetadataLogError as error:
                # Without segments, nothing else contains the state.
                if self._is_followed or not self._segments:
                    raise
                self.progress.damaged_checkpoints.append(DamagedCheckpoint(checkpoint, error))
            else:
                return reader
        return None

    def _check_place(self, checkpoint: Checkpoint, header: SnapshotHeader | None) -> None:
        """Reject a checkpoint if the log contradicts its end offset, which only its name states.

        Raises:
            CorruptLogError: no batch of the log ends there, or a different one does.
        """
        end = checkpoint.end_offset
        below = [segment for segment in self._segments if segment.base_offset < end]
        is_stated = header is not None and header.end_offset is not None
        if not below or is_stated or self._is_followed:
            return
        try:
            before = self._last_batch_below(end, below[-1])
        except MetadataLogError:
            return  # reading reports this damage later, or the checkpoint covers it
        reason = place_fault(checkpoint, header, before)
        if reason is not None:
            raise CorruptLogError(checkpoint.path, 0, end, reason)

    def _last_batch_below(self, end: int, segment: Segment) -> RecordBatch | None:
        """Return the last batch of a segment that begins below ``end``, or None."""
        last = None
        with BatchFile(segment.path, segment.base_offset, self._storage) as file:
            may_be_torn = self._may_be_torn and segment == self._segments[-1]
            while (placed := file.read(may_be_torn=may_be_torn)) is not None:
                if placed.batch.base_offset >= end:
                    break
                last = placed.batch
        return last

    def _check_damaged_are_covered(self) -> None:
        """Reject a log that ends before a damaged checkpoint: the rest is unknown."""
        end = self.progress.last_offset + 1
        for damaged in self.progress.damaged_checkpoints:
            if damaged.checkpoint.end_offset > end:
                raise CorruptLogError(
                    damaged.checkpoint.path,
                    0,
                    end,
                    f"the log ends here, below the end of a damaged checkpoint: {damaged.error}",
                )

    def _check_nothing_is_missing(self, end: int) -> None:
        """Reject a log that contains no batch, or that ends before the checkpoint.

        The missing records were durable before the checkpoint was written, so they were lost.

        Args:
            end: the end of the checkpoint that was read, or 0 without one.
        """
        # At least 1, since every log begins with a batch.
        is_there = not self._segments or self._log_end >= max(end, 1)
        if is_there or self._is_followed:
            return
        path = self._segments[-1].path
        if self._log_end:
            reason = (
                f"the log ends here, before the end of the checkpoint, {end}: restore the missing "
                "segments, or move all segments away to continue from the checkpoint alone"
            )
        else:
            reason = "the log contains no batch, although every log begins with one: restore it"
        raise CorruptLogError(path, 0, self._log_end, reason)

    def _segments_from(self, end: int) -> tuple[Segment, ...]:
        """Return the segments that may contain offset ``end`` and what follows it."""
        segments = self._segments
        while len(segments) > 1 and segments[1].base_offset <= end:
            if self._is_followed:
                self.progress.superseded.append(segments[0].path)
            segments = segments[1:]
        if segments and segments[0].base_offset > end:
            raise CorruptLogError(
                segments[0].path,
                0,
                end,
                f"the log begins at offset {segments[0].base_offset}, and no checkpoint covers "
                f"offsets {end} to {segments[0].base_offset - 1}{self._damage()}",
            )
        return segments

    def _damage(self) -> str:
        return "".join(f"; {damaged.error}" for damaged in self.progress.damaged_checkpoints)

    def _of_segment(
        self, segment: Segment, following: Segment | None, end: int, begin: IndexedBatch | None
    ) -> Iterator[LogBatch]:
        expected = segment.base_offset if begin is None else begin.base_offset
        position = 0 if begin is None else begin.position
        # Only the page cache of this file may have data that a failed sync never wrote.
        may_be_torn = following is None and self._may_be_torn
        from_disk = may_be_torn and self._from_disk
        with BatchFile(
            segment.path, expected, self._storage, from_disk=from_disk, position=position
        ) as file:
            while (placed := self._next(file, expected, may_be_torn)) is not None:
                batch = placed.batch
                expected = batch.last_offset + 1
                if batch.base_offset < end:
                    if batch.last_offset >= end:
                        raise corrupt(
                            placed,
                            batch.base_offset,
                            f"the batch contains the checkpoint's end, {end}",
                        )
                    continue
                check_epoch(placed, self.progress.last_epoch)
                self.progress.last_epoch = batch.leader_epoch
                self.progress.bytes_since_checkpoint += len(batch.data)
                self.progress.last_offset = batch.last_offset
                yield LogBatch(placed, batch.last_offset, is_checkpoint=False)
            self._log_end = expected
            if self._is_followed and following is None and (expected < end or not file.position):
                self.progress.superseded.append(segment.path)
                return
            self.progress.torn_tail = file.torn_tail
            if following is None and expected == self.progress.last_offset + 1:
                self.progress.segment = segment.path
                self.progress.segment_bytes = file.position
        if following is not None and following.base_offset != expected:
            raise CorruptLogError(
                following.path,
                0,
                expected,
                f"the segment begins at offset {following.base_offset}{self._damage()}",
            )

    def _next(self, file: BatchFile, expected: int, may_be_torn: bool) -> PlacedBatch | None:
        """Return the next batch, which must begin at offset ``expected``; None at the end."""
        position = file.position
        try:
            placed = file.read(may_be_torn=may_be_torn)
            # No checksum covers the offset: a lost sector may have damaged nothing else.
            if placed is not None and placed.batch.base_offset != expected:
                reason = f"expected base offset {expected}, found {placed.batch.base_offset}"
                raise corrupt(placed, expected, reason)
        except CorruptLogError as error:
            if not (may_be_torn and self._is_followed):
                raise
            file.cut(position, error.reason)
            return None
        return placed


def open_files(path: Path, storage: Storage = DISK) -> LogFiles:
    """Return the files of the log below a log directory, or a single checkpoint file.

    Raises:
        LogDirectoryError: there is no log, or a file next to it has a wrong name.
    """
    if storage.is_file(path):
        return LogFiles((), (locate_checkpoint(path, storage),))
    files = find_files(path, storage, remedy=NAME_DIRECTORY_OR_CHECKPOINT)
    check_names(path, storage)
    return files
