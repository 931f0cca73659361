"""Whatever the order and the form in which lines arrive, the table is the same."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from msgspec.structs import replace

from authorizerd.replay import processes
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest import adding
from authorizerd.replay.ingest.commit import Run, list_commits, read_newest
from authorizerd.replay.ingest.committing import create_commit, remove_unneeded
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.local import parts
from authorizerd.replay.local.runs import LocalRuns, ingest
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plain_files import LocalFiles
from authorizerd.replay.plans import IngestPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded import agreement
from authorizerd.replay.usage import evaluation as usage
from authorizerd.replay.whatif import evaluation as whatif
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.recorded_events import KEY, START, Event, real_events, write_events
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.sizes import IS_WHOLE
from tests.support.spark import ENGINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
ACLS = acl_set_of([topic_read("t1"), topic_read("t", prefixed=True, principal="User:b")])
# Three days; some lines are equal in all but their time, and some are equal altogether.
EVENTS = [
    Event(
        f"User:{'abc'[number % 3]}", "10.0.0.1", "READ", "TOPIC", f"t{number % 4}",
        number % 5 != 0, rule="MatchingAcl" if number % 5 else "DefaultDeny",
        at=number // 2 * HOUR_MS,
    )
    for number in range(100)
]  # fmt: skip
OTHER = [event._replace(principal="User:z") for event in EVENTS[40:60]]


def line_of(event: Event) -> str:
    from datetime import timedelta

    time = (START + timedelta(milliseconds=event.at)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    return (
        f"[{time}] {event.level} Principal = {event.principal} is "
        f"{'Allowed' if event.allowed else 'Denied'} operation = {event.operation} from host = "
        f"{event.host} on resource = Topic:LITERAL:{event.resource_name} for request = Fetch with "
        f"resourceRefCount = 1 based on rule {event.rule} (kafka.authorizer.logger)\n"
    )


def text_of(events: list[Event]) -> str:
    return "".join(map(line_of, events))


class Ingests:
    """A directory of logs, and a table to which they are ingested."""

    def __init__(self, spark: SparkSession | None, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.table = folder / "table"
        self.logs = folder / "logs"
        self.logs.mkdir()

    def log(self, **files: str | bytes) -> None:
        """Make ``files`` the directory's content; ``__`` stands for a dot."""
        shutil.rmtree(self.logs)
        self.logs.mkdir()
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (self.logs / name.replace("__", ".")).write_bytes(data)

    def ingest(self, **options: Any) -> int:  # noqa: ANN401 - fields of the plan
        plan = IngestPlan(inputs=(str(self.logs),), out=str(self.table), **options)
        if self.spark is None:
            return ingest(plan)
        from authorizerd.replay.ingest.job import run

        return run(self.spark, plan)

    def select(self, columns: str, more: str = "") -> list[tuple[Any, ...]]:
        """Return columns of the table's events, with ``more`` at the end of the query."""
        live = [run for run in read_newest(self.table).runs if run.days]
        files = [f"{self.table}/{run.events_glob}" for run in live]
        events = f"read_parquet({files}, hive_partitioning = false)"
        found = duckdb.sql(f"SELECT {columns} FROM {events} {more}")
        assert found is not None
        return found.fetchall()

    def check(self, events: list[Event]) -> None:
        """Check that the table contains ``events``, and that the other commands see just these."""
        start_ms = int(START.timestamp() * 1000)
        found = self.select(f'{", ".join(KEY)}, allowed, rule, epoch_ms("at")')
        assert sorted(found) == sorted(
            (*event.key, event.allowed, event.rule, event.at + start_ms) for event in events
        )
        expected = write_events(self.folder / "expected", events)
        assert self._results(self.table) == self._results(expected)
        figures = read_newest(self.table).ingested
        assert (figures.events, figures.lines - figures.set_aside) == (len(events), len(events))
        assert decode_ingested((self.table / "ingest.json").read_text()) == figures
        shutil.rmtree(expected)

    def _results(self, table: Path) -> list[object]:
        """Return the tuples of a table, and the results of the other commands."""
        out = self.folder / "out"
        engine = TableEngine(str(table), str(out))
        whatif.run(WhatIfPlan(events="", out=str(out), candidate=ACLS), engine)
        plan = UsagePlan(
            events="", out=str(out), acls=ACLS, lookback_days=1.5, assume_in_force=True
        )
        usage.run(plan, engine)
        texts = [(out / name).read_text() for name in ("whatif.json", "usage.json")]
        # The expected table has no logs.
        reports = [json.loads(text) | {"logs": None} for text in texts]
        return [sorted(engine.tuples(), key=str), *reports]


