from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from authorizerd.replay.acls.reading import read_acl_source
from ops.replay_demo.__main__ import FOLDER, main
from ops.replay_demo.expectations import (
    ACLS,
    EVENTS,
    DemonstrationError,
    check_acls,
    check_ingest,
    check_load,
    check_same,
    check_usage,
)
from ops.replay_demo.recording import SUPER_USER, client_times, unpack_recording, write_log
from tests.ops.replay.recorded_events import START, Event, write_events
from tests.ops.replay.report.examples import ingested, load, usage, whatif


def test_the_daemons_log_holds_the_acls_of_the_time_and_no_other(tmp_path: Path) -> None:
    """Their digest, offset and time are those of the broker's log then; the recording stays."""
    recording = unpack_recording(tmp_path / "recorded")
    assert len(recording.audit_log.read_bytes().splitlines()) == EVENTS
    then = read_acl_source(
        str(recording.log_dir), as_of="2026-11-21T16:31:06.718", super_users=[SUPER_USER]
    )
    check_acls(then)
    write_log(tmp_path / "log", then)
    written = read_acl_source(str(tmp_path / "log"), super_users=[SUPER_USER])
    assert (written.digest, len(written.acls)) == (then.digest, ACLS)
    assert written.offset == then.offset
    with pytest.raises(DemonstrationError, match="ACLs of the time: 1751, and must be 1616"):
        check_acls(read_acl_source(str(recording.log_dir)))


def test_a_clients_time_is_not_the_super_users(tmp_path: Path) -> None:
    """It makes the ACLs before and after clients ask."""
    events = [
        Event(principal, None, "READ", "TOPIC", "t", True, at=at)
        for at, principal in enumerate((SUPER_USER, "User:b", "User:a", SUPER_USER))
    ]
    times = client_times(write_events(tmp_path, events))
    first, last, end = (START + timedelta(milliseconds=at) for at in (1, 2, 3))
    assert (times.first, times.last, times.end) == (first, last, end)
    assert datetime.fromisoformat(times.last_text) == last.astimezone(UTC)


def test_results_that_are_not_as_they_must_be_are_told(tmp_path: Path) -> None:
    """Each of another run, with other figures."""
    acls = tmp_path / "acls.yaml"
    acls.write_text("acls: []\n")
    with pytest.raises(DemonstrationError, match="events: 100, and must be 13518"):
        check_ingest(ingested())
    with pytest.raises(DemonstrationError, match=r"events judged: .*, and must be 13518"):
        check_same(whatif(), read_acl_source(str(acls)))
    with pytest.raises(DemonstrationError, match=r"ACLs sorted: .*, and must be 1616"):
        check_usage(usage())
    with pytest.raises(DemonstrationError, match="answers: 98, and must be 13518"):
        check_load(load())


def test_without_java_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, which says what to install."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "replay-demo: no java found: install Java 17 or later, or set JAVA_HOME\n"
    assert not FOLDER.exists()
