"""``authorizerd serve`` as a process."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.lock import locked
from tests.support.daemon_process import DaemonProcess, ask, run, running, write_config
from tests.support.requests import evaluation
from tools.example.log import ACLS, write_log

READ_ORDERS = evaluation(host="10.0.0.1")
OFFSET = len(ACLS) + 2
"""The example's log has two records before the ACLs, and a start adds one."""

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log(tmp_path / "log")
    return tmp_path / "log"


def segment(log_dir: Path) -> Path:
    return log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)


def test_daemon_answers_counts_audits_and_ends(tmp_path: Path, log_dir: Path) -> None:
    """The main task, from start to SIGTERM."""
    audit = tmp_path / "audit.log"
    with running(
        tmp_path,
        log_dir,
        super_users="User:admin",
        authorizerd_audit_log=str(audit),
        authorizerd_audit_level="DEBUG",
    ) as daemon:
        assert daemon.ready["offset"] == OFFSET
        assert set(daemon.ready["listeners"]) == {"PLAINTEXT"}
        allowed = daemon.evaluate(READ_ORDERS)
        assert (allowed.status, allowed.json["decision"]) == (200, True)
        assert allowed.headers["Content-Type"] == "application/json"
        assert allowed.json["context"]["offset"] == OFFSET
        denied = daemon.evaluate(evaluation("eve", host="10.0.0.1"))
        assert denied.json == {
            "decision": False,
            "context": {"offset": OFFSET, "reason": "no ACL allows it", "rule": "DefaultDeny"},
        }
        admin = daemon.evaluate(evaluation("admin", host="10.0.0.1"))
        assert admin.json["context"]["rule"] == "SuperUser"
        assert daemon.metric("authorizerd_acls") == len(ACLS)
        assert daemon.metric("authorizerd_snapshot_offset") == OFFSET
        assert daemon.metric("authorizerd_high_watermark") == OFFSET
        assert daemon.metric("authorizerd_metadata_version") == 33
        assert daemon.metric('authorizerd_audit_dropped_total{reason="queue"}') == 0
        for result, count in (("allowed", 2), ("denied", 1), ("invalid", 0), ("not_ready", 0)):
            labels = f'{{result="{result}",surface="AuthZEN"}}'
            assert daemon.metric(f"authorizerd_decisions_total{labels}") == count
        for endpoint in ("decision_http", "admin_http", "PLAINTEXT"):
            assert daemon.metric(f'authorizerd_endpoint_open{{listener="{endpoint}"}}') == 1
        code, errors = daemon.stop()
    assert code == 0, errors
    assert f"ready: 7 ACLs at log offset {OFFSET}" in errors
    lines = audit.read_text().splitlines()
    assert [line.partition("] ")[2].partition(" ")[0] for line in lines] == [
        "DEBUG",
        "INFO",
        "DEBUG",
    ]
    assert "Principal = User:eve is Denied operation = READ from host = 10.0.0.1" in lines[1]


@pytest.fixture
def daemon(tmp_path: Path, log_dir: Path) -> Iterator[DaemonProcess]:
    with running(tmp_path, log_dir) as daemon:
        yield daemon


def test_requests_of_other_sites_are_refused(daemon: DaemonProcess) -> None:
    """Another content type (CSRF) or another host's name (DNS rebinding) is refused."""
    path, body = "/access/v1/evaluation", json.dumps(READ_ORDERS).encode()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = ask(daemon.decision, "POST", path, body, {"Content-Type": content_type})
        assert answer.status == 400
        assert b"application/json" in answer.body
    good = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert ask(daemon.decision, "POST", path, body, good).status == 200
    foreign = JSON | {"Host": "evil.example:8181"}
    assert ask(daemon.decision, "POST", path, body, foreign).status == 403


def fault(folder: Path, log_dir: Path, *arguments: str | Path, **settings: str) -> str:
    """Start a daemon that must fail; return its one line."""
    config = write_config(folder, log_dir, None, **settings)
    done = run("serve", "--config", config, *arguments)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("authorizerd: ")
    assert done.stderr.count("authorizerd: ") - done.stderr.count(" authorizerd: ") == 1
    return last


def test_fault_at_a_start_is_one_clear_line(tmp_path: Path, log_dir: Path) -> None:
    """It names the file and line, the key or the address, and the reason."""
    said = fault(tmp_path, log_dir, super_users="alice")
    assert f"{tmp_path}/server.properties:7: super.users: " in said
    said = fault(tmp_path, log_dir, "--override", "authorizerd.decision.http=http://0.0.0.0:1")
    assert "--override: authorizerd.decision.http: " in said
    assert "loopback" in said
    assert "--config: " in run("serve", "--config", tmp_path / "none").stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = fault(tmp_path, log_dir, authorizerd_admin_http=f"http://{address}")
    assert f"authorizerd.admin.http: {address}: Address already in use" in said
    said = fault(tmp_path, log_dir, authorizerd_audit_log=str(tmp_path / "none" / "a.log"))
    assert "authorizerd.audit.log: " in said
    assert said.endswith("a.log: its directory does not exist: create it")
    with locked(log_dir):
        assert f"{log_dir}: in use by another process" in fault(tmp_path, log_dir)
    assert "no metadata log found" in fault(tmp_path, tmp_path / "none")
    segment(log_dir).unlink()
    assert "expected a log segment or a checkpoint" in fault(tmp_path, log_dir)


def test_corrupt_log_ends_the_daemon_with_file_offset_reason_and_remedy(
    tmp_path: Path, log_dir: Path
) -> None:
    """A complete batch with a bad CRC may be an acknowledged DENY, so it is never skipped."""
    path = segment(log_dir)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    said = fault(tmp_path, log_dir)
    assert said.startswith(f"authorizerd: {path}: at byte ")  # and not with an endpoint
    assert "log offset 2" in said
    assert "CRC" in said
    assert f"run `authorizerd check-log {log_dir}`, then again with --repair" in said
    assert not (tmp_path / "ready.json").exists()


def test_unfinished_write_is_cut_and_reported(tmp_path: Path, log_dir: Path) -> None:
    """The last batch was never acknowledged, so the daemon cuts it and continues."""
    path = segment(log_dir)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with running(tmp_path, log_dir) as daemon:
        assert daemon.metric("authorizerd_acls") == 0
        _, errors = daemon.stop()
    assert "unfinished write" in errors
    with running(tmp_path, log_dir) as daemon:
        assert daemon.metric("authorizerd_high_watermark") == 3
        _, errors = daemon.stop()
    assert "unfinished write" not in errors
