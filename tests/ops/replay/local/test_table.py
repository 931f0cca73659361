from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from authorizerd.replay.local import table
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.local.table import TableEngine
from tests.ops.replay.recorded_events import START, Event, damage_rows, write_events

START_MS = int(START.timestamp() * 1000)
DAY_MS = 86_400_000


def read_of(name: str, at: int, *, allowed: bool = True, host: str | None = None) -> Event:
    return Event("User:a", host, "READ", "TOPIC", name, allowed, at=at)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of three days; ``t`` is read on each of them, and denied at the end."""
    events = [read_of("t", at=day * DAY_MS) for day in range(3)]
    return write_events(tmp_path / "in", [*events, read_of("t", 2 * DAY_MS + 5, allowed=False)])


@pytest.mark.parametrize(
    ("since", "allowed"),
    [(0, 3), (1, 2), (DAY_MS, 2), (DAY_MS + 1, 1), (2 * DAY_MS, 1), (2 * DAY_MS + 1, 0)],
)
def test_window_contains_the_events_since_its_begin(folder: Path, since: int, allowed: int) -> None:
    (one,) = TableEngine(str(folder), "").tuples(START_MS + since)
    times = (START_MS + (3 - allowed) * DAY_MS, START_MS + 2 * DAY_MS) if allowed else (None, None)
    assert one[6:10] == (allowed, *times, None)
    assert one[10:] == (1, START_MS + 2 * DAY_MS + 5, START_MS + 2 * DAY_MS + 5, None)
    assert list(TableEngine(str(folder), "").tuples(START_MS + 3 * DAY_MS)) == []


def test_window_reads_only_its_own_days(folder: Path) -> None:
    first, *_ = sorted((folder / "events").glob("run=*/day=*"))
    damage_rows(first / "part-0.parquet")
    assert len(list(TableEngine(str(folder), "").tuples(START_MS + DAY_MS))) == 1
    with pytest.raises(TrafficError, match=rf"--events: {first}/part-0\.parquet: "):
        TableEngine(str(folder), "").tuples(START_MS)


def test_tuples_can_be_iterated_over_twice(folder: Path) -> None:
    tuples = TableEngine(str(folder), "").tuples()
    assert list(tuples) == list(tuples) == list(TableEngine(str(folder), "").tuples(START_MS))


def test_table_without_events_has_no_tuples(tmp_path: Path) -> None:
    assert list(TableEngine(str(write_events(tmp_path, [])), "").tuples()) == []


def test_missing_tuples_are_rejected(folder: Path) -> None:
    for file in (folder / "tuples").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(TrafficError, match=r"--events: .*tuples.*: expected 1 tuples, found 0: "):
        TableEngine(str(folder), "").tuples()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_missing_events_of_a_run_that_ends_in_a_window_are_rejected(
    folder: Path, lost: int
) -> None:
    assert len(list(TableEngine(str(folder), "").tuples(START_MS + 2 * DAY_MS))) == 1
    shutil.rmtree(sorted((folder / "events").glob("run=*/day=*"))[lost])
    left = 2 if lost == 2 else 3
    with pytest.raises(TrafficError, match=f"expected 4 events, found {left}: restore"):
        TableEngine(str(folder), "").tuples(START_MS + 2 * DAY_MS)
    assert (
        list(TableEngine(str(folder), "").tuples(START_MS + 3 * DAY_MS)) == []
    )  # the run ended before


def test_large_window_is_for_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WINDOW_BYTES_MAX", 1)
    with pytest.raises(NeedsSparkError, match="the events of the window have"):
        TableEngine(str(folder), "").tuples(START_MS)
    assert len(list(TableEngine(str(folder), "").tuples())) == 1


def test_missing_ingest_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match=r"--events: .*expected the output of ingest"):
        TableEngine(str(tmp_path), "")
