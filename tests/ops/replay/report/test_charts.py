"""Bars, parts and heat maps: their lengths are in proportion and their numbers add up."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.report.heat_map import (
    COLUMNS_MAX,
    LEVELS,
    ROWS_MAX,
    level_of,
)
from tests.ops.replay.report import examples
from tests.ops.replay.report.elements import call_macro, parse_macro

CHARTS = "charts.html.jinja"
NAMES = st.text("ab<&", min_size=1, max_size=4)
CELLS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 10**7), min_size=1, max_size=200)


def widths(markup: str) -> list[float]:
    return [float(each.attrib["width"]) for each in ElementTree.fromstring(markup).iter("rect")]


def test_bar_is_in_proportion_to_the_longest() -> None:
    first, second = widths(call_macro(CHARTS, "bar", 30, 10, 80))
    assert (first, second) == (60, 20)


def test_parts_have_counts_and_shares() -> None:
    markup = call_macro(CHARTS, "parts", "Lines", [("events", 3, "part-1"), ("aside", 1, "part-3")])
    drawn = widths(markup)
    assert drawn[0] / drawn[1] == pytest.approx(3)
    assert " events: 3 (75.0 %)" in markup
    assert " events: 0 (–)" in call_macro(CHARTS, "parts", "Lines", [("events", 0, "part-1")])


def rows_of(cells: dict[tuple[str, str], int]) -> list[ElementTree.Element]:
    body = parse_macro(
        CHARTS,
        "heat_map",
        "who",
        [
            replace(examples.changed().details[0], principal=row, operation=column, events=number)
            for (row, column), number in cells.items()
        ],
        ["operation"],
    ).find(".//tbody")
    assert body is not None
    return list(body)


@given(CELLS)
def test_heat_map_is_bounded_and_adds_up(cells: dict[tuple[str, str], int]) -> None:
    rows = rows_of(cells)
    numbers = [
        int(cell.text.replace(",", "")) for row in rows for cell in row.iter("td") if cell.text
    ]
    assert sum(numbers) == sum(cells.values())
    assert len(rows) <= ROWS_MAX + 1
    assert all(len(row) <= COLUMNS_MAX + 2 for row in rows)


def test_heat_map_ranks_names_and_ends_with_others() -> None:
    rows = rows_of({(f"p{number}", "c"): number for number in range(1, 31)})
    names = ["".join(row[0].itertext()) for row in rows]
    assert names == [*(f"p{number}" for number in range(30, 30 - ROWS_MAX, -1)), "others"]


def test_tone_is_a_power_of_ten() -> None:
    levels = [level_of(number) for number in (0, 1, 9, 10, 99_999, 100_000, 10**9)]
    assert levels == [0, 1, 1, 2, 5, len(LEVELS), len(LEVELS)]
