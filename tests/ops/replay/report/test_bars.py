"""Bars are in proportion, and have their numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from authorizerd.replay.report.bars import Bar, Part, bars, parts


def widths(markup: str) -> list[float]:
    return [float(each.attrib["width"]) for each in ElementTree.fromstring(markup).iter("rect")]


def test_a_bar_is_as_long_as_its_count() -> None:
    """Both of its parts, against the longest of all."""
    shown = [Bar("a", 30, 10, ["30"]), Bar("b", 10, 0, ["10"])]
    first, second, other, none = widths(bars("Most", "Name", ["Events"], shown))
    assert (first / second, first / other, none) == (3, 3, 0)


def test_the_parts_make_the_whole() -> None:
    """Each has its count and its share beside it; of nothing there is no share."""
    said = parts("Lines", [Part("events", 3, "part-1"), Part("aside", 1, "part-3")])
    drawn = widths(said)
    assert drawn[0] / drawn[1] == pytest.approx(3)
    assert " events: 3 (75.0 %)" in said
    assert " events: 0 (–)" in parts("Lines", [Part("events", 0, "part-1")])
