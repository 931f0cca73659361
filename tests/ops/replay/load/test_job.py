from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.target_server import TargetServer
from tests.ops.replay.recorded_events import Event, write_events
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import closed_address, new_log, running

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from authorizerd.replay.load.lanes.tally import LaneResult
    from authorizerd.replay.load.plan.stage import PlannedLoad


def events_of(count: int, every_ms: int = 1, principals: int = 7) -> list[Event]:
    return [
        Event(f"User:u{number % principals}", "10.0.0.1", "READ", "TOPIC", f"t{number % 3}", True,
              at=number * every_ms)
        for number in range(count)
    ]  # fmt: skip


def load(
    spark: SparkSession, folder: Path, recorded: Sequence[Event], **options: object
) -> tuple[int, dict[str, Any]]:
    """Run the job in ``folder`` and return its exit code and what it wrote."""
    from authorizerd.replay.load.job import run

    source = folder / "in"
    if not source.exists():
        write_events(source, recorded)
    plan = LoadPlan(
        events=str(source), out=str(folder / "out"), run_id="run-1", lanes=2, target="127.0.0.1:1",
        start_margin_s=0.2, max_send_lag_ms=60_000.0,
    )  # fmt: skip
    code = run(spark, msgspec.structs.replace(plan, **options))
    return code, json.loads((folder / "out" / "load.json").read_text())


