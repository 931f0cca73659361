"""What remains of a table once its events before a day have expired."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.ingest.commit import Commit, Content, Run, read_newest
from authorizerd.replay.ingest.expiry import expire, find_cut, find_kept
from authorizerd.replay.ingest.report import Log, add_up
from authorizerd.replay.ingest.summary import Group, summarize
from authorizerd.replay.local.runs import ingest as ingest_here
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
Rows = list[tuple[int | None, bool, str, str]]
"""The day (None for a line that was set aside), answer, level and file of each line of a run."""

ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 5), st.booleans(), st.sampled_from(["INFO", "DEBUG"]),
              st.sampled_from("ab")), max_size=6,
)  # fmt: skip
RUNS = st.lists(ROWS, max_size=4)
DAYS = st.integers(0, 6)


def day_of(day: int) -> str:
    return format_time(day * DAY_MS)[:10]


def groups_of(rows: Rows) -> list[Group]:
    groups = []
    for number, (day, allowed, level, file) in enumerate(rows):
        group = Group(file, level, None, None, 1, (number, 1), number, number, number)
        if day is None:
            groups.append(group._replace(level=None, reason="no_decision"))
        else:
            at_ms = day * DAY_MS + number
            groups.append(group._replace(
                day=day_of(day), first=number, last_head=number, allowed=int(allowed),
                first_ms=at_ms, last_ms=at_ms,
            ))  # fmt: skip
    return groups


def commit_of(runs: dict[str, Rows]) -> Commit:
    """Return the commit after ingests of runs."""
    made, contents = [], list[Content]()
    for run, rows in runs.items():
        summary = summarize(run, groups_of(rows), "UTC", ("logs",))
        made.append(Run(id=run, days=summary.days, ingested=summary.ingested))
        contents += summary.contents
    tuples = sum(run.ingested.events for run in made)
    return Commit(
        number=7, salt=1, runs=tuple(made), tuples_run="r" if tuples else None,
        contents=tuple(contents), offsets={"t": {0: 9}},
        ingested=replace(add_up([run.ingested for run in made], tuples), damaged=("a.gz",),
                         logs={"a": Log(last_at=None)}),
    )  # fmt: skip


def expire_all(commit: Commit, runs: dict[str, Rows], day: int) -> tuple[Commit, dict[str, Rows]]:
    """Return the commit after an expiry, and the rows that are left of the runs that it lists."""
    kept = find_kept(commit, day_of(day))
    if kept == commit.runs:
        return commit, runs
    left = {
        run.id: [row for row in runs[run.id] if row[0] is None or row[0] >= day] for run in kept
    }
    groups = {run: [each for each in groups_of(rows) if each.reason is None]
              for run, rows in left.items()}  # fmt: skip
    of_cut = [(cut.id, group) for cut in find_cut(commit, kept) for group in groups[cut.id]]
    return expire(commit, kept, of_cut, "new", sum(map(len, groups.values()))), left


@given(RUNS, DAYS, DAYS)
def test_the_events_from_a_day_on_remain(drawn: list[Rows], day: int, later: int) -> None:
    """Compare with a model that has the rows, also after a second expiry."""
    runs = {f"run-{number}": rows for number, rows in enumerate(drawn)}
    before = commit_of(runs)
    for first in (day, day, later):
        after, left = expire_all(before, runs, first)
        if after is before:
            events = [row for rows in runs.values() for row in rows if row[0] is not None]
            assert all(row[0] >= first for row in events)  # type: ignore[operator]
            continue
        assert after.number == before.number + 1
        same = ("salt", "inputs", "offsets")
        assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
        assert (after.ingested.damaged, after.ingested.logs) == (
            ("a.gz",),
            {"a": Log(last_at=None)},
        )
        for run in after.runs:
            days = {day_of(row[0]) for row in left[run.id] if row[0] is not None}
            assert run.days == tuple(sorted(days))
            figures = summarize(run.id, groups_of(left[run.id]), "UTC", ("logs",)).ingested
            assert replace(run.ingested, first_at=None, last_at=None) == replace(
                figures, first_at=None, last_at=None
            )
            if run.first_day:
                assert run.first_day <= min(days)
                assert (run.ingested.first_at or "")[:10] == min(days)
        events = [row for rows in left.values() for row in rows if row[0] is not None]
        assert events == [
            row for rows in runs.values() for row in rows if row[0] is not None and row[0] >= first
        ]
        assert after.ingested.events == after.ingested.tuples == len(events)
        assert after.tuples_run == ("new" if events else None)
        check_contents(before, after)
        before, runs = after, left


def check_contents(before: Commit, after: Commit) -> None:
    """No content is forgotten, and rows are read only from runs that still have all of theirs."""
    whole = {run.id: run.first_day for run in before.runs}
    for old, new in zip(before.contents, after.contents, strict=True):
        assert replace(new, skipped_rows=0, skipped_digest=(0, 0)) == replace(
            old, skipped_rows=0, skipped_digest=(0, 0)
        )
        run = next((run for run in after.runs if run.id == new.run), None)
        is_whole = run is not None and run.first_day == whole[new.run]
        assert (new == old) if is_whole else (new.skipped_rows, new.skipped_digest) == (
            old.rows, old.digest
        )  # fmt: skip


def test_lines_without_events_go_with_a_later_run() -> None:
    aside: Rows = [(None, False, "INFO", "a")]
    runs: dict[str, Rows] = {
        "1": aside,
        "2": [(1, True, "DEBUG", "a")],
        "3": aside,
        "4": [(5, True, "INFO", "b")],
    }
    after, _ = expire_all(commit_of(runs), runs, 3)
    assert [run.id for run in after.runs] == ["3", "4"]
    assert (after.ingested.lines, after.ingested.set_aside) == (2, 1)


LINE = (
    "[2026-11-{} 16:00:0{},000] DEBUG Principal = User:a is Allowed operation = Read from host = "
    "10.0.0.1 on resource = Topic:LITERAL:t{} for request = Fetch with resourceRefCount = 1 based "
    "on rule R (kafka.authorizer.logger)\n"
)


def write_log(path: Path, days: Iterable[int], copies: int = 1) -> None:
    lines = (LINE.format(day, second, day) for day in days for second in range(copies))
    path.write_text("".join(lines))


def test_expired_events_are_gone_for_every_reader(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from authorizerd.replay.ingest.job import run
    from authorizerd.replay.ingest.table import open_table

    monkeypatch.setattr("authorizerd.replay.ingest.adding.COMMITS_KEPT", 2)
    table, other, logs = (tmp_path / name for name in ("table", "other", "logs"))

    def ingest(*inputs: Path, **more: Any) -> str:  # noqa: ANN401 - fields of the plan
        plan = IngestPlan(inputs=tuple(map(str, inputs)), out=str(table), **more)
        assert ingest_here(plan) == 0
        return capsys.readouterr().out

    logs.mkdir()
    write_log(logs / "a.log", range(10, 15))
    write_log(logs / "old.log", [10, 11], copies=2)
    ingest(logs / "old.log")
    ingest(logs)
    shutil.copytree(table, other)
    said = ingest(logs, first_day="2026-11-13")
    assert "7 events before 2026-11-13 expired; left: 2 events (2 allowed, 0 denied) and 2" in said
    commit = read_newest(table)
    assert (commit.number, len(commit.runs), commit.runs[0].first_day) == (3, 1, "2026-11-13")
    plan = IngestPlan(inputs=(str(logs),), out=str(other), first_day="2026-11-13")
    assert run(spark, plan) == 0
    assert replace(read_newest(other), tuples_run=commit.tuples_run) == commit
    assert open_table(spark, str(other)).events().count() == 2
    capsys.readouterr()
    for folder, since_ms in ((table, None), (other, None), (table, 0)):
        found = TableEngine(str(folder), "").tuples(since_ms)
        assert sorted(one.resource_name for one in found) == ["t13", "t14"]
    first = table / "events" / f"run={commit.runs[0].id}" / "day=2026-11-10"
    assert first.exists(), "readers of the last commit but one may need it"
    assert "nothing new" in ingest(logs, first_day="2026-11-13")
    assert read_newest(table) == commit, "without a change, there is no commit"
    (tmp_path / "copy.log").write_text((logs / "a.log").read_text())
    assert "left out 5 lines" in ingest(tmp_path / "copy.log")
    assert read_newest(table).ingested.events == 2
    assert not first.exists()
    assert len(list((table / "events").glob("run=*/day=*"))) == 2
