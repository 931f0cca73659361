"""Percentiles, ratios and the table."""

from __future__ import annotations

import pytest

from ops.bench.figures import Absent, Line, Peer, peer_of, percentile, shown, table


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 1), (1, 1), (50, 50), (50.5, 51), (99, 99), (99.9, 100), (100, 100)],
)
def test_a_percentile_is_the_value_of_its_nearest_rank(percent: float, expected: float) -> None:
    """Of a hundred values the p-th percentile is the p-th, and there is none between two."""
    assert percentile(range(1, 101), percent) == expected


def test_one_value_is_every_percentile() -> None:
    """However few samples there are, a percentile is one of them."""
    assert {percentile([7.0], percent) for percent in (0, 50, 99.9, 100)} == {7.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0233, "0.0233"), (4.1269, "4.13"), (100, "100"), (28612.4, "28,612")],
)
def test_a_figure_shows_the_digits_that_matter(value: float, text: str) -> None:
    """Three digits are more than a noisy machine can vouch for."""
    assert shown(value) == text


def test_less_time_than_the_peer_is_a_ratio_above_one() -> None:
    """The ratio says how many times better ours is: theirs over ours for a time."""
    assert Line(what="", unit="ns", ours=2, peer=Peer("K", 6)).ratio == 3


def test_more_decisions_than_the_peer_is_a_ratio_above_one() -> None:
    """The ratio says how many times better ours is: ours over theirs for a rate."""
    line = Line(what="", unit="/s", ours=6, peer=Peer("K", 2), more_is_better=True)
    assert line.ratio == 3


def test_without_a_peers_figure_there_is_no_ratio() -> None:
    """A peer that was not measured is compared with nothing."""
    assert Line(what="", unit="ns", ours=2, peer=Peer("K", None, "no mvn")).ratio is None
    assert Line(what="", unit="ns", ours=2).ratio is None
    assert Line(what="", unit="", ours=0, peer=Peer("K", 0)).ratio is None


def test_an_absent_peers_reason_fits_one_cell() -> None:
    """A program's complaint may have many lines; the table gives it one."""
    absent = Absent("mvn: exit code 1:\n  no\n  network")
    assert peer_of("K", absent, len) == Peer("K", None, "mvn: exit code 1: no network")
    assert peer_of("K", "abc", len) == Peer("K", 3)


def test_the_table_is_columns_with_a_line_for_each_figure() -> None:
    """What, ours, the peer's or why there is none or our law, and the ratio."""
    lines = [
        Line(what="decision", unit="ns", ours=400, peer=Peer("Kafka", 3200)),
        Line(what="load", unit="s", ours=1.5, peer=Peer("Kafka", None, "no mvn")),
        Line(what="stall", unit="ms", ours=1.25, law=2),
        Line(what="dropped", unit="", ours=0),
    ]
    assert table(lines).splitlines() == [
        "what      ours     peer                 ours is better by",
        "--------  -------  -------------------  -----------------",
        "decision  400 ns   3,200 ns (Kafka)     8x",
        "load      1.5 s    peer absent: no mvn",
        "stall     1.25 ms  law: at most 2 ms",
        "dropped   0",
    ]
