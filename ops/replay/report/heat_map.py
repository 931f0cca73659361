"""A heat map as a table: who against what, the most hit first, with the number in every cell.

**Invariant:** nothing is left out of the sums: what has no row or no column of its own stands under
"others", so that the whole map adds up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from authorizerd.replay.report.markup import Markup, element
from authorizerd.replay.report.wording import count, name

ROWS_MAX: Final = 20
COLUMNS_MAX: Final = 16
LEVELS: Final = 6
_OTHERS: Final = "others"

_Key = TypeVar("_Key", bound=Hashable)
Cells = Mapping[tuple[str, str], int]


def heat_map(title: str, cells: Cells) -> Markup:
    """Return a map of counts by (row, column)."""
    rows = _most_hit(((row, number) for (row, _), number in cells.items()), ROWS_MAX)
    columns = _most_hit(((column, number) for (_, column), number in cells.items()), COLUMNS_MAX)
    summed = _summed(
        (
            (row if row in rows else None, column if column in columns else None),
            number,
        )
        for (row, column), number in cells.items()
    )
    all_rows = _with_others(rows, {row for row, _ in summed})
    all_columns = _with_others(columns, {column for _, column in summed})
    head = element("tr", element("td"), *(_head(column, "col") for column in all_columns))
    body = (
        element(
            "tr",
            _head(row, "row"),
            *(_cell(summed.get((row, column), 0)) for column in all_columns),
        )
        for row in all_rows
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="heat-map")
    return element(
        "figure",
        element("figcaption", title),
        element("div", table, class_="scrolled", tabindex=0, role="region", aria_label=title),
        _legend(),
    )


def level_of(number: int) -> int:
    """Return how hot a count is: its decimal digits, up to ``LEVELS``; 0 for nothing."""
    return min(len(str(number)), LEVELS) if number > 0 else 0


def _most_hit(counts: Iterable[tuple[str, int]], limit: int) -> list[str]:
    """Return the names with the most hits, ties by their names."""
    summed = _summed(counts)
    return sorted(summed, key=lambda each: (-summed[each], each))[:limit]


def _summed(counts: Iterable[tuple[_Key, int]]) -> dict[_Key, int]:
    summed: dict[_Key, int] = {}
    for key, number in counts:
        summed[key] = summed.get(key, 0) + number
    return summed


def _with_others(names: Sequence[str], found: set[str | None]) -> list[str | None]:
    return [*names, None] if None in found else list(names)


def _head(text: str | None, scope: str) -> Markup:
    said = element("i", _OTHERS) if text is None else name(text)
    return element("th", element("div", said, title=text and text[:1_000]), scope=scope)


def _cell(number: int) -> Markup:
    said = count(number) if number else ""
    return element("td", said, class_=f"heat-{level_of(number)}")


def _legend() -> Markup:
    """Say which tone is which count: one for each power of ten."""
    lows = [10 ** (level - 1) for level in range(1, LEVELS + 1)]
    said = [
        *(f"{count(low)}–{count(10 * low - 1)}" for low in lows[:-1]),
        f"{count(lows[-1])} and more",
    ]
    return element(
        "p",
        "events: ",
        *(
            element("span", text, class_=f"swatch heat-{level}")
            for level, text in enumerate(said, start=1)
        ),
        class_="tally",
    )
