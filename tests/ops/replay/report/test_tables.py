"""A table says how much of what there is it shows."""

from __future__ import annotations

from collections.abc import Iterator

from authorizerd.replay.report.markup import NOTHING
from authorizerd.replay.report.tables import (
    CHARACTERS_MAX,
    ROWS_MAX,
    Column,
    Listing,
    facts,
    listing,
)
from tests.ops.replay.report.elements import Elements


def listed(rows: Iterator[list[str]], total: int) -> Elements:
    columns = [Column("Name"), Column("Events", "number")]
    return Elements(
        listing(Listing(title="All", columns=columns, rows=rows, total=total, elsewhere="x.json"))
    )


def test_a_table_ends_after_its_most_rows() -> None:
    """The rest is counted, and where it is, named; no more of it is even asked for."""
    asked: list[int] = []

    def rows() -> Iterator[list[str]]:
        for number in range(10**6):
            asked.append(number)
            yield [f"n{number}", str(number)]

    page = listed(rows(), 10**6)
    assert page.names.count("tr") == ROWS_MAX + 1
    assert len(asked) == ROWS_MAX + 1
    assert "1,000\n of 1,000,000 shown; 999,000 left out of this page, see x.json" in page.text


def test_a_table_of_long_names_ends_sooner() -> None:
    """A page has a bound, whatever the names are."""
    page = listed((["&" * 10_000, "1"] for _ in range(ROWS_MAX)), ROWS_MAX)
    row_characters = len(f'<tr><td>{"&amp;" * 10_000}</td><td class="number">1</td></tr>')
    assert page.names.count("tr") - 1 == CHARACTERS_MAX // row_characters


def test_a_whole_table_leaves_nothing_out() -> None:
    """Nor says so; and one of nothing is not there."""
    assert "left out" not in listed(iter([["a", "1"]]), 1).text
    assert listing(Listing(title="", columns=[], rows=[], total=0, elsewhere="")) == NOTHING


def test_a_table_is_reached_by_keyboard() -> None:
    """What scrolls can be focused, and has a name; its columns say how they are compared."""
    page = listed(iter([["a", "1"]]), 1)
    (box,) = (attributes for _, attributes in page.tags if "tabindex" in attributes)
    assert (box["tabindex"], box["role"], box["aria-label"]) == ("0", "region", "All")
    heads = [attributes for name, attributes in page.tags if name == "th"]
    assert [(head["scope"], head["data-kind"]) for head in heads] == [
        ("col", "text"),
        ("col", "number"),
    ]


def test_facts_that_are_not_known_are_not_there() -> None:
    """An empty one is."""
    page = Elements(facts("run", [("a", "1"), ("b", None), ("c", "")]))
    assert page.names.count("dt") == 2
