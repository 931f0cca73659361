"""Pictures draw the numbers that they are given, and show hostile texts as text only."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from authorizerd.daemon.console.rendering import load_static_files
from authorizerd.daemon.console.svg import (
    LEVEL_MAX,
    PLOT_HEIGHT,
    Cell,
    Picture,
    draw_bars,
    draw_cells,
    draw_lines,
    draw_shares,
)
from tests.daemon.console.page_check import HOSTILE, check_page

PICTURE = Picture("a", "Title", "Description")
LABELS = ("first", "middle", "last")
NUMBERS = st.one_of(st.none(), st.integers(0, 10), st.integers(0, 10**18))


def parse(svg: Markup) -> ElementTree.Element:
    check_page(svg)
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter("text")]


def read_bars(root: ElementTree.Element, kind: str) -> dict[int, float]:
    """Return the heights of the bars by position, in pixels."""
    (path,) = root.iterfind(f".//path[@class='{kind}']")
    found = re.findall(r"M(\d+)\.\d,[\d.]+v(-?[\d.]+)h", path.get("d", ""))
    return {int(x): abs(float(height)) for x, height in found}


def read_absent(root: ElementTree.Element) -> set[int]:
    """Return the positions where nothing is known."""
    bands = [(each.get("x"), each.get("width")) for each in root.iter("rect")]
    return {int(x or "") + step for x, width in bands for step in range(int(width or ""))}


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 10**9)), max_size=120))
def test_bars_have_the_heights_of_their_numbers(pairs: list[tuple[int | None, int]]) -> None:
    above = [number for number, _ in pairs]
    below = [None if number is None else other for number, other in pairs]
    root = parse(draw_bars(PICTURE, above, below, LABELS))
    most = [max((each for each in side if each), default=0) for side in (above, below)]
    scale = PLOT_HEIGHT / (sum(most) or 1)
    for kind, side in (("mark-1", above), ("mark-2", below)):
        heights = read_bars(root, kind)
        assert heights.keys() == {x for x, number in enumerate(side) if number}
        for x, height in heights.items():
            assert height == pytest.approx(max((side[x] or 0) * scale, 1), abs=0.01)
    assert read_absent(root) == {x for x, number in enumerate(above) if number is None}
    shown = texts(root)
    assert all(f"{each:,}" in shown for each in most if each)
    assert [*LABELS] == shown[-3:]


@given(st.lists(NUMBERS, max_size=40))
def test_lines_pass_through_their_numbers(values: list[int | None]) -> None:
    """The line is interrupted where nothing is known."""
    root = parse(draw_lines(PICTURE, [values, values], LABELS, lambda each: f"{each} ms"))
    (first, second) = root.iter("path")
    assert first.get("d") == second.get("d")
    assert first.get("class") != second.get("class")
    points = re.findall(r"([ML])(\d+)\.5,([\d.]+)", first.get("d", ""))
    most = max((each for each in values if each), default=0)
    assert [int(x) for _, x, _ in points] == [
        x for x, each in enumerate(values) if each is not None
    ]
    for _, x, y in points:
        expected = PLOT_HEIGHT * (1 - (values[int(x)] or 0) / (most or 1))
        assert float(y) == pytest.approx(expected, abs=0.01)
    for (_, before, _), (step, after, _) in pairwise(points):
        assert (step == "L") == (int(after) == int(before) + 1)
    assert f"{most} ms" in texts(root)
    assert read_absent(root) == {x for x, number in enumerate(values) if number is None}


@given(st.lists(st.integers(0, 10**12), max_size=30))
def test_shares_are_parts_of_the_largest_number(numbers: list[int]) -> None:
    root = parse(draw_shares(PICTURE, [(f"n{each}", each, f"{each:,}") for each in numbers]))
    widths = [each.get("width", "") for each in root.iter("rect") if each.get("class") == "mark-1"]
    expected = [100 * each / (max(numbers) or 1) for each in numbers]
    assert [float(each.removesuffix("%")) for each in widths] == pytest.approx(expected, abs=0.01)
    assert texts(root) == [text for each in numbers for text in (f"n{each}", f"{each:,}")]


def test_matrix_has_each_cell_at_its_place() -> None:
    cells = [[Cell(f"{row}{column}", row), None] for row in range(LEVEL_MAX + 1) for column in (1,)]
    root = parse(draw_cells(PICTURE, [f"r{row}" for row in range(5)], ["c0", "c1"], cells))
    kinds = [each.get("class") for each in root.iter("rect")]
    assert kinds == [each for row in range(5) for each in (f"level-{row}", "faint")]
    assert [each for each in texts(root) if each.isdigit()] == [f"{row}1" for row in range(5)]
    assert len({(each.get("x"), each.get("y")) for each in root.iter("rect")}) == 10


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_only_text(name: str) -> None:
    picture = Picture("x", name, name)
    for svg in (
        draw_bars(picture, [1], [0], (name, name, name), lambda _: name),
        draw_lines(picture, [[1]], (name, name, name), lambda _: name),
        draw_shares(picture, [(name, 1, name)]),
        draw_cells(picture, [name], [name], [[Cell(name, 1)]]),
    ):
        root = parse(svg)
        assert root.get("role") == "img"
        said = {each.get("id"): each for each in root if each.tag in ("title", "desc")}
        assert {root.get("aria-labelledby"), root.get("aria-describedby")} == said.keys()


def test_style_sheet_knows_every_kind_of_mark() -> None:
    """No style is in a picture itself: the console's policy forbids it."""
    style = load_static_files()["console.css"].body.decode()
    kinds = ["mark-1", "mark-2", "line-1", "line-2", "line-3", "absent", "faint", "middle", "end"]
    kinds += [f"level-{level}" for level in range(LEVEL_MAX + 1)]
    assert [each for each in kinds if f".picture .{each}" not in style] == []
