"""Heat maps: events by two names, with the names that have the most events first.

**Invariant:** the cells of a map add up to all events. A name without its own row or column is
counted under "others".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.whatif.report import Detail

ROWS_MAX: Final = 20
COLUMNS_MAX: Final = 16
LEVELS: Final = tuple((level, 10 ** (level - 1)) for level in range(1, 7))
"""Each tone and the lowest count that has it: one tone for each power of ten."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The names of the columns, and (name, counts by column) of each row; None is "others"."""

    columns: list[str | None]
    rows: list[tuple[str | None, list[int]]]


def map_by_resource(details: Iterable[Detail]) -> HeatMap:
    """Return the events of principals against resources."""
    return make_heat_map(
        [
            (each.principal, f"{each.resource_type} {each.resource_name}", each.events)
            for each in details
        ]
    )


def map_by_operation(details: Iterable[Detail]) -> HeatMap:
    """Return the events of principals against operations."""
    return make_heat_map([(each.principal, each.operation, each.events) for each in details])


def make_heat_map(cells: Sequence[tuple[str, str, int]]) -> HeatMap:
    """Return a map of (row, column, count); counts of equal cells are added."""
    by_row, by_column = Counter[str](), Counter[str]()
    for row, column, number in cells:
        by_row[row] += number
        by_column[column] += number
    rows, columns = _rank(by_row, ROWS_MAX), _rank(by_column, COLUMNS_MAX)
    counts = Counter[tuple[str | None, str | None]]()
    for row, column, number in cells:
        counts[row if row in rows else None, column if column in columns else None] += number
    return HeatMap(columns, [(row, [counts[row, column] for column in columns]) for row in rows])


def _rank(counts: Counter[str], limit: int) -> list[str | None]:
    """Return the names with the highest counts, then None if there are others."""
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return [*ranked[:limit], *([None] if len(ranked) > limit else [])]


def level_of(number: int) -> int:
    """Return the tone of a count: its number of decimal digits, up to the last tone; 0 for 0."""
    # Digits are exact; the logarithm of a power of ten may not be.
    return min(len(str(number)), len(LEVELS)) if number > 0 else 0
