"""Write a large message item by item, and keep it in chunks.

**Invariant:** writing a message, joining its chunks and freeing it take steps that do not grow with
the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP

CHUNK_BYTES: Final = 65_536

Chunk: TypeAlias = bytes | bytearray

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Items(Protocol[T_co]):
    """A value that can be written as an array. It may create its items while they are read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


class LazyItems(Generic[S, T]):
    """Items that ``make`` creates from the sources, each only when it is written."""

    def __init__(self, make: Callable[[S], T], sources: Sequence[S]) -> None:
        self._make = make
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)


class Output:
    """Collect the parts of a message, and return chunks of about ``CHUNK_BYTES``."""

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

    def begin_part(self) -> Output:
        """Return an output for a part of the message that is preceded by its size."""
        part = Output()
        # Continue the message's count of items: otherwise many small parts would be one long step.
        part._items = self._items
        return part

    def add_part(self, head: Callable[[int], bytes], part: Output) -> None:
        """Add a complete part, preceded by the bytes that ``head`` returns for its size."""
        self._items = part._items
        chunks = part.finish()
        self.add(head(sum(map(len, chunks))))
        for chunk in chunks:
            self.add(chunk)

    def ends_step(self) -> bool:
        """Count an item of an array at any depth. Return True if a step ends after it."""
        self._items += 1
        return self._items % ITEMS_PER_STEP == 0

    def finish(self) -> list[Chunk]:
        self._chunks.append(self._last)
        return self._chunks
