"""Replay's figures count only if both sides found the same."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tools.bench import wrapped_lines
from tools.bench.audit_logs import write_audit_log
from tools.bench.decisions import DisagreementError
from tools.bench.duckdb_peer import PeerReport, write_acls
from tools.bench.figures import Absent
from tools.bench.processes import Command
from tools.bench.replay import check_agreement
from tools.bench.replay_jobs import JobTime, ReplayReport, candidate_acls
from tools.bench.sets import kind
from tools.bench.wrapped_lines import measure_wrapped_lines

TIME = JobTime(1.0, 1.0)
OURS = ReplayReport(
    session=TIME,
    ingest=TIME,
    warm_ingest=TIME,
    cold=TIME,
    warm=TIME,
    lines=10,
    tuples=5,
    changed_by_same_acls=0,
    newly_denied=3,
)


def test_different_results_end_the_run() -> None:
    equal = PeerReport(10, 1.0, 1.0, 0.5, 3)
    check_agreement(OURS, equal, 3)
    check_agreement(OURS, Absent("no duckdb"), 3)
    for theirs, by_command, name in (
        (PeerReport(9, 1.0, 1.0, 0.5, 3), 3, "DuckDB"),
        (PeerReport(10, 1.0, 1.0, 0.5, 4), 3, "DuckDB"),
        (equal, 2, "the command"),
    ):
        with pytest.raises(DisagreementError, match=f"of 10 events 3 would be denied; {name}"):
            check_agreement(OURS, theirs, by_command)


def test_forms_of_a_line_must_have_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*measure_wrapped_lines(500)]
    assert [line.what.rpartition(": ")[2] for line in lines] == [
        "Docker's",
        wrapped_lines._NAMED,
    ] * 2
    assert all(line.peer is not None and line.ours > 0 for line in lines)
    monkeypatch.setattr(wrapped_lines, "_tally", lambda lines, field: Counter({field is None: 500}))
    with pytest.raises(DisagreementError, match="in this process: expected equal events"):
        [*measure_wrapped_lines(500)]


def test_same_acls_must_change_nothing() -> None:
    changed = msgspec.structs.replace(OURS, changed_by_same_acls=1)
    with pytest.raises(DisagreementError, match="same ACLs change 1"):
        check_agreement(changed, Absent("no duckdb"), 3)


def test_peer_reads_every_line_and_finds_the_denials(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    write_audit_log(log, 2000, 500)
    found = []
    for name, acls in (("all", list(kind().acls())), ("fewer", candidate_acls())):
        file = tmp_path / f"{name}.tsv"
        write_acls(file, acls)
        command: Command = [sys.executable, "-m", "tools.bench.duckdb_peer", log, file, tmp_path]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        found.append(msgspec.json.decode(done.stdout, type=PeerReport))
        again: Command = [*command[:3], "whatif", file, tmp_path]
        printed = subprocess.run(again, capture_output=True, check=True, timeout=60).stdout
        assert int(printed) == found[-1].newly_denied
    assert [report.lines for report in found] == [2000, 2000]
    assert found[0].newly_denied == 0
    assert found[1].newly_denied > 50
