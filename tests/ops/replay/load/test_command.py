"""The load without Spark, and the choice between both."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from authorizerd.replay import cli
from authorizerd.replay.errors import LoadError, SendingError
from authorizerd.replay.load import command
from authorizerd.replay.load.command import run_here
from authorizerd.replay.load.lanes.processes import LaneProcesses
from authorizerd.replay.load.plan import ordering
from authorizerd.replay.plans import LoadPlan, Plan
from authorizerd.replay.submit import submitter
from tests.ops.replay.load.lanes.target_server import target_server
from tests.ops.replay.load.recorded_load import events_of, load
from tests.ops.replay.recorded_events import Event, write_events
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import (
    DaemonProcess,
    closed_address,
    new_log,
    running,
    wait_until,
)
from tests.support.fixture_types import MonkeyPatch
from tests.support.printed import run_main

NAMES = {"stream": "Stream", "http": "AuthZEN"}


def test_questions_are_asked_in_each_principals_order(tmp_path: Path) -> None:
    events = events_of(300)
    with target_server() as server:
        code, report = load(run_here, tmp_path, events, target=server.address, speed=2.0)
        asked, hellos = list(server.asked), server.hellos
    assert code == 0
    assert (report["valid"], report["answered"], report["mismatches"]) == (True, 300, 0)
    assert report["plan"]["planned_s"] == pytest.approx(0.1495, abs=0.001)
    assert hellos == 3, "one probe, then each lane"
    by_connection = {
        connection: [principal for at, principal in asked if at == connection]
        for connection, _ in asked
    }
    assert sorted(map(len, by_connection.values())) == sorted(report["plan"]["lanes"])
    for principals in by_connection.values():
        theirs = set(principals)
        assert principals == [event.principal for event in events if event.principal in theirs]
    assert (report["first_offset"], report["last_offset"]) == (7, 7)


def test_lost_target_leaves_a_result_with_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with target_server(dies_after=100) as server:
        code, report = load(run_here, tmp_path, events_of(1000), target=server.address)
    assert code == 1
    assert report["valid"] is False
    assert report["sent"] == report["answered"] + report["unanswered"]
    assert 0 < report["answered"] <= 100
    assert report["not_sent"] == 1000 - report["sent"] > 0
    assert report["death"]["at"] > report["started_at"]
    assert "was lost at" in capsys.readouterr().err


def test_lane_that_ends_leaves_a_result_that_is_not_valid(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """The killed lane also was deaf to the signal that ends a command."""
    started: list[LaneProcesses] = []

    class Watched(LaneProcesses):
        def __init__(self, plan: LoadPlan) -> None:
            super().__init__(plan)
            started.append(self)

    def kill() -> None:
        wait_until(lambda: server.frames > 10, "questions arrive", 300)
        process, _ = started[0]._lanes[1]
        os.kill(process.pid, signal.SIGTERM)
        frames = server.frames
        wait_until(lambda: server.frames > frames + 10, "more questions arrive")
        process.kill()

    monkeypatch.setattr(command, "LaneProcesses", Watched)
    with target_server() as server:
        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(SendingError, match="the process of a lane has ended: exit codes"):
            load(run_here, tmp_path, events_of(10, every_ms=10), target=server.address, loop=1000)
        killing.join()
    assert '"the load did not end' in (tmp_path / "out" / "load.json").read_text()
    assert not any(process.is_alive() for process, _ in started[0]._lanes)


def test_killed_command_ends_its_lanes(tmp_path: Path) -> None:
    def is_running(process_id: str) -> bool:
        with suppress(OSError):
            return " Z " not in Path(f"/proc/{process_id}/stat").read_text()
        return False

    write_events(tmp_path / "in", events_of(10, every_ms=10))
    words = ("load", "--events", "in", "--out", "out", "--lanes", "2", "--loop", "1000")
    with target_server() as server:
        command = [sys.executable, "-m", "authorizerd.replay", *words, "--target", server.address]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            wait_until(lambda: server.frames > 10, "questions arrive", 300)
            lanes = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            process.kill()
        assert len(lanes) >= 2
        wait_until(lambda: not any(map(is_running, lanes)), "the lanes end")
    assert '"the load did not end' in (tmp_path / "out" / "load.json").read_text()


def test_plan_depends_on_events_and_options_only(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Not on the memory: with little, the events are sorted in parts."""
    hashes = []
    events = events_of(400, every_ms=20)[::-1]
    for size, gap_s in ((ordering.SORT_BYTES, 0.005), (1, 0.005), (1, 0.004)):
        monkeypatch.setattr(ordering, "SORT_BYTES", size)
        monkeypatch.setattr(ordering, "BATCH_ROWS", 7)
        options = {"dry_run": True, "lanes": 1, "loop": 3, "max_gap_s": gap_s}
        code, report = load(run_here, tmp_path, events, **options)
        assert (code, report["valid"], report["sent"]) == (0, None, 0)
        assert report["plan"]["questions"] == 1200
        hashes.append(report["plan"]["hash"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_loops_are_rounds_of_the_record(tmp_path: Path) -> None:
    """At a given rate, three loops of a record are one loop of the record written three times."""
    events = events_of(40)
    longer = [
        event._replace(at=event.at + 1000 * number) for number in range(3) for event in events
    ]
    options = {"dry_run": True, "lanes": 1, "rate": 100.0}
    looped, written, timed = (
        load(run_here, tmp_path / str(len(recorded)), recorded, **options, **more)[1]
        for recorded, more in (
            (events, {"loop": 3}), (longer, {}), (events[:30], {"loop": 0, "duration_s": 2.0}),
        )
    )  # fmt: skip
    assert [each["plan"]["questions"] for each in (looped, written, timed)] == [120, 120, 200]
    assert looped["plan"]["hash"] == written["plan"]["hash"]
    assert (timed["plan"]["rounds"], timed["plan"]["planned_s"]) == (7, 1.99)
    settings = {name: timed["settings"][name] for name in ("rate", "lanes", "batch", "depth")}
    assert settings == {"rate": 100.0, "lanes": 1, "batch": 64, "depth": 8}


def test_load_that_cannot_start_leaves_no_result(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    address = closed_address()
    with pytest.raises(LoadError, match=f"target {address}: Connection refused"):
        load(run_here, tmp_path, events_of(3), target=address)
    everyone = [event._replace(principal="User:*") for event in events_of(2)]
    with pytest.raises(LoadError, match="no event can be asked"):
        load(run_here, tmp_path / "everyone", everyone, dry_run=True)
    with pytest.raises(LoadError, match="no question is due within the duration"):
        load(run_here, tmp_path, events_of(3), dry_run=True, profile="step:0:5,1:1", duration_s=1.0)
    (tmp_path / "in" / "events").rename(tmp_path / "in" / "moved")
    with pytest.raises(LoadError, match="expected 3 events, found 0: restore the missing files"):
        load(run_here, tmp_path, [], dry_run=True)
    with pytest.raises(LoadError, match="expected the output of ingest"):
        load(run_here, tmp_path, [], dry_run=True, events=str(tmp_path))
    assert not (tmp_path / "out" / "load.json").exists()


@pytest.mark.parametrize(("words", "reason"), [
    ("", None),
    ("--engine local", None),
    ("--lanes 256", None),
    ("--engine spark", "--engine spark"),
    ("--master yarn", "options of Spark were given"),
    ("--remote sc://host", "options of Spark were given"),
    ("--events s3a://bucket/table", "s3a://bucket/table: expected a path on this machine"),
    ("--out s3a://bucket/out", "s3a://bucket/out: expected a path on this machine"),
    ("--lanes 257", "257 lanes are more than 256 processes"),
])  # fmt: skip
def test_lanes_run_here_unless_spark_is_wanted(
    tmp_path: Path, monkeypatch: MonkeyPatch, words: str, reason: str | None
) -> None:
    ran: list[tuple[str, Plan]] = []

    def run(name: str, plan: Plan, *_: object) -> int:
        ran.append((name, plan))
        return 3

    monkeypatch.setattr(submitter, "submit", partial(run, "spark"))
    monkeypatch.setattr(command, "run_here", partial(run, "here"))
    monkeypatch.chdir(tmp_path)
    Path("events").mkdir()
    given = f"load --events events --target h:1 --out out {words}".split()
    printed = run_main(*given, code=3, main=cli.main)
    ((name, plan),) = ran
    assert isinstance(plan, LoadPlan)
    engine = "local, without Spark" if reason is None else f"spark ({reason}"
    assert f"authorizerd replay: engine: {engine}" in printed.err
    assert name == ("here" if reason is None else "spark")
    if reason is not None and "spark" not in words and "--" not in reason:
        code = 2 if "options" in reason else 1
        refused = run_main(*given, "--engine", "local", code=code, main=cli.main).err
        assert "--engine" in refused


@pytest.mark.parametrize(("surface", "scheme"), [("stream", "tls"), ("http", "https")])
def test_daemon_answers_as_recorded_also_after_a_kill(
    tmp_path: Path, surface: str, scheme: str
) -> None:
    """The connections use TLS; the layers above it are the same with and without TLS."""
    events = [
        Event(principal, host, operation, "TOPIC", "orders",
              principal == "User:alice" and operation in ("READ", "DESCRIBE"), at=number * 100)
        for number in range(40)
        for principal in ("User:alice", "User:bob", "User:ANONYMOUS")
        for host in ("10.0.0.1", None, "::1")
        for operation in ("READ", "WRITE", "DESCRIBE")
    ]  # fmt: skip
    events.append(Event("User:bob", None, "READ", "TOPIC", "orders", True, at=4000))
    authority, log_dir, ended = Authority(tmp_path), new_log(tmp_path), threading.Event()
    key = f"authorizerd.decision.{surface}"
    config = authority.server_keys() | {key: f"{scheme}://127.0.0.1:0"}

    def restart(daemon: DaemonProcess, address: str) -> None:
        allowed = f'authorizerd_decisions_total{{result="allowed",surface="{NAMES[surface]}"}}'
        wait_until(lambda: daemon.metric(allowed, absent=0) > 100, "questions are answered", 300)
        daemon.stop(signal.SIGKILL)
        again = config | {key: f"{scheme}://{address}"}
        with running(tmp_path, log_dir, again, super_users="User:ANONYMOUS"):
            ended.wait()

    with running(tmp_path, log_dir, config, super_users="User:ANONYMOUS") as daemon:
        assert create_acls(new_admin(daemon), binding()) == [None]
        address = daemon.ready[f"decision_{surface}"]
        restarting = threading.Thread(target=restart, args=(daemon, address))
        restarting.start()
        try:
            code, report = load(
                run_here, tmp_path, events, target=f"{scheme}://{address}", surface=surface,
                cafile=str(authority.ca_file), mismatches_listed_max=1000, reconnect_s=60.0,
                fail_on="mismatch=0,errors=0,outage<60s",
            )  # fmt: skip
        finally:
            ended.set()
            restarting.join()
    recorded_wrong = 40 * 9 + 1  # the daemon allows a super user, the record denies
    assert (report["valid"], report["sent"], report["dropped"]) == (True, 1081, 0)
    assert report["answered"] == 1081
    assert report["errors"] == {}
    assert report["mismatches"] == recorded_wrong
    listed = {(each["question"][0], each["answered"]) for each in report["first_mismatches"]}
    assert listed == {("User:ANONYMOUS", True), ("User:bob", False)}
    assert report["last_offset"] > 0
    assert code == 3
    assert report["reconnects"] == len(report["outages"]) == 2, "each lane connects again"
    longest = max(report["outages"], key=lambda each: each["seconds"])
    # In each lane, a question is due every 100 ms.
    assert report["latency"]["corrected"]["max_ms"] >= (longest["seconds"] - 0.11) * 1000
    assert [verdict["passed"] for verdict in report["thresholds"]] == [False, True, True]
