from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from authorizerd.replay.acls.reading import read_acl_source
from tests.ops.replay.recorded_events import START, Event, write_events
from tests.ops.replay.report.examples import ingested, load, usage, whatif
from tools.replay_demo import expectations
from tools.replay_demo.__main__ import FOLDER, main
from tools.replay_demo.recording import SUPER_USER, client_times, unpack_recording, write_log


def test_daemon_log_contains_exactly_the_acls_of_that_time(tmp_path: Path) -> None:
    recording = unpack_recording(tmp_path / "recorded")
    assert len(recording.audit_log.read_bytes().splitlines()) == expectations.EVENTS
    then = read_acl_source(
        str(recording.log_dir), as_of="2026-11-21T16:31:06.718", super_users=[SUPER_USER]
    )
    expectations.check_acls(then)
    write_log(tmp_path / "log", then)
    written = read_acl_source(str(tmp_path / "log"), super_users=[SUPER_USER])
    assert (written.digest, len(written.acls)) == (then.digest, expectations.ACLS)
    assert written.offset == then.offset
    with pytest.raises(
        expectations.DemonstrationError, match="ACLs in force: expected 1616, found 1751"
    ):
        expectations.check_acls(read_acl_source(str(recording.log_dir)))


def test_client_times_exclude_the_super_user(tmp_path: Path) -> None:
    """The super user changes ACLs before and after the clients' requests."""
    events = [
        Event(principal, None, "READ", "TOPIC", "t", True, at=at)
        for at, principal in enumerate((SUPER_USER, "User:b", "User:a", SUPER_USER))
    ]
    times = client_times(write_events(tmp_path, events))
    first, last, end = (START + timedelta(milliseconds=at) for at in (1, 2, 3))
    assert (times.first, times.last, times.end) == (first, last, end)
    assert datetime.fromisoformat(times.last_text) == last.astimezone(UTC)


def test_unexpected_results_are_named(tmp_path: Path) -> None:
    acls = tmp_path / "acls.yaml"
    acls.write_text("acls: []\n")
    with pytest.raises(expectations.DemonstrationError, match="events: expected 13518, found 100"):
        expectations.check_ingest(ingested())
    with pytest.raises(
        expectations.DemonstrationError, match="figures after a repeated ingest: expected"
    ):
        expectations.check_unchanged(ingested("again"), ingested())
    with pytest.raises(expectations.DemonstrationError, match="events judged: expected 13518"):
        expectations.check_same(whatif(), read_acl_source(str(acls)))
    with pytest.raises(expectations.DemonstrationError, match=r"ACLs classified .*: expected 1616"):
        expectations.check_usage(usage())
    with pytest.raises(expectations.DemonstrationError, match="answers: expected 13518, found 98"):
        expectations.check_load(load())


def test_without_java_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("replay-demo: Java not found: ")
    assert told.err.endswith(": install Java 17 or later, or set JAVA_HOME\n")
    assert not FOLDER.exists()
