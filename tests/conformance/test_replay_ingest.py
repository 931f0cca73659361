"""An ingest that is killed leaves the table as it was, and the next one completes it."""

import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import run_program
from tests.support.spark import require_spark

TIMEOUT_SECONDS = 600.0
AUTHORIZERD = (sys.executable, "-P", "-m", "authorizerd.cli.main", "replay")
# Each is reached by an ingest of a log that has grown: its first attempt is written again without
# the lines that the table has.
STEPS: dict[str, tuple[str, int]] = {
    "writing events": ("events/run=00000002-", 1),
    "events are written": ("set_aside/run=00000002-", 1),
    "writing them again": ("events/run=00000002-", 2),
    "writing tuples": ("tuples/run=00000002-", 1),
    "committed": ("commits/00000002.json", 1),
}
"""How many new paths of the table begin with a text."""


@pytest.fixture(scope="module", autouse=True)
def spark_runs_here() -> None:
    require_spark()


def ingest(folder: Path, table: Path) -> subprocess.Popen[str]:
    words = (*AUTHORIZERD, "ingest", "--input", folder / "logs", "--out", table)
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def finish(process: subprocess.Popen[str]) -> str:
    said = process.communicate(timeout=TIMEOUT_SECONDS)[0]
    assert process.returncode == 0, said
    return said


def kill_when(process: subprocess.Popen[str], is_reached: Callable[[], bool]) -> None:
    """Kill Spark and its driver; the command then ends by itself."""
    ends_at = time.monotonic() + TIMEOUT_SECONDS
    while not is_reached():
        assert process.poll() is None, "the ingest ended first"
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    (job,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.killpg(int(job), signal.SIGKILL)
    said = process.communicate(timeout=TIMEOUT_SECONDS)[0]
    assert process.returncode != 0, said


def list_paths(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.glob("*/*")}


def evaluate(table: Path, out: Path, acls: Path) -> tuple[bytes, bytes]:
    """Return the results of ``whatif`` and of ``usage`` on the table."""
    results = []
    for command, name in (("whatif", "whatif.json"), ("usage", "usage.json")):
        more = ("--assume-in-force", "--lookback", "1") if command == "usage" else ()
        words = (command, "--events", table, "--acls", acls, "--out", out, "--overwrite", *more)
        said = run_program(*AUTHORIZERD, *words, "--engine", "local")
        assert said.returncode in (0, 3), said.stderr  # 3: decisions would change
        results.append((out / name).read_bytes())
    return results[0], results[1]


def test_killed_ingest_leaves_the_table_as_it_was(real_log_dir: Path, tmp_path: Path) -> None:
    lines = lzma.decompress((real_log_dir / "kafka-authorizer.log.xz").read_bytes())
    half = lines[: lines.index(b"\n", len(lines) // 2) + 1]
    table, whole, acls = tmp_path / "table", tmp_path / "whole", real_log_dir / "acls-list.txt"
    log = tmp_path / "logs" / "a.log"
    log.parent.mkdir()
    log.write_bytes(lines)
    finish(ingest(tmp_path, whole))
    log.write_bytes(half)
    finish(ingest(tmp_path, table))
    states = [evaluate(of, tmp_path / "out", acls) for of in (table, whole)]
    assert states[0] != states[1]
    log.write_bytes(lines)
    for step, (beginning, count) in STEPS.items():
        before = list_paths(table)

        def is_reached(beginning: str = beginning, count: int = count) -> bool:
            new = list_paths(table) - before  # noqa: B023 - it is called in this turn
            return sum(path.startswith(beginning) for path in new) >= count

        kill_when(ingest(tmp_path, table), is_reached)
        is_committed = (table / "commits/00000002.json").exists()
        assert evaluate(table, tmp_path / "out", acls) == states[is_committed], step
        if is_committed:
            break
    assert is_committed
    assert "nothing new" in finish(ingest(tmp_path, table))
    log.write_bytes(lines + half.splitlines(keepends=True)[0])
    assert "added 1 event " in finish(ingest(tmp_path, table))
    assert len(list((table / "events").iterdir())) == 3, "what killed ingests left is removed"
