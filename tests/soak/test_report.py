from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from authorizerd.replay.report.plots import Curve
from tests.soak.report import Panel, draw_panels

SVG = "{http://www.w3.org/2000/svg}"


def texts(*panels: Panel) -> list[str]:
    drawn = ElementTree.fromstring(draw_panels(panels))
    return [text.text or "" for text in drawn.iter(f"{SVG}text")]


def test_names_are_text() -> None:
    panel: Panel = ("a < b & c", [Curve("o<u>rs", [(20, 0.5), (2_000, 70)])])
    assert {"a < b & c", "minutes", "o<u>rs"} <= {*texts(panel)}


def test_panel_without_points_says_that_nothing_was_measured() -> None:
    assert texts(("load", [Curve("ours", [])])) == ["load", "nothing was measured"]
    both: Panel = ("load", [Curve("ours", [(1, 1)]), Curve("peer", [])])
    assert "peer" not in texts(both)


@pytest.mark.parametrize("values", [[(0.5, 7.0), (30.0, 10.0)], [(0.0, 0.0)]])
def test_axes_begin_at_0(values: list[tuple[float, float]]) -> None:
    assert texts(("MiB", [Curve("ours", values)])).count("0") == 2


def test_panels_fill_rows() -> None:
    drawn = ElementTree.fromstring(draw_panels([("any", [])] * 4))
    places = [each.attrib["transform"] for each in drawn.iter(f"{SVG}g")]
    assert places == [
        "translate(0,0)", "translate(420,0)", "translate(840,0)", "translate(0,250)",
    ]  # fmt: skip
    assert (drawn.attrib["width"], drawn.attrib["height"]) == ("1260", "500")