@pytest.fixture(params=ENGINES if IS_WHOLE else ENGINES[:1])
def ingests(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: MonkeyPatch) -> Ingests:
    """Return ingests without Spark; in whole runs, also those on Spark."""
    # The ACLs are not those of the record, so they contradict it.
    monkeypatch.setattr(agreement, "DISAGREEING_SHARE_MAX", 1)
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    return Ingests(spark, tmp_path)


def test_log_that_grows_is_rotated_and_packed_counts_once(
    ingests: Ingests, capsys: Capture
) -> None:
    grown = text_of(EVENTS[:70])
    ingests.log(a__log=text_of(EVENTS[:40]))
    ingests.ingest()
    ingests.check(EVENTS[:40])
    ingests.log(a__log=grown)
    ingests.ingest()
    assert "/a.log: the table has them\nadded 30 events of 30 lines" in capsys.readouterr().out
    ingests.check(EVENTS[:70])
    # Rotated: the end of the first log, and a new one.
    ingests.log(a__log__1=text_of(EVENTS[:80]), a__log=text_of(EVENTS[80:]))
    ingests.ingest()
    ingests.check(EVENTS)
    table = str(ingests.table)
    commits = list_commits(LocalFiles(), table)
    ingests.ingest()
    assert list_commits(LocalFiles(), table) == commits, "unchanged files make no commit"
    # Packed, and an old copy restored under another name.
    packed = gzip.compress(text_of(EVENTS[:80]).encode())
    ingests.log(a__log__1__gz=packed, b__log=text_of(EVENTS[:55]), c__log=grown)
    ingests.ingest()
    ingests.check(EVENTS)
    assert len(read_newest(ingests.table).runs) == 3


def test_damaged_archive_is_named_until_a_sound_one(ingests: Ingests, capsys: Capture) -> None:
    packed = gzip.compress(text_of(EVENTS).encode())
    ingests.log(a__log__gz=packed[:-20], b__log=text_of(OTHER))
    ingests.ingest(bad_ratio_max=0.5)
    (damaged,) = read_newest(ingests.table).ingested.damaged
    assert damaged.endswith("/a.log.gz")
    said = capsys.readouterr()
    assert f"{damaged}: the archive is damaged, so events are missing" in said.err
    assert "1 archive damaged, so events are missing" in said.out
    ingests.log(a__log__gz=packed)
    ingests.ingest()
    assert read_newest(ingests.table).ingested.damaged == ()


def test_parts_of_a_day_arrive_in_any_order(ingests: Ingests) -> None:
    """Late lines are in the files of their day."""
    ingests.log(late__log=text_of(EVENTS[50:]))
    ingests.ingest()
    packed = gzip.compress(text_of(EVENTS[:50]).encode())
    ingests.log(early__log=text_of(EVENTS[:50]), early__log__gz=packed)
    ingests.ingest()
    ingests.check(EVENTS)
    days = [run.days for run in read_newest(ingests.table).runs]
    assert days == [("2026-11-22", "2026-11-23"), ("2026-11-21", "2026-11-22")]


def test_equal_lines_of_two_brokers_are_two_events(ingests: Ingests) -> None:
    one, other = EVENTS[:2] + EVENTS[10:20], EVENTS[:2] + OTHER
    ingests.log(one__log=text_of(one), other__log=text_of(other))
    ingests.ingest()
    ingests.check(one + other)
    # A log of a third broker, which begins and ends like the first one.
    third = EVENTS[:2] + OTHER[:3] + EVENTS[19:20]
    ingests.log(one__log=text_of(one), third__log=text_of(third))
    ingests.ingest()
    ingests.check(one + other + third)


def lines_of(principals: str, events: list[Event]) -> str:
    """Return the lines of ``events`` with principals that only one log has."""
    return text_of([each._replace(principal=f"{each.principal}-{principals}") for each in events])


