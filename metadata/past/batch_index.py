"""A sparse index of a log's batches, kept in memory: where reading can begin.

**Invariant:** each position was read by ``MetadataLog``, which checks the whole log up to it, and
no transaction was open there. Before a position is reused, its batch is compared, so a replaced
file is noticed. The index never changes an answer, only the amount of reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import astuple

from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.directory import Segment
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import HEADER_SIZE

SPAN_BYTES: Final = 1 << 18
"""The minimum distance between two positions in one file."""


class IndexedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch at which reading can begin.

    Attributes:
        position: where it begins in the file ``path``.
        epoch_before: the epoch of the batch before it.
        header: its first bytes, with its CRC.
    """

    path: Path
    position: int
    base_offset: int
    last_offset: int
    epoch_before: int
    header: bytes


class BatchIndex:
    """Positions of one log without a gap: from the first position on, every batch was noted.

    Its readers take turns.
    """

    def __init__(self) -> None:
        self._positions: list[IndexedBatch] = []
        self._earliest_ms: list[int] = []  # of the batches from each position to the next
        self._end = 0
        self._span_bytes = 0

    def clear(self) -> None:
        """Forget all positions."""
        self.__init__()  # type: ignore[misc] # there are no subclasses

    def encode(self) -> bytes:
        """Return the positions, for another process to ``adopt``."""
        positions = [(str(batch.path), *astuple(batch)[1:]) for batch in self._positions]
        return msgspec.msgpack.encode((positions, self._earliest_ms, self._end, self._span_bytes))

    def adopt(self, encoded: bytes) -> None:
        """Take over the positions of another reader of the same log."""
        positions, earliest_ms, end, span_bytes = msgspec.msgpack.decode(encoded)
        self._positions = [IndexedBatch(Path(path), *rest) for path, *rest in positions]
        self._earliest_ms, self._end, self._span_bytes = earliest_ms, end, span_bytes

    def note(self, placed: PlacedBatch, epoch_before: int, *, is_transaction_open: bool) -> None:
        """Note a batch that was read. Batches that are known already, or follow a gap, are ignored.

        Args:
            is_transaction_open: whether a transaction was open before this batch.
        """
        batch, positions = placed.batch, self._positions
        if positions and batch.base_offset != self._end:
            return
        is_full = self._span_bytes >= SPAN_BYTES
        is_far = not positions or is_full or positions[-1].path != placed.path
        if is_far and not is_transaction_open:
            positions.append(
                IndexedBatch(
                    placed.path,
                    placed.position,
                    batch.base_offset,
                    batch.last_offset,
                    epoch_before,
                    batch.data[:HEADER_SIZE],
                )
            )
            self._earliest_ms.append(batch.max_timestamp_ms)
            self._span_bytes = 0
        elif not positions:
            return
        elif batch.max_timestamp_ms < self._earliest_ms[-1]:
            self._earliest_ms[-1] = batch.max_timestamp_ms
        self._span_bytes += len(batch.data)
        self._end = batch.last_offset + 1

    def find(
        self, offset: int, segments: Sequence[Segment], storage: Storage
    ) -> IndexedBatch | None:
        """Return the last position up to ``offset``.

        If there is none, or if the files have changed, forget all positions.

        Args:
            segments: the files that exist now.
        """
        paths = {segment.path for segment in segments}
        while self._positions and self._positions[0].path not in paths:
            del self._positions[0], self._earliest_ms[0]
        number = bisect_right(self._positions, offset, key=lambda batch: batch.last_offset)
        if number and _is_there(self._positions[number - 1], storage):
            return self._positions[number - 1]
        self.clear()
        return None

    def spans_until(self, time_ms: int) -> Iterator[tuple[IndexedBatch | None, int | None]]:
        """Yield the spans that may have a batch of that time or earlier, the newest first.

        Each span is its position (None: the beginning of the log) and the first offset after it
        (None: the end of the log). The last span includes everything that was not noted.
        """
        end = None
        for batch, earliest_ms in zip(
            reversed(self._positions), reversed(self._earliest_ms), strict=True
        ):
            if end is None or earliest_ms <= time_ms:
                yield batch, end
            end = batch.base_offset
        yield None, end


def _is_there(batch: IndexedBatch, storage: Storage) -> bool:
    try:
        with storage.open(batch.path) as file:
            file.seek(batch.position)
            return file.read(HEADER_SIZE) == batch.header
    except OSError:
        return False