def test_questions_are_asked_in_each_principals_order(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(300)
    for number, principal in enumerate(["User:*", "User:a", "User:b"]):
        odd = events[0]._replace(
            principal=principal, pattern_type="PREFIXED" if number else "LITERAL"
        )
        events.insert(number * 50, odd._replace(at=events[number * 50].at))
    with TargetServer() as server:
        code, report = load(spark, tmp_path, events, target=server.address, speed=2.0)
        asked, hellos = list(server.asked), server.hellos
    assert code == 0
    assert (report["valid"], report["answered"], report["mismatches"]) == (True, 300, 0)
    assert report["plan"]["not_asked"] == {"pattern type is not LITERAL": 2, "principal User:*": 1}
    assert report["plan"]["planned_s"] == pytest.approx(0.1495, abs=0.001)
    assert hellos == 4, "each lane probes, then sends"
    by_connection = {
        connection: [principal for at, principal in asked if at == connection]
        for connection, _ in asked
    }
    assert sorted(map(len, by_connection.values())) == sorted(report["plan"]["lanes"])
    for principals in by_connection.values():
        theirs = set(principals)
        assert principals == [
            event.principal for event in events_of(300) if event.principal in theirs
        ]
    assert len(report["start_skew_ms"]) == 2
    assert (report["first_offset"], report["last_offset"]) == (7, 7)


def test_targets_stall_shows_in_corrected_latency(spark: SparkSession, tmp_path: Path) -> None:
    with TargetServer(stalls_at=200, stall_seconds=0.5) as server:
        code, report = load(
            spark, tmp_path, events_of(1500), target=server.address, fail_on="p99<150ms,mismatch=0"
        )
    assert code == 3
    assert (report["valid"], report["answered"], report["dropped"]) == (True, 1500, 0)
    assert report["latency"]["corrected"]["p99_ms"] > 300
    assert report["late"] > 100
    assert [verdict["passed"] for verdict in report["thresholds"]] == [False, True]


def test_lost_target_leaves_a_result_with_its_time(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TargetServer(dies_after=100) as server:
        code, report = load(spark, tmp_path, events_of(1000), target=server.address)
    assert code == 1
    assert report["valid"] is False
    assert report["sent"] == report["answered"] + report["unanswered"]
    assert 0 < report["answered"] <= 100
    assert report["not_sent"] == 1000 - report["sent"] > 0
    assert report["death"]["at"] > report["started_at"]
    assert "was lost at" in capsys.readouterr().err


def test_failed_sending_leaves_a_result_with_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    denied = [event._replace(allowed=False) for event in events_of(300)]
    plan = load(spark, tmp_path, denied, dry_run=True)[1]["plan"]
    with TargetServer() as server:
        # The first mismatch raises a TypeError in its task.
        options = {"target": server.address, "mismatches_listed_max": "many", "overwrite": True}
        code, report = load(spark, tmp_path, denied, **options)
        assert server.frames > 0
    assert (code, report["valid"], report["sent"]) == (1, False, 0)
    assert "the sending stage failed" in report["invalid_reasons"][0]
    assert (report["plan"], plan["questions"]) == (plan, 300)


def test_packing_again_has_a_time_limit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    from authorizerd.replay.load import job
    from authorizerd.replay.load.lanes.stage import run_lanes

    def fail_or_wait(plan: LoadPlan, planned: PlannedLoad) -> list[LaneResult]:
        if not plan.dry_run:
            raise PySparkException("lost")
        waiting = planned.questions.mapInArrow(wait, planned.questions.schema)
        return run_lanes(plan, replace(planned, questions=waiting))

    monkeypatch.setattr(job, "run_lanes", fail_or_wait)
    monkeypatch.setattr(job, "JOB_SECONDS_MAX", 2.0)
    with TargetServer() as server:
        code, report = load(spark, tmp_path, events_of(30), target=server.address)
    assert (code, report["valid"], report["plan"]["hash"]) == (1, False, "")


def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(60)
    return batches


def test_plan_depends_on_events_and_options_only(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(400, every_ms=20)
    hashes = []
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for count, gap_s in ((2, 0.005), (3, 0.005), (3, 0.004)):
            spark.conf.set("spark.sql.shuffle.partitions", count)
            options = {"dry_run": True, "loop": 3, "max_gap_s": gap_s, "overwrite": True}
            code, report = load(spark, tmp_path, events, **options)
            assert (code, report["valid"], report["sent"]) == (0, None, 0)
            assert report["plan"]["questions"] == 1200
            hashes.append(report["plan"]["hash"])
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    assert hashes[0] == hashes[1] != hashes[2]


def test_loops_are_rounds_of_the_record(spark: SparkSession, tmp_path: Path) -> None:
    """At a given rate, three loops of a record are one loop of the record written three times."""
    events = events_of(40)
    longer = [
        event._replace(at=event.at + 1000 * number) for number in range(3) for event in events
    ]
    plans = [
        load(spark, tmp_path / name, recorded, dry_run=True, rate=100.0, loop=loop)[1]["plan"]
        for name, recorded, loop in (("looped", events, 3), ("written", longer, 1))
    ]
    assert [plan["questions"] for plan in plans] == [120, 120]
    assert plans[0]["hash"] == plans[1]["hash"]


def test_loops_add_no_rows_to_what_spark_sorts(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.ingest.table import open_table
    from authorizerd.replay.load.plan.stage import plan_load

    write_events(tmp_path / "in", events_of(40))
    for loop in (1, 1000):
        plan = LoadPlan(
            events=str(tmp_path / "in"), out="", run_id="1", target="h:1", lanes=2, loop=loop
        )
        with plan_load(plan, open_table(spark, plan.events).events()) as planned:
            assert (planned.rounds, planned.questions.count()) == (loop, 40)


def test_loop_0_repeats_until_the_duration_is_over(spark: SparkSession, tmp_path: Path) -> None:
    code, report = load(
        spark, tmp_path, events_of(30), dry_run=True, rate=100.0, loop=0, duration_s=2.0
    )
    assert code == 0
    assert (report["plan"]["rounds"], report["plan"]["questions"]) == (7, 200)
    settings = {name: report["settings"][name] for name in ("rate", "lanes", "batch", "depth")}
    assert settings == {"rate": 100.0, "lanes": 2, "batch": 64, "depth": 8}
    assert report["plan"]["planned_s"] == 1.99


def test_too_few_slots_are_rejected_first(spark: SparkSession, tmp_path: Path) -> None:
    with TargetServer() as server:
        with pytest.raises(LoadError, match="3 lanes need 3 task slots, but Spark has fewer"):
            load(spark, tmp_path, events_of(3), target=server.address, lanes=3)
        assert server.hellos == 0


def test_rejecting_target_leaves_no_result(spark: SparkSession, tmp_path: Path) -> None:
    address = closed_address()
    with pytest.raises(LoadError, match=f"target {address}: Connection refused"):
        load(spark, tmp_path, events_of(3), target=address)
    with (
        TargetServer(token="id.secret") as server,
        pytest.raises(LoadError, match="it rejects the token"),
    ):
        load(spark, tmp_path, events_of(3), target=server.address, token="id.other")
    assert not (tmp_path / "out").exists()


def test_events_without_questions_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    everyone = [event._replace(principal="User:*") for event in events_of(2)]
    with pytest.raises(LoadError, match="no event can be asked"):
        load(spark, tmp_path, everyone, dry_run=True)


@pytest.mark.parametrize(("surface", "scheme"), [("stream", "tls"), ("http", "https")])
def test_daemon_answers_as_recorded(
    spark: SparkSession, tmp_path: Path, surface: str, scheme: str
) -> None:
    """The connections use TLS; the layers above it are the same with and without TLS."""
    from authorizerd.replay.load.job import run

    events = [
        Event(principal, host, operation, "TOPIC", "orders",
              principal == "User:alice" and operation in ("READ", "DESCRIBE"), at=number)
        for number in range(40)
        for principal in ("User:alice", "User:bob", "User:ANONYMOUS")
        for host in ("10.0.0.1", None, "::1")
        for operation in ("READ", "WRITE", "DESCRIBE")
    ]  # fmt: skip
    events.append(Event("User:bob", None, "READ", "TOPIC", "orders", True, at=40))
    write_events(tmp_path / "in", events)
    authority = Authority(tmp_path)
    config = authority.server_keys() | {
        f"authorizerd.decision.{surface}": f"{scheme}://127.0.0.1:0"
    }
    with running(tmp_path, new_log(tmp_path), config, super_users="User:ANONYMOUS") as daemon:
        assert create_acls(new_admin(daemon), binding()) == [None]
        target = f"{scheme}://{daemon.ready[f'decision_{surface}']}"
        code = run(spark, plan_of(tmp_path, surface, target, authority.ca_file))
    report = json.loads((tmp_path / "out" / "load.json").read_text())
    recorded_wrong = 40 * 9 + 1  # the daemon allows a super user, the record denies
    assert (report["valid"], report["sent"], report["answered"]) == (True, 1081, 1081)
    assert report["errors"] == {}
    assert report["mismatches"] == recorded_wrong
    listed = {(each["question"][0], each["answered"]) for each in report["first_mismatches"]}
    assert listed == {("User:ANONYMOUS", True), ("User:bob", False)}
    assert report["last_offset"] > 0
    assert code == 3


def plan_of(folder: Path, surface: str, target: str, ca_file: Path) -> LoadPlan:
    return LoadPlan(
        events=str(folder / "in"), out=str(folder / "out"), run_id="run-1", target=target,
        surface=surface, cafile=str(ca_file), lanes=2, start_margin_s=0.2, max_send_lag_ms=60_000.0,
        fail_on="mismatch=0,errors=0", mismatches_listed_max=1000,
    )  # fmt: skip
