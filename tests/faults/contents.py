"""The bytes of one file: on the disk, in the kernel's memory, and as written."""

from itertools import pairwise
from random import Random
from typing import Final

SECTOR_SIZE: Final = 512
PAGE_SIZE: Final = 4096


class Content:
    """A file's bytes. ``seen`` is what readers get, ``written`` everything that was appended.

    The first ``synced`` bytes are durable for certain. ``durable`` is the content of the disk,
    ``_dirty`` the pieces that are not written yet, in order and with their positions.
    """

    def __init__(self, modified_ms: int) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        self.written = bytearray()
        self.synced = 0
        self.modified_ms = modified_ms
        self._dirty: list[tuple[int, bytes]] = []
        self._is_reread = False

    def reopen(self) -> None:
        """Let the next append, by a new process, continue the visible bytes."""
        self._is_reread = True

    def append(self, data: bytes) -> None:
        if self._is_reread:
            self.written[:] = self.seen
            self._is_reread = False
        self._dirty.append((len(self.seen), bytes(data)))
        self.seen += data
        self.written += data

    def sync(self) -> None:
        for position, data in self._dirty:
            _put(self.durable, position, data)
        self._dirty.clear()
        _grow(self.durable, len(self.seen))
        self.synced = len(self.seen)

    def fail_to_sync(self, chance: Random) -> None:
        """Write some sectors; forget some of the others, and keep the rest dirty."""
        dropped = chance.choice((0.0, 0.5, 1.0))
        left = []
        for position, data in self._dirty:
            for start, end in _units(position, position + len(data), SECTOR_SIZE):
                piece = data[start - position : end - position]
                if chance.random() < 0.3:
                    _put(self.durable, start, piece)
                elif chance.random() >= dropped:
                    left.append((start, piece))
        self._dirty = left

    def drop_cache(self) -> None:
        """Drop the page cache except for dirty pieces; reads then come from the disk."""
        size = len(self.seen)
        self.seen[:] = self._with_dirty(self.durable)
        _grow(self.seen, size)

    def truncate(self, size: int) -> None:
        """Cut the file, durably."""
        self.drop_cache()
        for data in (self.seen, self.written):
            del data[size:]
        self.durable[:] = self.seen
        self._dirty.clear()
        self.synced = size

    def replace(self, data: bytes) -> None:
        """Replace the content by ``data``, on the disk and for readers."""
        self.seen[:] = self.durable[:] = self.written[:] = data
        self._dirty.clear()
        self.synced = len(data)

    def lose_power(self, chance: Random) -> str:
        """Keep a random part of what was not synced; return what happened to it."""
        if not self._dirty and len(self.durable) == len(self.seen):
            self.seen[:] = self.durable
            return ""
        what = chance.choice(("lost", "kept", "torn", "torn", "reordered", "reordered"))
        least, most = len(self.durable), len(self.seen)
        if what == "reordered":
            self._write_in_any_order(chance, chance.choice((SECTOR_SIZE, SECTOR_SIZE, PAGE_SIZE)))
        elif what != "lost":
            self.durable[:] = self._with_dirty(self.durable)
        if what != "lost":
            _grow(self.durable, most)
        if what == "torn" or (what == "reordered" and chance.random() < 0.3):
            del self.durable[chance.randint(least, most) :]
        self._dirty.clear()
        self.seen[:] = self.durable
        return f"writes {what}"

    def _write_in_any_order(self, chance: Random, unit: int) -> None:
        """For each unit of the file, apply its first writes, a random number of them."""
        versions: dict[int, int] = {}
        for number, (position, data) in enumerate(self._dirty):
            for start, end in _units(position, position + len(data), unit):
                count = versions.setdefault(
                    start // unit, chance.choice((0, 99, chance.randint(0, len(self._dirty))))
                )
                if number < count:
                    _put(self.durable, start, data[start - position : end - position])

    def _with_dirty(self, data: bytearray) -> bytearray:
        data = bytearray(data)
        for position, piece in self._dirty:
            _put(data, position, piece)
        return data


def _units(start: int, end: int, unit: int) -> list[tuple[int, int]]:
    """Split the range from ``start`` to ``end`` at the file's unit boundaries."""
    cuts = [start, *range(start - start % unit + unit, end, unit), end]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _grow(data: bytearray, size: int) -> None:
    data.extend(bytes(max(0, size - len(data))))


def _put(data: bytearray, position: int, piece: bytes) -> None:
    _grow(data, position)
    data[position : position + len(piece)] = piece
