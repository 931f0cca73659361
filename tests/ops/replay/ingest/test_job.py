from __future__ import annotations

import gzip
import json
import lzma
import random
import re
import shutil
from contextlib import nullcontext
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow
import pyarrow.parquet as parquet
import pytest

from authorizerd.acl.audit.recorded.event import Event, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.adding import TupleCount
from authorizerd.replay.ingest.commit import Commit, Input
from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.local import parts
from authorizerd.replay.local.runs import LocalRuns
from authorizerd.replay.local.runs import ingest as ingest_here
from authorizerd.replay.plans import IngestPlan, LineLayout
from tests.ops.replay import recorded_events
from tests.ops.replay.ingest.delta_reader import read_delta
from tests.support.sizes import size
from tests.support.spark import ENGINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALLOWED = (
    "[2026-11-21 16:26:26,966] DEBUG Principal = User:a is Allowed Operation = READ from host = h "
    "on resource = Topic:LITERAL:{} (kafka.authorizer.logger)\n"
)


def run(spark: SparkSession | None, plan: IngestPlan) -> int:
    """Ingest on Spark, or without it."""
    if spark is None:
        return ingest_here(plan)
    from authorizerd.replay.ingest import job

    return job.run(spark, plan)


def ingest(
    spark: SparkSession | None,
    out: Path,
    *inputs: Path,
    **options: Any,  # noqa: ANN401 - fields of the plan
) -> Ingested:
    plan = IngestPlan(inputs=tuple(map(str, inputs)), out=str(out), **options)
    assert run(spark, plan) == 0
    return decode_ingested((out / "ingest.json").read_text())


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> SparkSession | None:
    """Return the session on which logs are read; None for a run without Spark."""
    return request.getfixturevalue("spark") if request.param == "spark" else None


def rows(columns: str, folder: Path) -> list[tuple[Any, ...]]:
    """Return rows that DuckDB, an independent reader of Parquet, finds below ``folder``."""
    found = duckdb.sql(f"SELECT {columns} FROM '{folder}/**/*.parquet'")
    assert found is not None
    return found.fetchall()


def test_broker_log_loses_no_line(spark: SparkSession, real_log_dir: Path, tmp_path: Path) -> None:
    archive = real_log_dir / "kafka-authorizer.log.xz"
    first = ingest(None, tmp_path / "first", archive)
    again = ingest(spark, tmp_path / "again", tmp_path / "first")
    for figures, folder in ((first, "first"), (again, "again")):
        assert (figures.lines, figures.events, figures.set_aside) == (13_518, 13_518, 0)
        assert (figures.allowed_events, figures.denied_events) == (9_301, 4_217)
        assert figures.levels == {"DEBUG": 9_301, "INFO": 4_217}
        assert figures.first_at == "2026-11-21T16:29:45.387Z"
        assert figures.last_at == "2026-11-21T16:31:12.824Z"
        events = tmp_path / folder / "events"
        (others,) = rows("count_if(principal <> 'User:admin')", events)
        assert others == (13_117,)
        columns = ", ".join(Event.__struct_fields__[1:])
        ordered = rows(f'epoch_ms("at"), {columns}, sequence', events)
        ordered.sort(key=lambda row: row[-1])
        lines = lzma.decompress(archive.read_bytes()).splitlines()
        expected = [parse_line(line, UTC) for line in lines]
        assert [
            Event(**dict(zip(Event.__struct_fields__, row[:-1], strict=True))) for row in ordered
        ] == expected
        tuples = rows(
            "sum(allowed_events), sum(denied_events), count(*)", tmp_path / folder / "tuples"
        )
        assert tuples == [(9_301, 4_217, figures.tuples)]
    (file,) = (tmp_path / "first" / "events").glob("run=*/day=2026-11-21/*.parquet")
    assert parquet.read_schema(file).names == [
        *("at", "allowed", "principal", "host", "operation", "resource_type", "resource_name"),
        *(
            "pattern_type",
            "request",
            "reference_count",
            "rule",
            "level",
            "hash",
            "file",
            "sequence",
        ),
        *("line", "reason"),
    ]


