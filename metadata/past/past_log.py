"""Read the past of a log: its state at a past moment, and all later changes.

A state of the past begins with a checkpoint at or below its offset, or with the log's first record.
Retention (``metadata.max.retention.*``) removes old checkpoints and the segments before them, so
the oldest remaining checkpoint determines how far back the log reaches.

**Invariant:** a state is exact, or an error says which part of the log is missing or damaged. All
data comes through ``MetadataLog``, which checks it.

Nothing is locked. If the log's owner removes a file meanwhile, reading starts over with the
remaining files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.as_of import TIME_MS_MIN, AsOf, Moment, format_time
from authorizerd.acl.model import ChangeBatch
from authorizerd.metadata.checkpoint import read_checkpoint_time
from authorizerd.metadata.directory import OFFSET_MAX, Checkpoint, LogFiles
from authorizerd.metadata.errors import (
    CorruptLogError,
    MetadataLogError,
    PastDamagedError,
    PastNotReadError,
    PastRangeError,
)
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.past.batch_index import BatchIndex, IndexedBatch
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch
from authorizerd.protocol.records.metadata import RecordType

T = TypeVar("T")

_BEGIN: Final = re.compile(
    rb"(?:\x01|\x81\x80*\x00)(?:%b|%b\x80*\x00)(?:\x00|\x80+\x00)"
    % (
        re.escape(bytes((RecordType.BEGIN_TRANSACTION,))),
        re.escape(bytes((RecordType.BEGIN_TRANSACTION | 0x80,))),
    )
)
"""The start of the value of a record that begins a transaction, in each valid encoding."""


class TimedBatch(msgspec.Struct, frozen=True, gc=False):
    """Changes as ``Replay`` returns them, and the time of their batch.

    A checkpoint's changes have the time of the last record that it covers, None if it is not known.
    """

    changes: ChangeBatch
    time_ms: int | None
    is_checkpoint: bool


class PastLog:
    """The files of one log, as they were when they were listed. Every call blocks on the files.

    Args:
        index: the positions known from earlier readings, to which this reading adds.
    """

    def __init__(
        self,
        files: LogFiles,
        storage: Storage = DISK,
        *,
        index: BatchIndex | None = None,
    ) -> None:
        self._index: Final = BatchIndex() if index is None else index
        self._files: Final = files
        self._storage: Final = storage
        self._checkpoints: Final = _usable_checkpoints(files)
        self._begins_at_0: Final = bool(files.segments) and files.segments[0].base_offset == 0

    @property
    def starts(self) -> tuple[int, ...]:
        """The offsets from which reading can begin, oldest first: 0, or the ends of checkpoints."""
        ends = [checkpoint.end_offset for checkpoint in self._checkpoints]
        return (0, *ends) if self._begins_at_0 else tuple(ends)

    def oldest(self) -> Moment:
        """Return the oldest moment that can be read, if no file is damaged."""
        if self._begins_at_0:
            log = MetadataLog(LogFiles(self._files.segments, ()), self._storage, from_disk=False)
            try:
                first = next(log.batches(), None)
            except MetadataLogError:
                first = None
            return Moment(0, None if first is None else first.placed.batch.max_timestamp_ms)
        oldest = self._checkpoints[0]
        return Moment(oldest.end_offset - 1, read_checkpoint_time(oldest.path, self._storage))

    def read(
        self, offset: int, *, wants: Callable[[LogBatch], bool] = lambda _: True
    ) -> Iterator[TimedBatch]:
        """Yield the state at the newest checkpoint at or below ``offset``, then everything after
        it.

        A damaged checkpoint is skipped if an older one, or the whole log, leads to the same state.

        Args:
            wants: called with each batch. If it returns False, the batch's changes may be left out,
                which saves most of the time. All other changes are exact, including those of
                transactions.

        Raises:
            PastRangeError: the offset is too old.
            PastDamagedError: a file that leads to the offset, or follows it, is damaged.
            MetadataLogError: a file cannot be read.
        """
        return self._replay(offset, wants, None)

    def read_after(self, offset: int) -> Iterator[TimedBatch]:
        """Yield the last batch up to ``offset``, then what became visible after it.

        Earlier batches may come first; their changes may be left out.

        Raises as ``read``, but damage before the offset may remain unnoticed.
        """
        begin = self._index.find(offset, self._files.segments, self._storage)
        return self._replay(offset, lambda each: each.last_offset > offset, begin)

    def _replay(
        self, offset: int, wants: Callable[[LogBatch], bool], begin: IndexedBatch | None
    ) -> Iterator[TimedBatch]:
        replay = Replay()
        path, time_ms, epoch = None, None, None if begin is None else begin.epoch_before
        for log_batch in self._batches_from(offset, begin):
            placed = log_batch.placed
            if not log_batch.is_checkpoint:
                time_ms = placed.batch.max_timestamp_ms
                if epoch is not None:
                    is_open = replay.is_transaction_open
                    self._index.note(placed, epoch, is_transaction_open=is_open)
                epoch = placed.batch.leader_epoch
            elif placed.path != path:
                path = placed.path
                time_ms = read_checkpoint_time(path, self._storage)
            if not (wants(log_batch) or replay.is_transaction_open or _may_begin(placed.batch)):
                yield TimedBatch(
                    ChangeBatch(log_batch.last_offset), time_ms, log_batch.is_checkpoint
                )
                continue
            try:
                for step in replay.steps(log_batch):
                    if step is not None:
                        yield TimedBatch(step, time_ms, log_batch.is_checkpoint)
            except CorruptLogError as error:
                raise self._damaged(error) from error

    def read_until(self, as_of: AsOf) -> Iterator[TimedBatch]:
        """Yield the changes that lead to the state at ``as_of``; see ``read`` and ``find_offset``.

        Raises:
            PastRangeError: the moment is too old, or its offset is not reached yet.
            MetadataLogError: as ``read``.
        """
        offset = self.find_offset(as_of)
        newest = -1
        for timed in self.read(offset):
            newest = timed.changes.last_offset
            if newest > offset:
                return
            yield timed
            # Do not read on: the rest is irrelevant, and may be damaged.
            if newest == offset and timed.changes.is_end and not timed.is_checkpoint:
                return
        if newest < offset:
            raise PastRangeError(describe_future(offset, newest))

    def batches_until(self, as_of: AsOf) -> Iterator[LogBatch]:
        """Yield the batches that lead to the state at ``as_of``; see ``read_until``.

        Raises as ``read_until``.
        """
        offset = self.find_offset(as_of)
        newest = -1
        for log_batch in self._batches_from(offset):
            newest = log_batch.last_offset
            if newest > offset:
                return
            yield log_batch
            if newest == offset and not log_batch.is_checkpoint:
                return
        if newest < offset:
            raise PastRangeError(describe_future(offset, newest))

    def find_offset(self, as_of: AsOf, *, newest: int | None = None) -> int:
        """Return the offset that ``as_of`` names: for a time, that of the last batch up to then.

        Args:
            newest: the last offset of the log that counts; None for the whole log.

        Raises:
            PastRangeError: the moment is too old, or its offset is above ``newest``.
            PastNotReadError: the files end before ``newest``, so a later batch may be the last one.
            MetadataLogError: as ``read``.
        """
        if as_of.offset is not None:
            if newest is not None and as_of.offset > newest:
                raise PastRangeError(describe_future(as_of.offset, newest))
            self._check_reached(as_of, as_of.offset)
            return as_of.offset
        assert as_of.time_ms is not None, "an offset or a time"
        found = self._find_last_until(as_of.time_ms, newest)
        if found is None:
            raise self._too_old(as_of)
        return found

    def _find_last_until(self, time_ms: int, newest: int | None) -> int | None:
        """Return the last offset of the last batch up to a time, None if there is none."""
        found, start = self._start_before(time_ms)
        self._index.find(OFFSET_MAX, self._files.segments, self._storage)
        for begin, end in self._index.spans_until(time_ms):
            if end is not None and end <= start:
                break
            last = -1
            for log_batch in self._batches_from(start - 1, begin):
                last = log_batch.last_offset
                if (newest is not None and last > newest) or (end is not None and last >= end):
                    break
                # Do not end at the first later time: a clock that was set back repeats times, and
                # the last state with such a time is the right one.
                is_until = log_batch.placed.batch.max_timestamp_ms <= time_ms
                if is_until and not log_batch.is_checkpoint and last >= start:
                    found = last
            if end is None:
                check_complete(last, newest)
            if found is not None and found >= start:
                break
        return found

    def _start_before(self, time_ms: int) -> tuple[int | None, int]:
        """Return the end of the newest checkpoint that is not later, and the position to continue
        from.

        The former is None if there is no such checkpoint.
        """
        for checkpoint in reversed(self._checkpoints):
            reached = read_checkpoint_time(checkpoint.path, self._storage)
            if reached is not None and reached <= time_ms:
                return checkpoint.end_offset - 1, checkpoint.end_offset
        return None, next(iter(self.starts), 0)

    def _batches_from(self, offset: int, begin: IndexedBatch | None = None) -> Iterator[LogBatch]:
        self._check_reached(AsOf(offset=offset), offset)
        below = tuple(
            checkpoint for checkpoint in self._checkpoints if checkpoint.end_offset <= offset + 1
        )
        files = LogFiles(self._files.segments, below, self._files.was_shut_down_cleanly)
        # The log's owner may be writing to it: leave its page cache alone.
        try:
            yield from MetadataLog(files, self._storage, from_disk=False).batches(begin)
        except CorruptLogError as error:
            raise self._damaged(error) from error

    def _check_reached(self, as_of: AsOf, offset: int) -> None:
        if not self.starts or offset < self.starts[0] - 1:
            raise self._too_old(as_of)

    def _too_old(self, as_of: AsOf) -> PastRangeError:
        if not self.starts:
            return PastRangeError(
                f"{as_of} cannot be read: no checkpoint leads to the log's records"
            )
        return PastRangeError(f"{as_of} is too old: the log reaches back to {self.oldest()}")

    def _damaged(self, error: CorruptLogError) -> PastDamagedError:
        """Return the error for a damaged file, including what else can be read."""
        for checkpoint in self._checkpoints:
            end = checkpoint.end_offset
            after = [
                segment.path for segment in self._files.segments if segment.base_offset <= end
            ][-1:]
            if end > error.offset and error.path not in (checkpoint.path, *after):
                hint = f"{error}; the past can be read from offset {end - 1} on"
                return PastDamagedError(hint, end - 1)
        return PastDamagedError(f"{error}; no part of the past can be read", None)


def _may_begin(batch: RecordBatch) -> bool:
    """Return False if no record of a batch begins a transaction."""
    return _BEGIN.search(batch.data, HEADER_SIZE) is not None


def _usable_checkpoints(files: LogFiles) -> tuple[Checkpoint, ...]:
    """Return the checkpoints that the log continues. Without a log, only the newest one counts."""
    if not files.segments:
        return files.checkpoints[-1:]
    base = files.segments[0].base_offset
    return tuple(checkpoint for checkpoint in files.checkpoints if checkpoint.end_offset >= base)


def describe_future(offset: int, newest: int) -> str:
    """Return why a moment that the log has not reached cannot be read."""
    text = f"offset {offset} is in the future: the newest one is {newest}"
    if offset < TIME_MS_MIN // 1000:  # the same time as TIME_MS_MIN, in seconds
        return text
    return f"{text}; a time needs milliseconds since 1970, not seconds"


def check_complete(last: int, newest: int | None) -> None:
    """Reject files whose last offset is before the newest state's; a None is accepted.

    Raises:
        PastNotReadError: they do.
    """
    if newest is not None and last < newest:
        raise PastNotReadError(
            f"the files of the log end at offset {last}, before the newest state at offset "
            f"{newest}: try again once they are written"
        )


def check_time(as_of: AsOf, now_ms: int) -> None:
    """Reject a time in the future, whose state nobody knows yet.

    Raises:
        PastRangeError: it is later than ``now_ms``.
    """
    if as_of.time_ms is not None and as_of.time_ms > now_ms:
        raise PastRangeError(f"{as_of} is in the future: it is {format_time(now_ms)} now")


def read_past(
    path: Path,
    read: Callable[[PastLog], T],
    *,
    storage: Storage = DISK,
    index: BatchIndex | None = None,
) -> T:
    """Return what ``read`` returns for the log at ``path``: a log directory, or a checkpoint file.

    If the owner of the log removes a file in the meantime, ``read`` is called again.

    Raises:
        MetadataLogError: there is no log, or as ``read``.
        PastNotReadError: files are removed again and again.
    """
    return read_live(path, lambda files: read(PastLog(files, storage, index=index)), storage)
