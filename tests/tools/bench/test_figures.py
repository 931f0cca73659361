"""Figures, the files of their parts, and their tables."""

from pathlib import Path

import msgspec
import pytest

from tools.bench import table
from tools.bench.figures import (
    Absent,
    MeasurementError,
    Peer,
    Row,
    format_figure,
    percentile,
    percentile_rows,
    row_of_rounds,
    supported_percent,
)
from tools.bench.table import Result, read_results, write_result

ROWS = [
    Row(what="a", metric="rate", unit="/s", ours=2, peer=Peer("K", 1), more_is_better=True),
    Row(what="a", metric="p50", unit="ms", ours=1.5),
    Row(what="a", metric="p99", unit="ms", ours=3),
    Row(what="b", metric="rate", unit="/s", ours=200),
]


@pytest.fixture(autouse=True)
def short_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = (("a's rate", "in-memory", "a", "rate"), ("b's rate", "http", "b", "rate"))
    monkeypatch.setattr(table, "SUMMARY", summary)


def make_result(part: str = "in-memory", *, is_quick: bool = False, error: str = "") -> Result:
    return Result(
        part=part, began="today", seconds=2.0, machine="a machine", load_average=0.5,
        is_quick=is_quick, rows=ROWS, error=error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 1), (1, 1), (50, 50), (50.5, 51), (99, 99), (99.9, 100), (100, 100)],
)
def test_percentile_is_the_value_of_the_nearest_rank(percent: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), percent) == expected
    assert percentile([7.0], percent) == 7.0


@pytest.mark.parametrize(
    ("samples", "percent"), [(1, 50), (99, 50), (100, 90), (999, 90), (1000, 99), (10_000, 99)]
)
def test_percentile_needs_ten_samples_above_it(samples: int, percent: int) -> None:
    assert supported_percent(samples) == percent


def test_percentiles_are_those_that_every_side_supports() -> None:
    rows = [*percentile_rows("what", [1.0] * 1000, "K", [2.0] * 100)]
    assert [row.metric for row in rows] == ["p50", "p90"]
    with pytest.raises(MeasurementError, match="nothing"):
        next(percentile_rows("what", []))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row(what="", metric="", unit="ns", ours=4, peer=Peer("K", 32)), "4 ns (K: 32 ns, 8x)"),
        (Row(what="", metric="", unit="ms", ours=-1, peer=Peer("K", 2)), "-1 ms (K: 2 ms)"),
        (ROWS[0], "2 /s (K: 1 /s, 2x)"),
        (Row(what="", metric="", unit="s", ours=1, peer=Peer("K", None, "no k")), "1 s (K: no k)"),
        (Row(what="", metric="", unit="ms", ours=1.25, limit=2), "1.25 ms (limit 2)"),
        (Row(what="", metric="", unit="ms", ours=3, calm=1.5), "3 ms (calm 1.5)"),
        (Row(what="", metric="", unit="", ours=0), "0"),
        (row_of_rounds("", "", "/s", [3, 1, 2], "K", Absent("no k")), "2 [1..3] /s (K: no k)"),
        (row_of_rounds("", "", "µs", [2], "K", [4, 4]), "2 µs (K: 4 µs, 2x)"),
    ],
)  # fmt: skip
def test_row_shows_what_its_figure_is_compared_with(row: Row, text: str) -> None:
    assert str(row) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0233, "0.0233"), (4.1269, "4.13"), (100, "100"), (28612.4, "28,612")],
)
def test_figure_has_three_significant_digits(value: float, text: str) -> None:
    assert format_figure(value) == text


def test_table_has_a_row_for_each_case_and_a_column_for_each_metric() -> None:
    assert table.draw_rows(ROWS).splitlines() == [
        "|  | rate | latency |",
        "| --- | --- | --- |",
        "| a | 2 /s (K: 1 /s, 2x) | p50 1.5 ms; p99 3 ms |",
        "| b | 200 /s |  |",
    ]


def test_table_with_many_metrics_has_a_row_for_each_metric() -> None:
    more = [Row(what="b", metric=f"m{number}", unit="", ours=number) for number in range(5)]
    assert table.draw_rows([*ROWS, *more]).splitlines()[:4] == [
        "|  | a | b |",
        "| --- | --- | --- |",
        "| rate | 2 /s (K: 1 /s, 2x) | 200 /s |",
        "| latency | p50 1.5 ms; p99 3 ms |  |",
    ]


def test_case_with_metrics_of_its_own_is_a_line() -> None:
    alone = Row(what="c", metric="memory", unit="MiB", ours=3)
    assert table.draw_rows([*ROWS[:2], alone]).splitlines() == [
        "- a: rate 2 /s (K: 1 /s, 2x); latency p50 1.5 ms",
        "",
        "- c: memory 3 MiB",
    ]


def test_result_of_a_part_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path / "results", make_result())
    assert read_results(tmp_path / "results") == {"in-memory": make_result()}


def test_page_gets_the_parts_without_an_error_and_names_the_others() -> None:
    page = f"before\n{table.BEGIN}old\n{table.END}\nafter\n"
    results = {"in-memory": make_result(), "http": make_result("http", error="it failed")}
    drawn = table.replace_figures(page, results)
    assert drawn.startswith("before\n")
    assert drawn.endswith(f"{table.END}\nafter\n")
    assert "### `in-memory`" in drawn
    assert "### In short\n|  |  |\n| --- | --- |\n| a's rate | 2 /s (K: 1 /s, 2x) |\n\n" in drawn
    assert "Not measured: http, openfga" in drawn
    assert "old" not in drawn


@pytest.mark.parametrize(
    ("page", "results", "complaint"),
    [
        (f"{table.BEGIN}{table.END}", {"in-memory": make_result(is_quick=True)}, "full run"),
        (f"{table.BEGIN}{table.END}", {}, "full run"),
        ("no markers", {"in-memory": make_result()}, "expected the lines"),
        (
            "",
            {"http": msgspec.structs.replace(make_result(), rows=ROWS[:1])},
            "http has no row 'b'",
        ),
    ],
)
def test_page_needs_a_full_run(page: str, results: dict[str, Result], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        table.replace_figures(page, results)


def test_page_of_the_documentation_has_the_markers() -> None:
    assert table.replace_figures(table.PAGE.read_text(), {"in-memory": make_result()})
