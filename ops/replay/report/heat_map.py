"""Heat maps: events by two names, with the names that have the most events first.

**Invariant:** the cells of a map add up to all events. A name without its own row or column is
counted under "others".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.whatif.report import Detail

ROWS_MAX: Final = 20
COLUMNS_MAX: Final = 16
LEVELS: Final = tuple((level, 10 ** (level - 1)) for level in range(1, 7))
"""Each tone and the lowest count that has it: one tone for each power of ten."""

Cells = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Names of rows and columns in their order; None stands for "others"."""

    rows: list[str | None]
    columns: list[str | None]
    counts: Mapping[tuple[str | None, str | None], int]

    def counts_of(self, row: str | None) -> list[int]:
        """Return the counts of a row, in the order of the columns."""
        return [self.counts.get((row, column), 0) for column in self.columns]


def map_by_resource(details: Iterable[Detail]) -> HeatMap:
    """Return the events of principals against resources."""
    return _map_by(details, lambda each: f"{each.resource_type} {each.resource_name}")


def map_by_operation(details: Iterable[Detail]) -> HeatMap:
    """Return the events of principals against operations."""
    return _map_by(details, lambda each: each.operation)


def _map_by(details: Iterable[Detail], column_of: Callable[[Detail], str]) -> HeatMap:
    cells: Counter[tuple[str, str]] = Counter()
    for each in details:
        cells[each.principal, column_of(each)] += each.events
    return arrange_heat_map(cells)


def arrange_heat_map(cells: Cells) -> HeatMap:
    """Return a map of counts by (row, column)."""
    rows = _rank(((row, number) for (row, _), number in cells.items()), ROWS_MAX)
    columns = _rank(((column, number) for (_, column), number in cells.items()), COLUMNS_MAX)
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for (row, column), number in cells.items():
        counts[row if row in rows else None, column if column in columns else None] += number
    return HeatMap(
        _with_others(rows, {row for row, _ in counts}),
        _with_others(columns, {column for _, column in counts}),
        counts,
    )


def level_of(number: int) -> int:
    """Return the tone of a count: its number of decimal digits, up to the last tone; 0 for 0."""
    # Digits are exact; the logarithm of a power of ten may not be.
    return min(len(str(number)), len(LEVELS)) if number > 0 else 0


def _rank(counts: Iterable[tuple[str, int]], limit: int) -> list[str]:
    """Return the names with the highest sums; equal sums are ordered by name."""
    sums: Counter[str] = Counter()
    for name, number in counts:
        sums[name] += number
    return sorted(sums, key=lambda each: (-sums[each], each))[:limit]


def _with_others(names: list[str], placed: set[str | None]) -> list[str | None]:
    return [*names, None] if None in placed else [*names]
