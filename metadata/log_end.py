"""The end of a followed log, in memory: the facts that the next batch must follow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.checkpoint import CheckpointReader, check_epoch, corrupt
from authorizerd.metadata.directory import sort_files
from authorizerd.metadata.log import MetadataLog, Origin, Progress
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import BatchMark, RecordBatch
from authorizerd.protocol.records.voters import Voters, find_voters


class Epochs:
    """The epochs of a log, by the offsets at which they begin."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._epochs: list[int] = []

    @property
    def last(self) -> int:
        return self._epochs[-1] if self._epochs else 0

    def begin(self, offset: int, epoch: int) -> None:
        """Note that records from ``offset`` on have ``epoch``, unless they had it before."""
        if not self._epochs or epoch != self._epochs[-1]:
            self._starts.append(offset)
            self._epochs.append(epoch)

    def find(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``, 0 if it is not known."""
        position = bisect_right(self._starts, offset)
        return self._epochs[position - 1] if position else 0

    def forget_before(self, offset: int) -> None:
        """Forget the epochs that ended before ``offset``."""
        first = max(bisect_right(self._starts, offset) - 1, 0)
        del self._starts[:first], self._epochs[:first]


@dataclass(slots=True)
class LogEnd:
    """The end of a log.

    ``voters`` are the cluster's, None if no record names them. ``last_batch`` identifies the last
    batch, None if the log ends with a checkpoint that does not name it, such as the cluster's own.
    """

    next_offset: int = 0
    last_timestamp_ms: int = 0
    is_empty: bool = True
    epochs: Epochs = field(default_factory=Epochs)
    voters: Voters | None = None
    last_batch: BatchMark | None = None

    @classmethod
    def of_checkpoint(cls, reader: CheckpointReader, voters: Voters | None = None) -> LogEnd:
        """Return the end of a log that begins with a checkpoint.

        Args:
            reader: the reader of the checkpoint. voters: the voters known before, in case the
                checkpoint names none.
        """
        checkpoint, header = reader.checkpoint, reader.header
        last = None if header is None else header.last_batch
        is_last = last is not None and last.last_offset == checkpoint.end_offset - 1
        end = cls(
            checkpoint.end_offset,
            0 if header is None else header.last_timestamp_ms,
            is_empty=False,
            voters=reader.voters or voters,
            last_batch=last if is_last else None,
        )
        end.epochs.begin(checkpoint.end_offset - 1, checkpoint.epoch)
        return end

    @classmethod
    def recover(cls, directory: Path, storage: Storage) -> tuple[LogEnd, Progress]:
        """Read the log of a copy, and return its end and what to cut. Blocks on the files.

        Raises:
            CorruptLogError: the copy cannot be trusted.
            LogDirectoryError: a file cannot be read.
            OSError: the directory cannot be read.
        """
        files = sort_files(directory / name for name in storage.names(directory))
        log = MetadataLog(files, storage, origin=Origin.FOLLOWED)
        checkpoint = log.find_checkpoint()
        end = cls() if checkpoint is None else cls.of_checkpoint(checkpoint)
        for log_batch in log.batches_after_checkpoint():
            end.follow(log_batch.placed.batch)
        log.progress.superseded += (each.path for each in files.checkpoints[:-1])
        return end, log.progress

    def check(self, batches: Iterable[RecordBatch], source: Path) -> None:
        """Check that batches can follow the last one.

        Args:
            source: what errors name.

        Raises:
            CorruptLogError: they cannot.
        """
        next_offset, epoch = self.next_offset, self.epochs.last
        for batch in batches:
            placed = PlacedBatch(batch, source, 0)
            if batch.base_offset != next_offset:
                reason = f"expected base offset {next_offset}, found {batch.base_offset}"
                raise corrupt(placed, next_offset, reason)
            check_epoch(placed, epoch)
            next_offset, epoch = batch.last_offset + 1, batch.leader_epoch

    def follow(self, batch: RecordBatch) -> None:
        """Count a batch at the end of the log."""
        self.epochs.begin(batch.base_offset, batch.leader_epoch)
        self.next_offset = batch.last_offset + 1
        self.last_timestamp_ms = batch.max_timestamp_ms
        self.is_empty = False
        self.voters = find_voters(batch) or self.voters
        self.last_batch = batch.mark
