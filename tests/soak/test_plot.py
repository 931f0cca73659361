from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.plot import COLUMNS, FRAME, Panel, Series, draw_panels

SVG = "{http://www.w3.org/2000/svg}"


def draw(*panels: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(draw_panels(panels))


def texts(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def dots(element: ElementTree.Element) -> list[tuple[float, float]]:
    return [
        (float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in element.iter(f"{SVG}circle")
    ]


def test_equal_ratios_are_equal_distances() -> None:
    panel = Panel("load", "ACLs", [Series("ours", [(10, 1), (100, 10), (1000, 100)])])
    (ax, ay), (bx, by), (cx, cy) = dots(draw(panel))
    assert bx - ax == pytest.approx(cx - bx, abs=0.2)
    assert by - ay == pytest.approx(cy - by, abs=0.2)
    assert bx > ax
    assert by < ay


def test_every_power_of_ten_has_its_number_and_names_are_text() -> None:
    panel = Panel("a < b & c", "ACLs", [Series("o<u>rs", [(20, 0.5), (2_000_000, 70)])])
    found = set(texts(draw(panel)))
    assert {"a < b & c", "o<u>rs", "10", "100", "10k", "10M", "0.1", "1"} <= found


def test_panel_without_points_says_that_nothing_was_measured() -> None:
    empty = draw(Panel("load", "ACLs", [Series("ours", [])]))
    assert texts(empty) == ["load", "nothing was measured"]
    both = Panel("load", "ACLs", [Series("ours", [(1, 1)]), Series("peer", [])])
    assert "peer" not in texts(draw(both))


@pytest.mark.parametrize("values", [[(0.5, 7.0), (30.0, 10.0)], [(0.0, 0.0)]])
def test_linear_axes_begin_at_0(values: list[tuple[float, float]]) -> None:
    picture = draw(Panel("MiB", "minutes", [Series("ours", values)], is_linear=True))
    assert texts(picture).count("0") == 2
    assert dots(picture) == []


_values = st.floats(min_value=1e-6, max_value=1e12)


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=8), st.integers(1, 5))
def test_curves_stay_in_their_panel(points: list[tuple[float, float]], count: int) -> None:
    picture = draw(*[Panel("any", "x", [Series("ours", points)])] * count)
    assert 0 < len(dots(picture)) <= count * len(points)
    assert all(0 <= x <= FRAME.width and 0 <= y <= FRAME.height for x, y in dots(picture))
    rows = -(-count // COLUMNS)
    assert picture.attrib["height"] == str(FRAME.height * rows)
