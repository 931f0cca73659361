"""Sum up the rows that a function yields for other rows: the interface, and its local version.

A row is a named tuple. A row of sums begins with its key, and ends with some of ``FIGURES``.

**Invariant:** the sums of parts, summed again, are those of the whole. So all engines return equal
rows in the same order: one row per key, sorted by key, with None first and texts by code point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

Row: TypeAlias = Any
"""A named tuple; Python has no type for all named tuples."""
T = TypeVar("T")
R = TypeVar("R", bound=Row)
T_co = TypeVar("T_co", covariant=True)
Find: TypeAlias = Callable[[Iterable[T]], Iterable[R]]


class Columns(Protocol):
    """Rows as columns, which are fast to read."""

    def values(self, name: str) -> Sequence[Any]:
        """Return the values of all rows in a column."""
        ...

    def distinct(self, name: str) -> Collection[Any]:
        """Return the values that a column may have, each once."""
        ...


@dataclass(frozen=True)
class SelectiveFind(Generic[T, R]):
    """A function for rows that yields nothing for most of them.

    ``select`` returns the numbers of the rows that ``find`` needs, or None if it needs all. Rows in
    columns are made only for these.
    """

    find: Find[T, R]
    select: Callable[[Columns], Sequence[int] | None]

    def __call__(self, rows: Iterable[T]) -> Iterable[R]:
        return self.find(rows)


FIGURES: Final[dict[str, Callable[[int, int], int]]] = {
    "events": add,
    "tuples": add,
    "first_ms": min,
    "last_ms": max,
}
KEYS_MAX: Final = 100_000
"""Maximum number of sums that a worker keeps before it passes them on as sums of a part."""


class Rows(Protocol[T_co]):
    """Rows that functions can process."""

    def sum(self, find: Find[Any, R], kind: type[R], /) -> Iterator[R]:
        """Yield the sums of the rows of ``kind`` that ``find`` yields, in the order of their keys.

        Args:
            find: gets all rows, or the rows of a part; on Spark, it is pickled.
        """
        ...


class LocalRows(Generic[T]):
    """Rows in this process; ``rows`` can be iterated over several times."""

    def __init__(self, rows: Iterable[T]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[T]:
        return iter(self._rows)

    def find(self, find: Find[T, R], /) -> Iterable[R]:
        """Return what ``find`` yields."""
        return find(self._rows)

    def sum(self, find: Find[T, R], kind: type[R], /) -> Iterator[R]:
        """Yield the sums of what ``find`` yields."""
        (sums,) = sum_parts(self.find(find), kind, keys_max=sys.maxsize)
        return iter(sorted(sums, key=key_of))


def sum_parts(rows: Iterable[R], kind: type[R], *, keys_max: int = KEYS_MAX) -> Iterator[list[R]]:
    """Yield sums of rows, at most ``keys_max`` at a time, unordered; the last list may be empty."""
    key_size = key_size_of(kind)
    merges = [(place, FIGURES[kind._fields[place]]) for place in range(key_size, len(kind._fields))]
    sums: dict[tuple[object, ...], list[Any]] = {}
    for row in rows:
        key = row[:key_size]
        so_far = sums.get(key)
        if so_far is None:
            if len(sums) >= keys_max:
                yield list(map(kind._make, sums.values()))
                sums.clear()
            sums[key] = list(row)
        else:
            for place, merge in merges:
                so_far[place] = merge(so_far[place], row[place])
    yield list(map(kind._make, sums.values()))


def key_size_of(kind: type[Row]) -> int:
    """Return the number of fields of a row's key."""
    return sum(name not in FIGURES for name in kind._fields)


def key_of(row: Row) -> list[tuple[bool, Any]]:
    """Return the sort key of a row: by its key, None first, and texts by code point."""
    return [(part is not None, part) for part in row[: key_size_of(type(row))]]


def by_frequency(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a row in a report: most events first, then by its key."""
    return -row.events, key_of(row)
