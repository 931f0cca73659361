"""Examine the files of a copy: what can be trusted, and what a crash has left behind.

**Invariant:** what is trusted is a checkpoint and the batches after it, without a gap. Appends to a
copy are not synced, so a crash may leave any damage in its last segment: everything from the first
invalid batch on is cut, and fetched again. Any other damage means that the copy cannot be trusted.

A crash may also leave segments that end below the newest checkpoint. They are superseded: the
checkpoint was fetched because the cluster no longer had what follows them, or the records between
were lost with the page cache.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from authorizerd.metadata.batch_file import BatchFile, PlacedBatch, TornTail
from authorizerd.metadata.checkpoint import CheckpointReader, corrupt, read_control_types
from authorizerd.metadata.directory import Segment, sort_files
from authorizerd.metadata.epochs import epoch_fault
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import BatchMark, ControlType, RecordBatch
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
class CopyContent:
    """The contents of a copy.

    ``segments`` has the sizes in bytes by base offset, without what is cut. ``cut`` is the end of
    the last segment that cannot be read, ``superseded`` the files that have no further use.
    ``voters`` are the cluster's, None if no record names them. ``last`` identifies the last batch,
    None if the content ends with a checkpoint.
    """

    next_offset: int = 0
    last_timestamp_ms: int = 0
    is_empty: bool = True
    epochs: Epochs = field(default_factory=Epochs)
    segments: dict[int, int] = field(default_factory=dict)
    cut: TornTail | None = None
    superseded: list[Path] = field(default_factory=list)
    voters: Voters | None = None
    last: BatchMark | None = None

    def follow(self, batch: RecordBatch) -> None:
        """Count a batch at the end of the content."""
        self.epochs.begin(batch.base_offset, batch.leader_epoch)
        self.next_offset = batch.last_offset + 1
        self.last_timestamp_ms = batch.max_timestamp_ms
        self.is_empty = False
        self.voters = find_voters(batch) or self.voters
        self.last = batch.mark


def check_follows(placed: PlacedBatch, next_offset: int, epoch: int) -> None:
    """Check that a batch can follow the last one.

    Args:
        next_offset: the offset after the last batch.
        epoch: the epoch of the last batch, 0 before the first.

    Raises:
        CorruptLogError: it cannot.
    """
    batch = placed.batch
    if batch.base_offset != next_offset:
        reason: str | None = f"expected base offset {next_offset}, found {batch.base_offset}"
    else:
        begins_epoch = ControlType.LEADER_CHANGE in read_control_types(placed)
        reason = epoch_fault(batch.leader_epoch, epoch, begins_epoch=begins_epoch)
    if reason is not None:
        raise corrupt(placed, next_offset, reason)


def examine_copy(directory: Path, storage: Storage) -> CopyContent:
    """Return the content of the log in ``directory``. Change nothing. Blocks on the files.

    Raises:
        CorruptLogError: the copy cannot be trusted.
        LogDirectoryError: a file cannot be read.
        OSError: the directory cannot be read.
    """
    files = sort_files(directory / name for name in storage.names(directory))
    content = CopyContent()
    if files.checkpoints:
        newest = files.checkpoints[-1]
        reader = CheckpointReader(newest, storage)
        for _ in reader.batches():
            pass
        content.is_empty = False
        content.next_offset = newest.end_offset
        content.epochs.begin(newest.end_offset - 1, newest.epoch)
        content.voters = reader.voters
        if reader.header is not None:
            content.last_timestamp_ms = reader.header.last_timestamp_ms
        content.superseded += (each.path for each in files.checkpoints[:-1])
    segments = list(files.segments)
    end = content.next_offset
    while len(segments) > 1 and segments[1].base_offset <= end:
        content.superseded.append(segments.pop(0).path)
    for number, segment in enumerate(segments, 1):
        _examine_segment(segment, content, end, storage, is_last=number == len(segments))
    return content


def _examine_segment(
    segment: Segment, content: CopyContent, end: int, storage: Storage, *, is_last: bool
) -> None:
    """Add a segment to the content. ``end`` is the end of the checkpoint, 0 without one."""
    expected = segment.base_offset
    cut: TornTail | None = None
    position = 0
    with BatchFile(segment.path, expected, storage, from_disk=is_last) as file:
        while True:
            try:
                placed = file.read(may_be_torn=is_last)
                # No checksum covers the offset: a lost sector may have damaged nothing else.
                if placed is not None and placed.batch.base_offset != expected:
                    reason = f"expected base offset {expected}, found {placed.batch.base_offset}"
                    raise corrupt(placed, expected, reason)
            except CorruptLogError as error:
                if not is_last:
                    raise
                size = storage.size(segment.path) - position
                cut = TornTail(segment.path, position, size, error.reason)
                break
            if placed is None:
                cut = file.torn_tail
                break
            if placed.batch.base_offset >= end:
                check_follows(placed, content.next_offset, content.epochs.last)
                content.follow(placed.batch)
            elif placed.batch.last_offset >= end:
                reason = f"the batch contains the checkpoint's end, {end}"
                raise corrupt(placed, expected, reason)
            expected = placed.batch.last_offset + 1
            position = file.position
        if expected < end or not position:
            content.superseded.append(segment.path)
            return
        content.segments[segment.base_offset] = position
        content.is_empty = False
        content.cut = cut
