"""Sum up the rows that a function yields for other rows: the interface, and its local version.

A row is a named tuple. A row of sums begins with its key, and ends with some of ``FIGURES``.

**Invariant:** the sums of parts, summed again, are those of the whole. So all engines return equal
rows in the same order: one row per key, sorted by key, with None first and texts by code point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

Row: TypeAlias = Any
"""A named tuple; Python has no type for all named tuples."""
T = TypeVar("T")
R = TypeVar("R", bound=Row)
T_co = TypeVar("T_co", covariant=True)
Find: TypeAlias = Callable[[Iterable[T]], Iterable[R]]

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

    def sum(self, find: Find[T, R], kind: type[R], /) -> Iterator[R]:
        """Yield the sums of what ``find`` yields."""
        (sums,) = sum_parts(find(self._rows), kind, keys_max=sys.maxsize)
        return iter(sorted(sums, key=key_of))


def sum_parts(rows: Iterable[R], kind: type[R], *, keys_max: int = KEYS_MAX) -> Iterator[list[R]]:
    """Yield sums of rows, at most ``keys_max`` at a time, unordered; the last list may be empty."""
    key_size = key_size_of(kind)
    merges = [FIGURES[name] for name in kind._fields[key_size:]]
    sums: dict[tuple[object, ...], R] = {}
    for row in rows:
        key = row[:key_size]
        so_far = sums.get(key)
        if so_far is None:
            if len(sums) >= keys_max:
                yield list(sums.values())
                sums.clear()
            sums[key] = row
        else:
            figures = zip(merges, so_far[key_size:], row[key_size:], strict=True)
            sums[key] = kind(*key, *(merge(one, other) for merge, one, other in figures))
    yield list(sums.values())


def key_size_of(kind: type[Row]) -> int:
    """Return the number of fields of a row's key."""
    return sum(name not in FIGURES for name in kind._fields)


def key_of(row: Row) -> list[tuple[bool, Any]]:
    """Return the sort key of a row: by its key, None first, and texts by code point."""
    return [(part is not None, part) for part in row[: key_size_of(type(row))]]


def by_frequency(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a row in a report: most events first, then by its key."""
    return -row.events, key_of(row)