def test_files_of_every_kind_are_read_together(
    engine: SparkSession | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    if engine is not None:
        request.getfixturevalue("small_splits")
    monkeypatch.setattr(parts, "TASK_BYTES_MIN", 65_536)
    logs = tmp_path / "logs"
    (logs / "below").mkdir(parents=True)
    (logs / "_hidden.log").write_text("hidden\n")
    long = "".join(ALLOWED.format(number) for number in range(3_000))
    (logs / "a[1] *.log").write_text(long + "\n \nnothing known\n")
    (logs / "below" / "b.log.gz").write_bytes(gzip.compress(ALLOWED.format("gz").encode())[:-9])
    (logs / "c.zst").write_bytes(
        pyarrow.compress(ALLOWED.format("zst").encode() + b"\xff\n", codec="zstd", asbytes=True)
    )
    denied = ALLOWED.format("crlf").replace("Allowed", "Denied").replace("26-11-21", "26-11-22")
    (logs / "d.log.1").write_text(denied.replace("\n", "\r\n"))
    # If \r ended a line, this name would forge an event.
    (logs / "e.log").write_text(ALLOWED.format("\r" + ALLOWED.format("forged").rstrip()))
    (logs / "f.log").write_text(ALLOWED.format("f").replace("\n", " [sampleRate=0.1]\n"))
    figures = ingest(engine, tmp_path / "out", logs)
    assert figures.levels == {"DEBUG": 3_003, "DEBUG, sampled": 1}
    reasons = ("ambiguous", "broken_archive", "no_decision", "not_utf_8")
    assert figures.reasons == dict.fromkeys(reasons, 1)
    assert (figures.lines, figures.blank_lines, figures.set_aside) == (3_010, 2, 4)
    assert (figures.allowed_events, figures.denied_events, figures.tuples) == (3_003, 1, 3_004)
    aside = rows("reason, line, parse_filename(file)", tmp_path / "out" / "set_aside")
    assert ("no_decision", "nothing known", "a%5B1%5D%20*.log") in aside
    assert ("broken_archive", "", "b.log.gz") in aside
    files = rows("DISTINCT file", tmp_path / "out" / "events")
    below = ("a%5B1%5D%20*.log", "below/b.log.gz", "c.zst", "d.log.1", "f.log")
    assert sorted(files) == sorted((f"{logs.as_uri()}/{name}",) for name in below)
    events = rows("sequence, resource_name", tmp_path / "out" / "events")
    assert len({sequence for sequence, _ in events}) == 3_004
    assert [int(name) for _, name in sorted(events) if name.isdigit()] == list(range(3_000))
    assert rows("principal, day::text", tmp_path / "out" / "events" / "*" / "day=2026-11-22") == [
        ("User:a", "2026-11-22")
    ]


@pytest.mark.parametrize(("uri", "out", "lies_within"), [
    ("file:/data/x/a.log", "/data/x", True),
    ("file:/data/x/a.log", "file:///data/x/", True),
    ("hdfs://one:8020/data/x/a.log", "hdfs://one/data/x", True),
    ("hdfs://one:8020/data/x/a.log", "hdfs://two/data/x", False),
    ("hdfs://one:8020/data/x/a.log", "data", False),
    ("file:/data/a.log", "/", True),
    ("file:/mnt/data/x/a.log", "/data/x", False),
    ("file:/data/xy/a.log", "/data/x", False),
    ("hdfs://one:8020/data/x/a.log", "/data/x", True),
])  # fmt: skip
def test_output_directory_must_not_contain_inputs(uri: str, out: str, *, lies_within: bool) -> None:
    from authorizerd.replay.ingest.inputs import check_apart

    refused = pytest.raises(JobError, match="expected files outside it")
    with refused if lies_within else nullcontext():
        check_apart([Input(uri=uri, bytes=1, modified_ms=1)], out)


def test_overwrite_replaces_all_days(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(ALLOWED.format("a"))
    (tmp_path / "b.log").write_text(ALLOWED.format("b").replace("26-11-21", "26-11-22"))
    mode = "spark.sql.sources.partitionOverwriteMode"
    spark.conf.set(mode, "dynamic")
    try:
        for name in ("a", "b"):
            log = tmp_path / f"{name}.log"
            on = spark if name == "b" else None
            figures = ingest(on, tmp_path / "out", log, overwrite=True, delta=name == "a")
            assert (figures.events, figures.tuples) == (1, 1)
            for part in ("events", "tuples"):
                ((file, values),) = read_delta(tmp_path / "out" / part).files.items()
                (row,) = parquet.read_table(file, partitioning=None).to_pylist()
                assert row["resource_name"] == name
                assert values.get("day") in (None, str(row.get("at"))[:10])
    finally:
        spark.conf.unset(mode)
    assert rows("resource_name", tmp_path / "out" / "events") == [("b",)]
    for part in ("events", "tuples", "set_aside", "commits"):
        assert len(list((tmp_path / "out" / part).glob("[!._]*"))) == 1, "older ones are removed"
    (tmp_path / "out" / "ingest.json").unlink()
    assert ingest(spark, tmp_path / "again", tmp_path / "out" / "events").events == 1
    shutil.rmtree(tmp_path / "out" / "commits")
    for source in (tmp_path / "out", tmp_path / "out" / "events"):
        with pytest.raises(JobError, match=r"--input: .* expected the output of ingest"):
            ingest(spark, tmp_path / "again", source)


def test_too_many_lines_set_aside_are_not_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(ALLOWED.format("a") + "something\n")
    assert run(None, IngestPlan(inputs=(str(log),), out=str(tmp_path / "out"))) == 1
    said = re.search(r"no_decision 1.*; see (.*)", capsys.readouterr().err)
    assert said is not None
    assert rows("line, reason", Path(said[1])) == [("something", "no_decision")]
    inside = tmp_path / "out" / "set_aside" / "a.log"
    inside.touch()
    with pytest.raises(JobError, match="expected files outside it"):
        ingest(None, tmp_path / "out", inside)
    assert ingest(None, tmp_path / "out", log, bad_ratio_max=0.5).set_aside == 1
    assert not Path(said[1]).exists(), "a commit removes what earlier runs have left"


def test_tuples_contain_the_figures_of_each_verdict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from authorizerd.replay.ingest import runs

    chosen = random.Random(3)
    events = [
        recorded_events.Event(
            chosen.choice(("User:a", 'User:"b", c\n\0', "User:ü")), chosen.choice((None, "h")),
            "READ", "TOPIC", chosen.choice(("t", "")), chosen.random() < 0.5,
            rule=chosen.choice((None, "A", "B")), at=chosen.choice((0, 1, 86_400_000)),
        )
        for _ in range(200)
    ]  # fmt: skip
    denied = recorded_events.Event("User:a", "h", "READ", "TOPIC", "t", allowed=False)
    events += [denied._replace(at=at) for at in (-1, 86_400_001)]
    recorded = recorded_events.write_events(tmp_path / "in", events)
    monkeypatch.setitem(runs._WRITING, "maxRecordsPerFile", "30")
    figures = ingest(spark, tmp_path / "out", recorded)
    told = decode_ingested((recorded / "ingest.json").read_text())
    assert (figures.first_at, figures.last_at) == (told.first_at, told.last_at)
    assert len(list((tmp_path / "out" / "events").glob("*/*/*.parquet"))) > 4
    expected, found = (
        sorted(parquet.read_table(folder / "tuples", partitioning=None).to_pylist(), key=str)
        for folder in (recorded, tmp_path / "out")
    )
    assert found == expected


@pytest.mark.smoke
def test_second_ingest_keeps_the_recorded_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from authorizerd.replay.ingest import runs

    lines = [ALLOWED.format(number) for number in range(60)]
    lines[::2] = [line.replace("26-11-21", "26-11-20") for line in lines[::2]]
    (tmp_path / "a.log").write_text("".join(lines))
    monkeypatch.setitem(runs._WRITING, "maxRecordsPerFile", "7")
    ingest(spark, tmp_path / "first", tmp_path / "a.log")
    ingest(spark, tmp_path / "again", tmp_path / "first")
    in_order = sorted(rows("sequence, resource_name", tmp_path / "again" / "events"))
    assert [int(name) for _, name in in_order] == list(range(60))


@pytest.mark.parametrize("summed", [3, 4])
def test_run_whose_tuples_miss_events_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summed: int
) -> None:
    (tmp_path / "a.log").write_text("".join(map(ALLOWED.format, range(3))))
    write = LocalRuns.write_tuples

    def write_other(self: LocalRuns, run: str, before: Commit) -> TupleCount:
        return write(self, run, before)._replace(events=summed)

    monkeypatch.setattr(LocalRuns, "write_tuples", write_other)
    said = f"expected the 3 events of events/run=.* in its tuples, found {summed}"
    with nullcontext() if summed == 3 else pytest.raises(JobError, match=said):
        assert ingest(None, tmp_path / "out", tmp_path / "a.log").events == 3
    assert bool(list((tmp_path / "out").glob("events/*"))) is (summed == 3)


def test_log_beside_a_table_does_not_count_twice(spark: SparkSession, tmp_path: Path) -> None:
    first, out, log = tmp_path / "first", tmp_path / "out", tmp_path / "a.log"
    log.write_text("".join(ALLOWED.format(number) for number in range(3)))
    ingest(None, first, log)
    with pytest.raises(JobError, match=r"Ingest them one after the other"):
        ingest(spark, out, first, log)
    assert not out.exists()
    assert ingest(spark, out, first).events == 3
    assert ingest(spark, out, first, log).events == 3


def test_empty_log_gives_readable_results(
    engine: SparkSession | None, spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_text("")
    figures = ingest(engine, tmp_path / "out", log)
    assert figures.accepted
    assert (figures.lines, figures.tuples, figures.first_at, figures.levels) == (0, 0, None, {})
    from authorizerd.replay.ingest.table import open_table

    table = open_table(spark, str(tmp_path / "out"))
    for frame in (table.events(), table.tuples()):
        assert frame.count() == 0
        assert "principal" in frame.columns


@pytest.mark.parametrize("is_first", [False, True][: size(1, 2)])
def test_parquet_of_another_tool_is_read(
    spark: SparkSession, tmp_path: Path, *, is_first: bool
) -> None:
    """Together with files that have more columns, in either order."""
    file = tmp_path / "a.parquet"
    duckdb.sql(
        "COPY (SELECT TIMESTAMPTZ '2026-11-21 16:26:26Z' AS at, true AS allowed, n AS principal, "
        "'READ' AS operation, 'TOPIC' AS resource_type, 't' AS resource_name, 7 AS \"odd.name\" "
        f"FROM (VALUES ('User:a'), (NULL)) AS names(n)) TO '{file}' (FORMAT parquet)"
    )
    (tmp_path / "b.log").write_text(ALLOWED.format("t"))
    ingest(None, tmp_path / "b", tmp_path / "b.log")
    inputs = (file, tmp_path / "b") if is_first else (tmp_path / "b", file)
    figures = ingest(spark, tmp_path / "out", *inputs, bad_ratio_max=0.5)
    assert (figures.events, figures.reasons) == (2, {Reason.MISSING_VALUE.value: 1})
    columns = "principal, host, pattern_type, level, parse_filename(file)"
    assert sorted(rows(columns, tmp_path / "out" / "events"), key=str) == [
        ("User:a", "h", "LITERAL", "DEBUG", "b.log"),
        ("User:a", None, "LITERAL", "UNKNOWN", "a.parquet"),
    ]


def test_named_field_reaches_every_task(engine: SparkSession | None, tmp_path: Path) -> None:
    first, second = (
        json.dumps({"event": {"original": ALLOWED.format(name).rstrip()}}) + "\n" for name in "ab"
    )
    (tmp_path / "a.log").write_text(first * 3)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(second.encode()))
    logs = [tmp_path / "a.log", tmp_path / "b.log.gz"]
    layout = LineLayout(field="event.original")
    figures = ingest(engine, tmp_path / "out", *logs, layout=layout)
    assert (figures.events, figures.set_aside) == (4, 0)


def test_field_that_no_line_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(json.dumps({"event": ALLOWED.format("a").rstrip()}))
    plan = IngestPlan(
        inputs=(str(tmp_path / "a.log"),), out=str(tmp_path / "out"), bad_ratio_max=1,
        layout=LineLayout(field="original"),
    )  # fmt: skip
    assert run(None, plan) == 1
    assert "no line has a text in the JSON field that --line-field names: 1 set aside (no_" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "out/commits").exists()


@pytest.mark.parametrize(("name", "time_zone", "said"), [
    ("*.log", "UTC", r"\*\.log: no files found"),
    ("empty", "UTC", "empty: no files found"),
    ("logs.tar.gz", "UTC", "unpack the file first"),
    ("other.parquet", "UTC", "column at is missing"),
    ("text.parquet", "UTC", "column at: expected type timestamp, found string"),
    ("other.parquet", "Nowhere", "unknown time zone 'Nowhere'"),
])  # fmt: skip
def test_unreadable_input_is_named(
    spark: SparkSession, tmp_path: Path, name: str, time_zone: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "logs.tar.gz").touch()
    for file, column in (("other.parquet", "x"), ("text.parquet", "at")):
        parquet.write_table(pyarrow.table({column: ["a"]}), tmp_path / file)
    with pytest.raises(JobError, match=said):
        ingest(spark, tmp_path / "out", tmp_path / name, layout=LineLayout(time_zone=time_zone))
    assert not (tmp_path / "out").exists()