def test_cut_and_blank_lines_of_logs_that_grow_count_once(ingests: Ingests) -> None:
    """The first ingest reads logs before the line of their last event is complete."""
    first, second = {}, {}
    for name, events, cut_before in (
        ("no_verdict", 42, " operation = "),
        ("no_end", 42, " (kafka"),
        ("cut_rule", 42, "ngAcl (kafka"),
        ("only_line", 1, "Deny (kafka"),
    ):
        text = "started\n" + lines_of(name, EVENTS[:events])
        first[f"{name}__log"] = text[: text.rindex(cut_before)]
        second[f"{name}__log"] = "started\n" + lines_of(name, EVENTS)
    first["blank__log"] = f"\n \n{lines_of('blank', EVENTS[:40])}"
    grown = second["blank__log"] = f"{first['blank__log']}\n{lines_of('blank', EVENTS[40:70])}"
    third = second | {"blank__log": f"{grown}\n{lines_of('blank', EVENTS[70:])}"}
    for logs, blank_lines in ((first, 2), (second, 3), (third, 4)):
        ingests.log(**logs)
        ingests.ingest(bad_ratio_max=0.5)
        assert read_newest(ingests.table).ingested.blank_lines == blank_lines
    found = ingests.select("split_part(principal, '-', 2) AS log, count(*)", "GROUP BY log")
    # A cut rule is a rule, so its line is an event of its own.
    whole = len(EVENTS)
    expected = {"no_verdict": whole, "no_end": whole, "cut_rule": whole + 1, "only_line": whole + 1}
    assert dict(found) == {**expected, "blank": whole}
    # The line "started" of four logs, and a line without a verdict.
    assert read_newest(ingests.table).ingested.set_aside == 5


STEPS = ("_summarize", "_leave_out", "write", "_write_tuples")


def documented(language: str, table: Path) -> str:
    """Return the code with which the documentation reads a table."""
    text = (Path(__file__).parents[4] / "docs/replay-ingest.md").read_text(encoding="utf-8")
    return text.split(f"```{language}\n")[1].split("```")[0].replace("TABLE/", f"{table}/")


def count_as_documented(spark: SparkSession, table: Path) -> int:
    names: dict[str, Any] = {"spark": spark}
    exec(documented("python", table), names)
    count: int = names["events"].count()
    return count


class KilledError(Exception):
    pass


def kill_after(monkeypatch: MonkeyPatch, step: str) -> None:
    """Let the job end after a step."""
    place = adding._Ingest if hasattr(adding._Ingest, step) else adding
    original = getattr(place, step)

    def stop(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - those of the step
        original(*args, **options)
        raise KilledError

    monkeypatch.setattr(place, step, stop)


def test_killed_run_leaves_the_table_as_it_was(ingests: Ingests, monkeypatch: MonkeyPatch) -> None:
    ingests.log(a__log=text_of(EVENTS[:40]))
    ingests.ingest()
    ingests.log(a__log=text_of(EVENTS), b__log="nonsense\n" + text_of(OTHER))
    for step in STEPS:
        with monkeypatch.context() as patch:
            kill_after(patch, step)
            with pytest.raises(KilledError):
                ingests.ingest(bad_ratio_max=0.5)
        ingests.check(EVENTS[:40])
    with monkeypatch.context() as patch:
        kill_after(patch, "create_commit")
        with pytest.raises(KilledError):
            ingests.ingest(bad_ratio_max=0.5)
    assert read_newest(ingests.table).ingested.events == 120
    ingests.ingest()
    ingests.check(EVENTS + OTHER)
    denials = Counter(event.principal for event in EVENTS + OTHER if not event.allowed)
    found = duckdb.sql(documented("sql", ingests.table))
    assert found is not None
    assert dict(found.fetchall()) == denials
    if ingests.spark is not None:
        assert count_as_documented(ingests.spark, ingests.table) == 120
    # The next commit removes what the killed runs have left.
    ingests.log(c__log=text_of(OTHER[:1]))
    ingests.ingest()
    live = {f"run={run.id}" for run in read_newest(ingests.table).runs}
    assert {path.name for path in (ingests.table / "events").iterdir()} == live


@pytest.mark.parametrize("ingests", ENGINES[:1], indirect=True)
def test_failed_ingest_removes_what_it_wrote(ingests: Ingests, monkeypatch: MonkeyPatch) -> None:
    """A full disk, for example, is as full as before."""
    ingests.log(a__log=text_of(EVENTS))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*args: Any) -> None:  # noqa: ANN401 - those of the step
        raise full

    monkeypatch.setattr(LocalRuns, "write_tuples", fail)
    with pytest.raises(JobError, match=f"--out: {ingests.table}: No space left on device"):
        ingests.ingest()
    assert [path for path in ingests.table.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("place", "step"), [
    (adding, "create_commit"), (adding._Ingest, "make_commit"),
])  # fmt: skip
def test_second_of_two_concurrent_ingests_fails(
    ingests: Ingests,
    monkeypatch: MonkeyPatch,
    place: Any,  # noqa: ANN401 - a module or a class
    step: str,
) -> None:
    original = getattr(place, step)

    def ingest_before(*args: Any) -> Any:  # noqa: ANN401 - those of the step
        monkeypatch.setattr(place, step, original)
        ingests.log(b__log=text_of(OTHER))
        ingests.ingest()
        if step == "make_commit":
            raise FileNotFoundError("the other ingest has removed the files of this one")
        return original(*args)

    ingests.log(a__log=text_of(EVENTS))
    monkeypatch.setattr(place, step, ingest_before)
    with pytest.raises(
        JobError, match=r"another ingest added commit 1 in the meantime.*run it again"
    ):
        ingests.ingest()
    ingests.check(OTHER)
    ingests.log(a__log=text_of(EVENTS))
    ingests.ingest()
    ingests.check(EVENTS + OTHER)


