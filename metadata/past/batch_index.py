"""A sparse index of a log's batches, kept in memory: where reading can begin.

**Invariant:** a place was read by ``MetadataLog``, which checks the whole log up to it, and no
transaction was open there. Its batch is compared before it is used again, so a file that was
replaced is noticed. The index never changes an answer, only how much is read for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.directory import Segment
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import HEADER_SIZE

SPAN_BYTES: Final = 1 << 18
"""The minimum distance of two places in one file."""


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
    """Places of one log without a gap: from the first one on, every batch was noted.

    Its readers take turns.
    """

    def __init__(self) -> None:
        self._places: list[IndexedBatch] = []
        self._earliest_ms: list[int] = []  # of the batches from each place to the next
        self._end = 0
        self._span_bytes = 0

    def clear(self) -> None:
        """Forget all places."""
        self.__init__()  # type: ignore[misc] # there are no subclasses

    def encode(self) -> bytes:
        """Return the places for ``adopt`` of another process."""
        places = [(str(each.path), *msgspec.structs.astuple(each)[1:]) for each in self._places]
        return msgspec.msgpack.encode((places, self._earliest_ms, self._end, self._span_bytes))

    def adopt(self, encoded: bytes) -> None:
        """Take over the places of another reader of the same log."""
        places, earliest_ms, end, span_bytes = msgspec.msgpack.decode(encoded)
        self._places = [IndexedBatch(Path(path), *rest) for path, *rest in places]
        self._earliest_ms, self._end, self._span_bytes = earliest_ms, end, span_bytes

    def note(self, placed: PlacedBatch, epoch_before: int, *, is_transaction_open: bool) -> None:
        """Note a batch that was read. Batches that are known already, or follow a gap, are ignored.

        Args:
            is_transaction_open: whether a transaction was open before this batch.
        """
        batch, places = placed.batch, self._places
        if places and batch.base_offset != self._end:
            return
        is_far = not places or self._span_bytes >= SPAN_BYTES or places[-1].path != placed.path
        if is_far and not is_transaction_open:
            places.append(
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
        elif not places:
            return
        elif batch.max_timestamp_ms < self._earliest_ms[-1]:
            self._earliest_ms[-1] = batch.max_timestamp_ms
        self._span_bytes += len(batch.data)
        self._end = batch.last_offset + 1

    def find(
        self, offset: int, segments: Sequence[Segment], storage: Storage
    ) -> IndexedBatch | None:
        """Return the last place up to ``offset``. Forget all places if there is none, or if the
        files have changed.

        Args:
            segments: the files that exist now.
        """
        paths = {each.path for each in segments}
        while self._places and self._places[0].path not in paths:
            del self._places[0], self._earliest_ms[0]
        number = bisect_right(self._places, offset, key=lambda each: each.last_offset)
        if number and _is_there(self._places[number - 1], storage):
            return self._places[number - 1]
        self.clear()
        return None

    def spans_until(self, time_ms: int) -> Iterator[tuple[IndexedBatch | None, int | None]]:
        """Yield the spans that may have a batch of that time or an earlier one, the newest first.

        Each is a place, None for the beginning of the log, and the first offset that does not
        belong to it, None at the end of the log. The span at the end has all that was not noted.
        """
        end = None
        for place, earliest_ms in zip(
            reversed(self._places), reversed(self._earliest_ms), strict=True
        ):
            if end is None or earliest_ms <= time_ms:
                yield place, end
            end = place.base_offset
        yield None, end


def _is_there(place: IndexedBatch, storage: Storage) -> bool:
    try:
        with storage.open(place.path) as file:
            file.seek(place.position)
            return file.read(HEADER_SIZE) == place.header
    except OSError:
        return False
