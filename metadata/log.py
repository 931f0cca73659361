"""The batches of a metadata log in order: the newest checkpoint, then the log from its end.

Law: offsets have no gap and epochs never go back, from the first batch to the last. Neither is
covered by a batch's CRC, so the order of the batches is what vouches for them. Of a checkpoint
nothing is handed on before all of it was found whole; one that is not is passed over where the log,
with an older checkpoint or alone, holds what it held.

Source: KIP-595, KIP-630; Kafka 4.3 KafkaRaftLog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from metadata.batch_file import BatchFile, PlacedBatch, TornTail
from metadata.directory import (
    Checkpoint,
    LogFiles,
    Segment,
    check_names,
    checkpoint_of,
    find_files,
)
from metadata.errors import CorruptLogError, MetadataLogError
from metadata.storage import DISK, Storage
from protocol.errors import DecodeError
from protocol.record_batch import ControlType, control_types


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of the log or of a checkpoint.

    ``last_offset`` is the log offset up to which the log is known once this batch is read: for a
    checkpoint's batches, the last offset that the checkpoint covers.
    """

    placed: PlacedBatch
    last_offset: int
    is_checkpoint: bool


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """A checkpoint that was passed over; ``error`` names the file and what is wrong with it."""

    checkpoint: Checkpoint
    error: MetadataLogError


@dataclass(slots=True)
class Progress:
    """How far reading has come.

    Known from the first batch on: ``damaged_checkpoints``, newest first. Known at the end:
    ``torn_tail``, and ``segment``, the file in which the log goes on, of ``segment_bytes`` bytes
    that count; None where it goes on in a new one.
    """

    last_offset: int = -1
    last_epoch: int = 0
    torn_tail: TornTail | None = None
    segment: Path | None = None
    segment_bytes: int = 0
    damaged_checkpoints: list[DamagedCheckpoint] = field(default_factory=list)


