from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.recorded_events import Event, write_events
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import new_log, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        admin = new_admin(daemon)
        assert create_acls(admin, binding()) == [None]
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
