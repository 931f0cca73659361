"""A large message as it is written: made of items one by one, kept in pieces.

Invariant: no step grows with the message, be it to write it, to join its pieces or to let it go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP

PIECE_BYTES: Final = 65_536

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Items(Protocol[T_co]):
    """What can be written as an array: it may make its items one by one, as they are asked for."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


class Made(Generic[S, T]):
    """What ``make`` makes of each source, at the time that it is written."""

    def __init__(self, make: Callable[[S], T], sources: Sequence[S]) -> None:
        self._make = make
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)


class Output:
    """Takes the parts of a message, and gives pieces of some ``PIECE_BYTES`` back."""

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        # Small parts are not kept as such: each would take many times its size.
        self._last = bytearray()
        self._items = 0

    def add(self, part: bytes | bytearray) -> None:
        self._last += part
        if len(self._last) >= PIECE_BYTES:
            self._pieces.append(self._last)
            self._last = bytearray()

    def begin_part(self) -> Output:
        """Return what takes a part of the message whose size stands before it."""
        part = Output()
        part._items = self._items
        return part

    def add_part(self, head: Callable[[int], bytes], part: Output) -> None:
        """Add a part that is complete, behind what ``head`` makes of its size."""
        self._items = part._items
        pieces = part.finish()
        self.add(head(sum(map(len, pieces))))
        for piece in pieces:
            self.add(piece)

    def ends_step(self) -> bool:
        """Count an item, of an array however deep; say whether a step ends behind it."""
        self._items += 1
        return self._items % ITEMS_PER_STEP == 0

    def finish(self) -> list[bytes | bytearray]:
        self._pieces.append(self._last)
        return self._pieces