def test_parts_of_a_real_log_give_the_same_table(ingests: Ingests, real_log_dir: Path) -> None:
    events = list(real_events(real_log_dir))
    lines = lzma.decompress((real_log_dir / "kafka-authorizer.log.xz").read_bytes())
    middle = lines.index(b"\n", len(lines) // 2) + 1
    half = lines[:middle].count(b"\n")
    ingests.log(a__log__2=lines[middle:])
    ingests.ingest()
    ingests.check(events[half:])
    quarter = lines.index(b"\n", middle // 2) + 1
    ingests.log(a__log=lines[:quarter], a__log__2=lines[middle:])
    ingests.ingest()
    ingests.log(
        a__log__3__xz=lzma.compress(lines[:middle]), a__log__2__gz=gzip.compress(lines[middle:])
    )
    ingests.ingest()
    ingests.check(events)


@pytest.mark.parametrize("ingests", ENGINES, indirect=True)
def test_days_are_not_scattered_over_all_files(
    ingests: Ingests, request: pytest.FixtureRequest, monkeypatch: MonkeyPatch
) -> None:
    # A task for each log, each of which has events of three days.
    ingests.log(**{f"{number}__log": text_of(EVENTS[number::10]) for number in range(10)})
    if ingests.spark is not None:
        request.getfixturevalue("small_splits")
    monkeypatch.setattr(parts, "TASK_BYTES_MIN", 1000)
    monkeypatch.setattr(parts, "TASK_BYTES_MAX", 1000)
    monkeypatch.setattr(processes, "CORES", 1)
    ingests.ingest()
    ingests.check(EVENTS)
    for day in (ingests.table / "events").glob("run=*/day=*"):
        assert len(list(day.glob("*.parquet"))) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("ingests", ENGINES[1:], indirect=True)
def test_table_that_only_spark_can_reach_is_kept_alike(
    spark: SparkSession, ingests: Ingests, monkeypatch: MonkeyPatch
) -> None:
    from authorizerd.replay.ingest import runs, table
    from authorizerd.replay.spark import storage

    for module in (storage, runs):
        monkeypatch.setattr(module, "local_path", lambda spark, uri: None)
    monkeypatch.setattr(adding, "COMMITS_KEPT", 1)
    ingests.log(a__log=text_of(EVENTS[:40]), b__log="nonsense\n" + text_of(OTHER))
    ingests.ingest(bad_ratio_max=0.5)
    old = table.open_table(spark, str(ingests.table)).commit
    packed = gzip.compress(b"nonsense\n" + text_of(OTHER).encode())
    ingests.log(a__log=text_of(EVENTS), b__log__gz=packed)
    ingests.ingest()
    ingests.ingest()
    opened = table.open_table(spark, str(ingests.table))
    assert (opened.ingested.events, opened.ingested.tuples) == (120, opened.tuples().count())
    assert opened.events().count() == 120
    assert opened.commit.number == 2
    assert not (ingests.table / f"tuples/run={old.tuples_run}").exists()
    assert not (ingests.table / "commits/00000001.json").exists()
    # As the documentation reads it, past the directory of the run that was written twice.
    assert count_as_documented(spark, ingests.table) == 120
    # The layout is that of a table on this machine, which goes on with it.
    assert sorted(path.name for path in ingests.table.iterdir()) == [
        "commits", "events", "ingest.json", "set_aside", "tuples",
    ]  # fmt: skip
    assert read_newest(ingests.table) == opened.commit
    other = replace(opened.commit, salt=1)
    with pytest.raises(JobError, match="another ingest added commit 2"):
        create_commit(storage.open_storage(spark, ""), str(ingests.table), other, None)
    ingests.spark = None
    ingests.log(c__log=text_of(EVENTS[:1]))
    ingests.ingest()
    assert read_newest(ingests.table).number == 3


def test_table_that_has_lost_files_has_not_nothing_new(ingests: Ingests) -> None:
    ingests.log(a__log=text_of(EVENTS))
    ingests.ingest()
    next((ingests.table / "events").rglob("*.parquet")).unlink()
    with pytest.raises(
        JobError, match=r"--out: .*/events.*: expected 100 events, found \d+: restore"
    ):
        ingests.ingest()


def test_directory_with_other_files_is_refused(ingests: Ingests) -> None:
    ingests.table.mkdir()
    (ingests.table / "notes.txt").touch()
    ingests.log(a__log=text_of(EVENTS[:1]))
    with pytest.raises(JobError, match=r"--out: .*expected a table .*found notes.txt"):
        ingests.ingest()


def test_number_of_old_commits_is_bounded(tmp_path: Path) -> None:
    storage = LocalFiles()
    table = str(write_events(tmp_path, EVENTS))
    commit = read_newest(tmp_path)
    for number in range(2, 8):
        run = f"{number:08d}-ab"
        for part in ("events", "tuples", "set_aside"):
            (tmp_path / part / f"run={run}").mkdir(parents=True)
        live = Run(id=run, days=(), ingested=commit.ingested)
        commit = replace(commit, number=number, runs=(live,), tuples_run=run)
        create_commit(storage, table, commit, tmp_path)
        remove_unneeded(storage, table, commit, kept=5)
    (tmp_path / "events" / "run=00000008-ab").mkdir()  # may still commit

    class Raced(LocalFiles):
        """Another ingest removes a commit between its listing and its reading."""

        def names(self, folder: str) -> list[str]:
            return [*super().names(folder), *["00000002.json"] * folder.endswith("commits")]

    remove_unneeded(Raced(), table, commit, kept=6)
    remove_unneeded(storage, table, commit, kept=5)
    assert list_commits(LocalFiles(), str(tmp_path)) == [7, 6, 5, 4, 3]
    kept = {f"run={number:08d}-ab" for number in range(3, 8)}
    assert {path.name for path in (tmp_path / "tuples").iterdir()} == kept
    assert {path.name for path in (tmp_path / "events").iterdir()} == kept | {"run=00000008-ab"}


def test_damaged_file_of_a_table_is_named_by_the_next_ingest(tmp_path: Path) -> None:
    table = tmp_path / "table"
    plan = IngestPlan(inputs=(str(tmp_path / "*.log"),), out=str(table))
    (tmp_path / "a.log").write_text(text_of(EVENTS[:9]))
    assert ingest(plan) == 0
    (tmp_path / "b.log").write_text(text_of(EVENTS[:5]))  # a copy of the beginning
    (damaged,) = table.glob("events/run=*/day=*/*.parquet")
    os.truncate(damaged, 9)
    with pytest.raises(JobError, match=rf"{damaged}.*: restore the file, or run ingest with"):
        ingest(plan)
    assert list_commits(LocalFiles(), str(table)) == [1]
