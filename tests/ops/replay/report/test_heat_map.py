"""The map adds up, however much stands under "others"."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report.heat_map import COLUMNS_MAX, LEVELS, ROWS_MAX, heat_map, level_of

NAMES = st.text("ab<&", min_size=1, max_size=4)
CELLS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 10**7), min_size=1, max_size=200)


def rows_of(cells: dict[tuple[str, str], int]) -> list[ElementTree.Element]:
    body = ElementTree.fromstring(heat_map("who", cells)).find(".//tbody")
    assert body is not None
    return list(body)


@given(CELLS)
def test_nothing_is_lost(cells: dict[tuple[str, str], int]) -> None:
    """The cells are all events, in a bounded table."""
    rows = rows_of(cells)
    numbers = [
        int(cell.text.replace(",", "")) for row in rows for cell in row.iter("td") if cell.text
    ]
    assert sum(numbers) == sum(cells.values())
    assert len(rows) <= ROWS_MAX + 1
    assert all(len(row) <= COLUMNS_MAX + 2 for row in rows)


def test_the_most_hit_come_first_and_the_others_together_last() -> None:
    """Each row has a name of its own, or is that of the others."""
    rows = rows_of({(f"p{number}", "c"): number for number in range(1, 31)})
    names = ["".join(row[0].itertext()) for row in rows]
    assert names == [*(f"p{number}" for number in range(30, 30 - ROWS_MAX, -1)), "others"]


def test_a_tone_is_a_power_of_ten() -> None:
    """From none to as many as there are."""
    assert [level_of(number) for number in (0, 1, 9, 10, 99_999, 100_000, 10**9)] == [
        *(0, 1, 1, 2, 5, LEVELS, LEVELS),
    ]
