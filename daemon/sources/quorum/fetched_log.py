"""The log as a follower knows it: the end of the records passed on, and the pending records.

**Invariant:** only batches below a leader's high watermark are passed on, in order, each once.
Passed-on batches are never truncated, and the last one is known, so that a different log is
recognized.

Source: Kafka 4.3 KafkaRaftLog (truncateToEndOffset, endOffsetForEpoch), LeaderEpochFileCache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from authorizerd.daemon.sources.quorum.errors import GarbageError, RestoredClusterError
from authorizerd.metadata.epochs import epoch_fault
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.quorum_messages import EpochEnd
from authorizerd.protocol.records.batch import BatchMark, ControlType, RecordBatch, control_types


class FetchedLog:
    """Keep fetched batches until they are committed.

    Args:
        end_offset: the offset after everything that was passed on.
        epoch: the epoch of the record before it, 0 if there is none.
        bytes_max: no batch is accepted once the pending ones reach this size.
        last: identifies the last batch that was passed on, None if it is not known.
    """

    def __init__(
        self,
        end_offset: int = 0,
        epoch: int = 0,
        *,
        bytes_max: int,
        last: BatchMark | None = None,
    ) -> None:
        self._bytes_max: Final = bytes_max
        self._pending: Final[deque[RecordBatch]] = deque()
        self._pending_bytes = 0
        self.committed_end = end_offset
        self.committed_epoch = epoch
        self.last = last

    @property
    def end_offset(self) -> int:
        """The offset of the next record to fetch."""
        return self._pending[-1].last_offset + 1 if self._pending else self.committed_end

    @property
    def last_epoch(self) -> int:
        """The epoch of the record before ``end_offset``."""
        return self._pending[-1].leader_epoch if self._pending else self.committed_epoch

    @property
    def is_full(self) -> bool:
        """True if no more batches are accepted until some are committed."""
        return self._pending_bytes >= self._bytes_max

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def append(self, batches: Iterable[RecordBatch], *, leader_epoch: int) -> None:
        """Add fetched batches, as many as the bound on bytes permits.

        Raises:
            GarbageError: the batches do not continue the log. The batches before the fault were
                added.
        """
        for batch in batches:
            if self.is_full:
                return
            self._check(batch, leader_epoch)
            self._pending.append(batch)
            self._pending_bytes += len(batch.data)

    def _check(self, batch: RecordBatch, leader_epoch: int) -> None:
        expected, epoch = self.end_offset, batch.leader_epoch
        if batch.base_offset != expected:
            raise GarbageError(f"expected a batch at offset {expected}, found {batch.base_offset}")
        if epoch > leader_epoch:
            raise GarbageError(
                f"offset {expected}: expected at most the leader's epoch, {leader_epoch}, "
                f"found {epoch}"
            )
        try:
            begins_epoch = batch.is_control and ControlType.LEADER_CHANGE in control_types(batch)
        except DecodeError as error:
            raise GarbageError(f"offset {expected}: {error}") from error
        fault = epoch_fault(epoch, self.last_epoch, begins_epoch=begins_epoch)
        if fault is not None:
            raise GarbageError(f"offset {expected}: {fault}")

    def commit(self, high_watermark: int) -> tuple[RecordBatch, ...]:
        """Remove and return the batches below ``high_watermark`` (exclusive)."""
        committed: list[RecordBatch] = []
        while self._pending and self._pending[0].last_offset < high_watermark:
            committed.append(self._remove(self._pending.popleft()))
        if committed:
            self.committed_end = committed[-1].last_offset + 1
            self.committed_epoch = committed[-1].leader_epoch
            self.last = committed[-1].mark
        return tuple(committed)

    def _remove(self, batch: RecordBatch) -> RecordBatch:
        self._pending_bytes -= len(batch.data)
        return batch

    def check_last(self, batches: Sequence[RecordBatch]) -> None:
        """Check that the leader's log has the last batch that was passed on.

        For Kafka, two logs with the same epochs agree, whatever they contain.

        Args:
            batches: the leader's batches, from that batch's offset on.

        Raises:
            GarbageError: they do not begin there.
            RestoredClusterError: the leader has a different batch at its offset.
        """
        assert self.last is not None, "the last batch is known"
        first = batches[0] if batches else None
        if first is None or not first.base_offset <= self.last.base_offset <= first.last_offset:
            raise GarbageError(f"expected the batch at offset {self.last.base_offset} again")
        if first.mark != self.last:
            raise _restored(self.last.base_offset, self.committed_end)

    def truncate(self, diverging: EpochEnd) -> bool:
        """Drop the pending batches that the leader does not have.

        Return False if nothing can be dropped.

        Raises:
            RestoredClusterError: the logs diverge below what was passed on.
        """
        end = self._common_end(diverging)
        if end < self.committed_end:
            return self.go_back(max(end, 0))
        before = self.end_offset
        while self._pending and self._pending[-1].last_offset >= end:
            self._remove(self._pending.pop())
        return self.end_offset < before

    def _common_end(self, diverging: EpochEnd) -> int:
        """Return the offset where the logs diverge; below ``committed_end``, this is an error."""
        epoch, end = self.committed_epoch, self.committed_end
        if diverging.epoch < epoch:
            return min(diverging.end_offset, end - 1)
        for batch in self._pending:
            if batch.leader_epoch > diverging.epoch:
                break
            epoch, end = batch.leader_epoch, batch.last_offset + 1
        return min(end, diverging.end_offset) if epoch == diverging.epoch else end

    def go_back(self, end_offset: int) -> bool:
        """Drop everything uncommitted, since the leader's log contradicts it.

        The next Fetch then shows whether the leader also contradicts committed records.

        Args:
            end_offset: where the leader's log ends or begins, for the error.

        Raises:
            RestoredClusterError: nothing is pending, so committed records are contradicted.
        """
        if not self._pending:
            raise _restored(end_offset, self.committed_end)
        self.replace(self.committed_end, self.committed_epoch)
        return True

    def replace(self, end_offset: int, epoch: int) -> None:
        """Drop everything that is not committed, and continue at ``end_offset``."""
        self._pending.clear()
        self._pending_bytes = 0
        if end_offset != self.committed_end:
            self.last = None
        self.committed_end, self.committed_epoch = end_offset, epoch


def _restored(offset: int, committed_end: int) -> RestoredClusterError:
    return RestoredClusterError(
        f"the cluster's log differs from what this daemon has applied, at offset {offset} or"
        f" earlier, although everything below offset {committed_end} was committed"
    )
