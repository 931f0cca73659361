"""Heat maps: events by two names, with the names that have the most events first.

**Invariant:** the cells of a map add up to all events. A name without its own row or column is
counted under "others".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from authorizerd.replay.whatif.report import Detail

ROWS_MAX: Final = 20
COLUMNS_MAX: Final = 16
LEVELS: Final = tuple((level, 10 ** (level - 1)) for level in range(1, 7))
"""Each tone and the lowest count that has it: one tone for each power of ten."""


class HeatMap(NamedTuple):
    """The names of the columns, and each row's name and counts by column; None means "others"."""

    columns: list[str | None]
    rows: list[tuple[str | None, list[int]]]


def make_heat_map(details: Iterable[Detail], fields: Sequence[str]) -> HeatMap:
    """Return the events of principals by ``fields``, which together name a column."""
    cells = [
        (detail.principal, " ".join(getattr(detail, field) for field in fields), detail.events)
        for detail in details
    ]
    rows = _rank(((row, number) for row, _, number in cells), ROWS_MAX)
    columns = _rank(((column, number) for _, column, number in cells), COLUMNS_MAX)
    counts = Counter[tuple[str | None, str | None]]()
    for row, column, number in cells:
        counts[row if row in rows else None, column if column in columns else None] += number
    return HeatMap(columns, [(row, [counts[row, column] for column in columns]) for row in rows])


def _rank(counted: Iterable[tuple[str, int]], limit: int) -> list[str | None]:
    """Return the names with the highest sums, then None if there are others."""
    sums = Counter[str]()
    for name, number in counted:
        sums[name] += number
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    return [*ranked[:limit], *([None] if len(ranked) > limit else [])]


def level_of(number: int) -> int:
    """Return the tone of a count: its number of decimal digits, up to the last tone; 0 for 0."""
    # Digits are exact; the logarithm of a power of ten may not be.
    return min(len(str(number)), len(LEVELS)) if number > 0 else 0
