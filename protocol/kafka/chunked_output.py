"""Write a large message item by item, and keep it in chunks.

**Invariant:** writing a message, joining its chunks and freeing it take steps that do not grow with
the message.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

ITEMS_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 2048
"""A step ends at whichever limit comes first. Bytes count because an item may have many tags."""


CHUNK_BYTES: Final = 65_536
_REPEATED: Final = 4096

Chunk: TypeAlias = bytes | bytearray

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Items(Protocol[T_co]):
    """A value that can be written as an array. It may create its items during iteration."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


class LazyItems(Generic[S, T]):
    """Items that ``make`` creates from the sources, each one only when it is written."""

    def __init__(self, make: Callable[[S], T], sources: Sequence[S]) -> None:
        self._make = make
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)


class Repeated(Generic[T]):
    """The same item, ``count`` times."""

    def __init__(self, item: T, count: int) -> None:
        self.item: Final = item
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return itertools.repeat(self.item, self._count)


class Output:
    """Collects the parts of a message into chunks of about ``CHUNK_BYTES``."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        # Join small parts: as separate objects, they would take many times their size.
        self._last = bytearray()
        self._items = 0

    def add(self, part: Chunk) -> None:
        self._last += part
        if len(self._last) >= CHUNK_BYTES:
            self._chunks.append(self._last)
            self._last = bytearray()

    def add_whole(self, *parts: Chunk) -> None:
        """Add large parts without copying them."""
        self._chunks += (self._last, *parts)
        self._last = bytearray()

    def repeat(self, part: bytes, count: int) -> None:
        """Add the same small part ``count`` times: a million takes a millisecond."""
        whole = part * _REPEATED
        for _ in range(count // _REPEATED):
            self.add(whole)
        self.add(part * (count % _REPEATED))

    def ends_step(self, count: int) -> bool:
        """Count array items at any depth. Return True if a step ends after them."""
        self._items += count
        if self._items < ITEMS_PER_STEP:
            return False
        self._items %= ITEMS_PER_STEP
        return True

    def finish(self) -> list[Chunk]:
        self._chunks.append(self._last)
        return self._chunks
