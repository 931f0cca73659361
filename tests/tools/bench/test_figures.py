"""Percentiles, ratios and the table."""

from __future__ import annotations

import pytest

from tools.bench.figures import (
    Absent,
    Line,
    Peer,
    format_figure,
    format_table,
    make_peer,
    percentile,
    supported_percent,
)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 1), (1, 1), (50, 50), (50.5, 51), (99, 99), (99.9, 100), (100, 100)],
)
def test_percentile_is_the_value_of_the_nearest_rank(percent: float, expected: float) -> None:
    assert percentile(range(1, 101), percent) == expected
    assert percentile([7.0], percent) == 7.0


@pytest.mark.parametrize(
    ("samples", "percent"),
    [(1, 50), (99, 50), (100, 90), (999, 90), (1000, 99), (10_000, 99)],
)
def test_percentile_needs_ten_samples_above_it(samples: int, percent: int) -> None:
    assert supported_percent(samples) == percent


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0233, "0.0233"), (4.1269, "4.13"), (100, "100"), (28612.4, "28,612")],
)
def test_figure_has_three_significant_digits(value: float, text: str) -> None:
    assert format_figure(value) == text


@pytest.mark.parametrize(
    ("ours", "peer", "more_is_better", "ratio"),
    [
        (2, Peer("K", 6), False, 3),
        (6, Peer("K", 2), True, 3),
        (2, Peer("K", None, "no mvn"), False, None),
        (2, None, False, None),
        (0, Peer("K", 0), False, None),
    ],
)
def test_ratio_is_how_many_times_better_ours_is(
    ours: float, peer: Peer | None, more_is_better: bool, ratio: float | None
) -> None:
    line = Line(what="", unit="ns", ours=ours, peer=peer, more_is_better=more_is_better)
    assert line.ratio == ratio


def test_reason_for_an_absent_peer_is_one_line() -> None:
    absent = Absent("mvn: exit code 1:\n  no\n  network")
    assert make_peer("K", absent, len) == Peer("K", None, "mvn: exit code 1: no network")
    assert make_peer("K", "abc", len) == Peer("K", 3)


def test_table_has_aligned_columns() -> None:
    lines = [
        Line(what="decision", unit="ns", ours=400, peer=Peer("Kafka", 3200)),
        Line(what="load", unit="s", ours=1.5, peer=Peer("Kafka", None, "no mvn")),
        Line(what="stall", unit="ms", ours=1.25, limit=2),
        Line(what="dropped", unit="", ours=0),
        Line(what="broken", unit="ms", ours=2.5, limit=2, enforced=True),
        Line(what="flooded", unit="ms", ours=3, calm=1.5),
        Line(what="rate", unit="/s", ours=2, spread=(1, 3), peer=Peer("OPA", 1, spread=(1, 1))),
    ]
    assert format_table(lines).splitlines() == [
        "what      ours         peer                         ours is better by",
        "--------  -----------  ---------------------------  -----------------",
        "decision  400 ns       3,200 ns (Kafka)             8x",
        "load      1.5 s        peer absent: no mvn",
        "stall     1.25 ms      limit: at most 2 ms",
        "dropped   0",
        "broken    2.5 ms       limit: at most 2 ms: BROKEN",
        "flooded   3 ms         1.5 ms (calm)                2x calm",
        "rate      2 [1..3] /s  1 /s (OPA)                   0.5x",
    ]
