"""Every part of the benchmark runs, from the sets to the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tools.bench import __main__ as bench
from tools.bench.__main__ import _part_names, judge, measure
from tools.bench.figures import Line
from tools.bench.parts import QUICK, Run
from tools.bench.processes import ProcessError
from tools.bench.report import Part, read_report


def run_quickly(directory: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tools.bench", "--quick", "--directory", directory, *more],
        capture_output=True,
        timeout=600,
        check=False,
    )


def test_quick_run_prints_a_table_and_writes_the_same_lines(tmp_path: Path) -> None:
    done = run_quickly(tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    printed = done.stdout.decode()
    report = msgspec.json.decode((tmp_path / "bench.json").read_bytes())
    assert report["machine"]["cores"] >= 1
    whats = [line["what"] for part in report["parts"].values() for line in part["lines"]]
    assert len(set(whats)) == len(whats)
    for part in (
        "authorize, median",
        "update at",
        "load of",
        "memory",
        "event loop",
        "early listener",
        "growth, 20,200 ACLs",
        "scale, 2,000 ACLs: start from a checkpoint",
        "scale, 20 connections, 1 workers, 2,000 ACLs: decisions, p99",
        "AuthZEN",
        "search in process, 2,100 ACLs: who can",
        "search over HTTP, 1,600 literal ACLs: what can",
        "workers, 20,200 ACLs: USS of each worker",
        "HTTPS, 100 a request",
        "handshakes, ECDSA P-256: with a decision each",
        "handshakes, ECDSA P-256, decisions during a flood: p50",
        "log-ins, SCRAM-SHA-512",
        "event loop, SCRAM-SHA-512 log-ins: longest step",
        "oversized",
    ):
        assert any(part in what for what in whats), part
    assert all(what in printed for what in whats)
    assert "peer absent: not in a quick run" in printed
    assert "one update, p99" in (tmp_path / "growth.svg").read_text()
    assert "search, p50" in (tmp_path / "scale.svg").read_text()


def test_parts_run_in_the_order_of_the_table() -> None:
    assert _part_names("state, decisions,state") == ["decisions", "state"]


def test_continued_run_keeps_its_parts_and_measures_the_rest(tmp_path: Path) -> None:
    assert run_quickly(tmp_path, "--parts", "state").returncode == 0
    first = msgspec.json.decode((tmp_path / "bench.json").read_bytes())
    done = run_quickly(tmp_path, "--parts", "state, decisions", "--continue")
    assert done.returncode == 0, done.stderr.decode()
    report = msgspec.json.decode((tmp_path / "bench.json").read_bytes())
    assert [*report["parts"]] == ["decisions", "state"]
    firsts = [part["lines"][0]["what"].partition(" (")[0] for part in report["parts"].values()]
    assert firsts == ["kind", "update at 2,100 ACLs, p50"]
    assert report["parts"]["state"] == first["parts"]["state"]
    assert [*report["continued"].values()] == [["decisions"]]


def test_run_that_is_killed_in_its_first_part_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> Iterator[tuple[str, Part | None]]:
        raise KeyboardInterrupt

    command = ["bench", "--quick", "--parts", "state", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(bench, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    monkeypatch.setattr(sys, "argv", [*command, "--continue"])
    monkeypatch.setattr(bench, "measure", lambda *_, **__: iter([("state", Part(1.0, []))]))
    assert bench.main() == 0
    assert [*read_report(tmp_path / "bench.json").parts] == ["state"]


def test_unknown_part_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    done = run_quickly(tmp_path, "--parts", "http,htpt")
    assert done.returncode == 2
    assert b"unknown part 'htpt': expected some of http,openfga,stream,search," in done.stderr


def test_parts_after_a_failed_one_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Line(what="decision", unit="ns", ours=400)

    def succeed(_run: Run) -> Iterator[Line]:
        yield line

    def fail(_run: Run) -> Iterator[Line]:
        yield line
        raise ProcessError("the daemon ended")

    parts = {"first": fail, "second": succeed}
    measured = dict(measure(QUICK, tmp_path, [*parts], parts))
    assert measured["first"] is None
    assert measured["second"] is not None
    assert measured["second"].lines == [line]
    assert "bench: first: the daemon ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "is_quick", "code"),
    [
        (Line(what="loop", unit="ms", ours=2.0, limit=2, enforced=True), False, 0),
        (Line(what="loop", unit="ms", ours=2.1, limit=2, enforced=True), False, 1),
        (Line(what="loop", unit="ms", ours=2.1, limit=2, enforced=True), True, 0),
        (Line(what="loop", unit="ms", ours=2.1, limit=2), False, 0),
        (Line(what="memory", unit="MiB", ours=11, limit=10, enforced=True), True, 1),
    ],
)
def test_run_fails_if_a_limit_that_must_hold_is_exceeded(
    line: Line, is_quick: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quick run's times mean nothing, because tests run it on busy machines."""
    assert judge([line], is_quick=is_quick) == code
    assert ("exceeds the limit" in capsys.readouterr().err) == bool(code)
