"""Every part of the benchmark runs, from the sets to the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec


def test_quick_run_prints_a_table_and_writes_the_same_lines(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.bench", "--quick", "--directory", tmp_path],
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    printed = done.stdout.decode()
    report = msgspec.json.decode((tmp_path / "bench.json").read_bytes())
    assert report["machine"]["cores"] >= 1
    whats = [line["what"] for line in report["lines"]]
    assert len(set(whats)) == len(whats)
    for part in (
        "authorize, median",
        "update at",
        "load of",
        "memory",
        "event loop",
        "early listener",
        "growth, 20,200 ACLs",
        "AuthZEN",
        "HTTPS, 100 a request",
        "handshakes, ECDSA P-256: with a decision each",
        "handshakes, ECDSA P-256: p99 of decisions during a flood",
        "log-ins, SCRAM-SHA-512",
        "event loop, SCRAM-SHA-512 log-ins: longest step",
        "oversized",
    ):
        assert any(part in what for what in whats), part
    assert all(what in printed for what in whats)
    assert "peer absent: not in a quick run" in printed
    assert "one update, p99" in (tmp_path / "growth.svg").read_text()