class MetadataLog:
    """The files of one log, as they were when it was opened."""

    def __init__(self, files: LogFiles, storage: Storage = DISK) -> None:
        self._storage: Final = storage
        self._checkpoints: Final = files.checkpoints
        self._segments: Final = files.segments
        self._may_be_torn: Final = not files.was_shut_down_cleanly
        self.progress: Final = Progress()

    @classmethod
    def open(cls, path: Path, storage: Storage = DISK) -> MetadataLog:
        """Open the log below a log directory, or one checkpoint file alone.

        Raises:
            LogDirectoryError: there is no such thing, or a file beside it has a wrong name.
        """
        if storage.is_file(path):
            return cls(LogFiles((), (checkpoint_of(path),)), storage)
        files = find_files(path, storage)
        check_names(path, storage)
        return cls(files, storage)

    def batches(self) -> Iterator[LogBatch]:
        """Yield every batch in order; blocks on the files.

        Raises:
            CorruptLogError: a batch that cannot be believed, or does not follow the one before.
            LogDirectoryError: a file cannot be read.
        """
        end = 0
        checkpoint = self._newest_whole_checkpoint()
        if checkpoint is not None:
            yield from self._of_checkpoint(checkpoint)
            end = checkpoint.end_offset
            self.progress.last_offset = end - 1
            self.progress.last_epoch = checkpoint.epoch
        segments = self._segments_from(end)
        for number, segment in enumerate(segments, 1):
            following = segments[number] if number < len(segments) else None
            yield from self._of_segment(segment, following, end)
        self._check_damaged_are_covered()

    def _newest_whole_checkpoint(self) -> Checkpoint | None:
        for checkpoint in reversed(self._checkpoints):
            try:
                for _ in self._of_checkpoint(checkpoint):
                    pass
            except MetadataLogError as error:
                if not self._segments:
                    raise
                self.progress.damaged_checkpoints.append(DamagedCheckpoint(checkpoint, error))
            else:
                return checkpoint
        return None

    def _check_damaged_are_covered(self) -> None:
        """Refuse a log that ends before a checkpoint that cannot be believed: what is between?"""
        end = self.progress.last_offset + 1
        for damaged in self.progress.damaged_checkpoints:
            if damaged.checkpoint.end_offset > end:
                raise CorruptLogError(
                    damaged.checkpoint.path,
                    0,
                    end,
                    f"the log ends here, below the checkpoint's end, and {damaged.error}",
                )

    def _segments_from(self, end: int) -> tuple[Segment, ...]:
        """Return the segments that may hold offset ``end`` and what follows it."""
        segments = self._segments
        while len(segments) > 1 and segments[1].base_offset <= end:
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
        self, segment: Segment, following: Segment | None, end: int
    ) -> Iterator[LogBatch]:
        expected = segment.base_offset
        may_be_torn = following is None and self._may_be_torn
        with BatchFile(segment.path, expected, self._storage, from_disk=may_be_torn) as file:
            while (placed := file.read(may_be_torn=may_be_torn)) is not None:
                batch = placed.batch
                if batch.base_offset != expected:
                    raise _corrupt(placed, expected, f"base offset {batch.base_offset}")
                expected = batch.last_offset + 1
                if batch.base_offset < end:
                    if batch.last_offset >= end:
                        raise _corrupt(placed, batch.base_offset, f"straddles checkpoint end {end}")
                    continue
                if batch.leader_epoch < self.progress.last_epoch:
                    raise _corrupt(
                        placed,
                        batch.base_offset,
                        f"epoch {batch.leader_epoch} after epoch {self.progress.last_epoch}",
                    )
                self.progress.last_epoch = batch.leader_epoch
                self.progress.last_offset = batch.last_offset
                yield LogBatch(placed, batch.last_offset, is_checkpoint=False)
            self.progress.torn_tail = file.torn_tail
            if following is None and expected == self.progress.last_offset + 1:
                self.progress.segment = segment.path
                self.progress.segment_bytes = file.position
        if following is not None and following.base_offset != expected:
            raise CorruptLogError(
                following.path,
                0,
                expected,
                f"the segment begins at {following.base_offset}{self._damage()}",
            )

    def _of_checkpoint(self, checkpoint: Checkpoint) -> Iterator[LogBatch]:
        """Yield the data batches, between the header and the footer that must frame them."""
        expected = 0
        is_ended = False
        with BatchFile(checkpoint.path, 0, self._storage) as file:
            while (placed := file.read(may_be_torn=False)) is not None:
                batch = placed.batch
                if batch.base_offset != expected:
                    raise _corrupt(placed, expected, f"base offset {batch.base_offset}")
                if batch.leader_epoch != checkpoint.epoch:
                    raise _corrupt(
                        placed,
                        expected,
                        f"epoch {batch.leader_epoch} in a checkpoint of epoch {checkpoint.epoch}",
                    )
                if is_ended:
                    raise _corrupt(placed, expected, "a batch follows the checkpoint's footer")
                controls = _controls(placed) if batch.is_control else []
                if not expected and controls[:1] != [ControlType.SNAPSHOT_HEADER]:
                    raise _corrupt(placed, expected, "a checkpoint that lacks its header")
                is_ended = ControlType.SNAPSHOT_FOOTER in controls
                expected = batch.last_offset + 1
                if not batch.is_control:
                    yield LogBatch(placed, checkpoint.end_offset - 1, is_checkpoint=True)
        if not is_ended:
            raise CorruptLogError(checkpoint.path, file.position, expected, "it lacks its footer")


def _controls(placed: PlacedBatch) -> list[int]:
    try:
        return list(control_types(placed.batch))
    except DecodeError as error:
        raise _corrupt(
            placed, placed.batch.base_offset, error.reason, position=error.position
        ) from error


def _corrupt(
    placed: PlacedBatch, offset: int, reason: str, *, position: int = 0
) -> CorruptLogError:
    return CorruptLogError(placed.path, placed.position + position, offset, reason)


def corrupt_record(log_batch: LogBatch, error: DecodeError) -> CorruptLogError:
    """Return the error that places a record's fault in the log."""
    placed = log_batch.placed
    return _corrupt(placed, placed.batch.base_offset, error.reason, position=error.position)
