"""Curves are drawn where their figures are, on axes of whole powers of ten."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ops.bench.plot import COLUMNS, HEIGHT, WIDTH, Panel, Series, svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(svg(panels))


def texts(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def dots(element: ElementTree.Element) -> list[tuple[float, float]]:
    return [
        (float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in element.iter(f"{SVG}circle")
    ]


def test_equal_ratios_are_equal_distances() -> None:
    """The axes are logarithmic: ten times as much is one step further, to the right and up."""
    panel = Panel("load", "ACLs", [Series("ours", [(10, 1), (100, 10), (1000, 100)])])
    (ax, ay), (bx, by), (cx, cy) = dots(drawn(panel))
    assert bx - ax == cx - bx > 0
    assert by - ay == cy - by < 0


def test_every_power_of_ten_has_its_number() -> None:
    """And names may hold what markup is made of."""
    panel = Panel("a < b & c", "ACLs", [Series("o<u>rs", [(20, 0.5), (2_000_000, 70)])])
    shown = texts(drawn(panel))
    assert shown[0] == "a < b & c"
    assert {"10", "100", "10k", "10M", "0.1", "1"} <= set(shown)
    assert "o<u>rs" in shown


def test_a_panel_of_nothing_says_so() -> None:
    """A peer that is absent leaves no curve, and a plot without points no axis."""
    assert "nothing was measured" in texts(drawn(Panel("load", "ACLs", [Series("ours", [])])))
    both = Panel("load", "ACLs", [Series("ours", [(1, 1)]), Series("peer", [])])
    assert "peer" not in texts(drawn(both))


_values = st.floats(min_value=1e-6, max_value=1e12)


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=8), st.integers(1, 5))
def test_no_curve_leaves_its_panel(points: list[tuple[float, float]], count: int) -> None:
    """Whatever the figures."""
    panel = Panel("any", "x", [Series("ours", points)])
    picture = drawn(*[panel] * count)
    assert len(dots(picture)) == count * len(points)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in dots(picture))
    rows = -(-count // COLUMNS)
    assert picture.attrib["height"] == str(HEIGHT * rows)
