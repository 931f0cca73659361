"""The readers of a table, and ingests of topics into it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as parquet
import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import (
    encode_commit,
    name_commit,
    read_newest,
)
from authorizerd.replay.ingest.records import NewRecords, check_continues, find_recorded
from authorizerd.replay.plans import IngestPlan, LoadPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.topics import Topic, parse_topic
from tests.ops.replay.recorded_events import (
    RUN,
    START,
    Event,
    damage_rows,
    write_events,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from authorizerd.replay.ingest.table import Table

    Plan = IngestPlan | LoadPlan | UsagePlan | WhatIfPlan

EVENT = Event("User:a", None, "READ", "TOPIC", "t", True)
NO_ACLS = AclSet(source="none", acls=(), digest=digest_of(()))
PLANS: dict[str, Callable[[str, str], Plan]] = {
    "ingest": lambda events, out: IngestPlan(inputs=(events,), out=out),
    "load": lambda events, out: LoadPlan(
        events=events, out=out, target="127.0.0.1:1", run_id="run", dry_run=True
    ),
    "usage": lambda events, out: UsagePlan(events=events, out=out, acls=NO_ACLS),
    "whatif": lambda events, out: WhatIfPlan(events=events, out=out, candidate=NO_ACLS),
}


def names_in(table: Table) -> tuple[list[str], list[str]]:
    events, tuples = (
        frame.select("resource_name").collect() for frame in (table.events(), table.tuples())
    )
    return sorted(row[0] for row in events), sorted(row[0] for row in tuples)


def add_run(table: Path, number: int, events: Sequence[Event], *, is_committed: bool) -> None:
    """Add a run with ``events``, and their tuples only; ``number`` is above 1."""
    run = f"{number:08d}-ab"
    made = write_events(table / "_made" / run, events)
    for part in ("events", "tuples"):
        (made / part / RUN).rename(table / part / f"run={run}")
    before, (added,) = read_newest(table), read_newest(made).runs
    if is_committed:
        runs = (*before.runs, replace(added, id=run))
        totals = replace(before.ingested, tuples=added.ingested.tuples)
        commit = replace(before, number=number, runs=runs, tuples_run=run, ingested=totals)
        (table / "commits" / name_commit(number)).write_bytes(encode_commit(commit))


@pytest.mark.parametrize("is_local", [True, False])
def test_readers_see_the_live_runs_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    from authorizerd.replay.ingest import table
    from authorizerd.replay.spark import storage

    if not is_local:
        monkeypatch.setattr(storage, "local_path", lambda spark, uri: None)
    folder = write_events(tmp_path / "a [1]", [EVENT])
    opened = table.open_table(spark, str(folder))
    assert names_in(opened) == (["t"], ["t"])
    assert (opened.ingested.events, opened.ingested.allowed_events) == (1, 1)
    add_run(folder, 2, [EVENT._replace(resource_name="live")], is_committed=True)
    add_run(folder, 3, [EVENT._replace(resource_name="dead")], is_committed=False)
    (folder / "commits" / name_commit(0)).write_text("")
    opened = table.open_table(spark, str(folder))
    assert names_in(opened) == (["live", "t"], ["live"])
    assert opened.events().where("day = '2026-11-21'").select("run").distinct().count() == 2


def test_window_reads_only_its_own_days_of_every_run(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.ingest.table import open_table
    from authorizerd.replay.recorded.spark import sum_events

    day_ms = 86_400_000
    events = [EVENT._replace(resource_name=f"t{day}", at=day * day_ms) for day in range(3)]
    table = write_events(tmp_path, events[2:])
    for number, added in ((2, events), (3, events), (4, events[:2])):
        add_run(table, number, added, is_committed=True)
    earlier = list((table / "events").glob("run=*/day=2026-11-2[12]/*.parquet"))
    assert len(earlier) == 6
    # Reading a row of an earlier day now raises an error, and so does opening the run before.
    for file in earlier:
        damage_rows(file)
        if "run=00000004" in str(file):
            file.write_bytes(b"no Parquet")
    since_ms = round(START.timestamp() * 1000) + day_ms + day_ms // 2
    (found,) = sum_events(open_table(spark, str(table)).events(since_ms), since_ms).collect()
    assert (found.resource_name, found.allowed_events) == ("t2", 3)


def test_changed_byte_of_a_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.ingest.table import open_table
    from authorizerd.replay.local.runs import ingest
    from authorizerd.replay.spark.failures import SPARK_ERRORS

    log, out = tmp_path / "audit.log", tmp_path / "table"
    log.write_bytes(LINE.replace(b":t ", b":topic-1 ") + b"\n")
    assert ingest(IngestPlan(inputs=(str(log),), out=str(out))) == 0
    names = open_table(spark, str(out)).events().select("resource_name")
    assert names.collect() == [("topic-1",)]
    (file,) = (out / "events").rglob("*.parquet")
    data = file.read_bytes()
    assert data.count(b"topic-1") == 1
    file.write_bytes(data.replace(b"topic-1", b"topic-2"))
    with pytest.raises(SPARK_ERRORS, match="CRC"):
        names.collect()


@pytest.mark.parametrize("command", ["ingest", "whatif", "usage", "lookback", "load"])
def test_table_that_has_lost_files_is_rejected(
    spark: SparkSession, tmp_path: Path, command: str
) -> None:
    run = import_module(f"authorizerd.replay.{command.replace('lookback', 'usage')}.job").run
    day_ms = 86_400_000
    events = [EVENT._replace(resource_name=f"t{day}", at=day * day_ms) for day in range(3)]
    table = write_events(tmp_path / "in", events)
    add_run(table, 2, events, is_committed=True)
    part, left = ("tuples", 2) if command in ("whatif", "usage") else ("events", 5)
    # A window of a day is checked too, because the lost file's run ends in it.
    plan = PLANS[command.replace("lookback", "usage")](str(table), str(tmp_path / "out"))
    if isinstance(plan, UsagePlan) and command == "lookback":
        plan = replace(plan, lookback_days=0.5)
    lost = table / part / "run=00000002-ab"
    min(
        lost.rglob("*.parquet"), key=lambda file: (parquet.read_metadata(file).num_rows, file)
    ).unlink()
    option = "--input: file:" if command == "ingest" else "--events: "
    expected = f"{option}{table}/{part}: expected {left + 1} {part}, found {left}: restore"
    with pytest.raises(JobError, match=re.escape(expected)):
        run(spark, plan)
    shutil.rmtree(lost)
    expected = f"{part}: expected {left + 1} {part}, found no files of a run: restore"
    with pytest.raises(JobError, match=re.escape(expected)):
        run(spark, plan)
    assert not list((tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize("is_local", [True, False])
def test_directory_without_a_table_is_rejected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    from authorizerd.replay.ingest import table
    from authorizerd.replay.spark import storage

    if not is_local:
        monkeypatch.setattr(storage, "local_path", lambda spark, uri: None)
    reason = f"--input: {tmp_path}: expected the output of ingest: .*commits has no commit"
    with pytest.raises(JobError, match=reason):
        table.open_table(spark, str(tmp_path), option="--input")
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / name_commit(1)).write_text("{}")
    with pytest.raises(JobError, match=r"--events: .*00000001.json: .*missing required field"):
        table.open_table(spark, str(tmp_path))


AUDIT = parse_topic("kafka://a:1,b:2/audit", {})
OTHER_ADDRESS = parse_topic("kafka://b:2,c:3/audit", {})
LINE = (
    b"[2026-11-21 16:30:00,000] DEBUG Principal = User:a is Allowed operation = READ from host = "
    b"10.0.0.1 on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based "
    b"on rule DefaultAllow (kafka.authorizer.logger)"
)


@pytest.mark.parametrize("recorded", [
    "kafka://a:1,b:2/audit", "kafka://b:2,a:1/audit", "kafka://b:2/audit", "kafka://b:2,c:3/audit",
])  # fmt: skip
def test_addresses_with_a_common_server_name_one_topic(recorded: str) -> None:
    assert find_recorded(AUDIT, ["kafka://a:1/other", recorded]) == recorded


def test_new_topic_is_named_by_its_address() -> None:
    assert find_recorded(AUDIT, ["kafka://a:1/audit-2"]) == "kafka://a:1,b:2/audit"


@pytest.mark.parametrize("recorded", ["kafka://a:2/audit", "kafka://c:1,d:2/audit"])
def test_topic_of_the_same_name_elsewhere_is_rejected(recorded: str) -> None:
    with pytest.raises(JobError, match=f"the table has records from {recorded}, which may be"):
        find_recorded(AUDIT, [recorded])


@pytest.mark.parametrize(("begins", "ends"), [
    ({0: 5}, {0: 4}), ({0: 5, 1: 1}, {0: 9}), ({0: 1, 1: 1}, {1: 0, 0: 1}),
])  # fmt: skip
def test_topic_that_was_created_again_is_rejected(
    begins: dict[int, int], ends: dict[int, int]
) -> None:
    with pytest.raises(JobError, match="the topic was recreated"):
        check_continues(AUDIT, begins, ends)


@pytest.mark.parametrize(("begins", "ends", "is_recorded"), [
    ({0: 5}, {0: 5}, True), ({0: 5}, {0: 6}, False),
    ({0: 5}, {0: 5, 1: 0}, False),  # a partition was added
    ({}, {0: 0}, False),  # an empty topic becomes an empty table
])  # fmt: skip
def test_topic_without_further_records_is_recorded(
    begins: dict[int, int], ends: dict[int, int], is_recorded: bool
) -> None:
    check_continues(AUDIT, begins, ends)
    assert NewRecords(AUDIT, AUDIT.uri, begins, ends).is_recorded == is_recorded


class FakeTopic:
    """The records of a partition, in place of those that Spark's connector reads."""

    def __init__(self) -> None:
        self.lines: list[bytes | None] = []

    def find_ends(self, _spark: SparkSession, _topic: Topic) -> dict[int, int]:
        return {0: len(self.lines)}

    def read_records(
        self, spark: SparkSession, _topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> DataFrame:
        offsets = range(begins.get(0, 0), ends[0])
        records = [(self.lines[offset], 0, offset) for offset in offsets]
        return spark.createDataFrame(records, "value binary, partition int, offset long")


def test_each_record_is_added_once_even_if_its_line_is_not_new(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from authorizerd.replay.ingest import topics
    from authorizerd.replay.ingest.job import run

    kafka = FakeTopic()
    monkeypatch.setattr(topics, "find_ends", kafka.find_ends)
    monkeypatch.setattr(topics, "read_records", kafka.read_records)
    # The address may change, as long as one server stays.
    plan = IngestPlan(inputs=(), topics=(AUDIT, OTHER_ADDRESS), out=str(tmp_path), bad_ratio_max=1)
    lines = [LINE, LINE.replace(b":00,", b":01,"), None, b"no audit line"]
    for times in (1, 2):
        kafka.lines += lines
        assert run(spark, plan) == 0
        commit = read_newest(tmp_path)
        assert commit.offsets == {AUDIT.uri: {0: 4 * times}}
        figures = commit.ingested
        assert (figures.events, figures.blank_lines, figures.set_aside) == (2 * times, times, times)
    assert commit.ingested.inputs == (AUDIT.uri, OTHER_ADDRESS.uri)
    files = [f"{tmp_path}/{run.events_glob}" for run in commit.runs]
    places = duckdb.sql(f"SELECT file, sequence FROM read_parquet({files}) ORDER BY sequence")
    assert places is not None
    assert places.fetchall() == [(f"{AUDIT.uri}/0", offset) for offset in (0, 1, 4, 5)]
    capsys.readouterr()
    assert run(spark, plan) == 0
    assert capsys.readouterr().out == "nothing new: the table already has all of the 2 inputs\n"
    assert run(spark, replace(plan, topics=(AUDIT,))) == 0
    assert capsys.readouterr().out == "nothing new: the table already has the input\n"
    assert read_newest(tmp_path) == commit
