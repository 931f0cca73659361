"""``authorizerd replay`` with a real spark-submit on this machine."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.prerequisites import check_java, find_spark_home
from tests.end_to_end.spark_cluster import QUICK_START
from tests.support.daemon_process import COMMAND, ROOT

LINES = 13_518  # in the broker's audit log
SECONDS_MAX = 600.0

try:
    check_java(os.environ)
    find_spark_home(None, os.environ)
except SubmissionError as error:
    pytest.skip(str(error), allow_module_level=True)


def replay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder without the project."""
    settings = [f"spark.{one}.extraJavaOptions={QUICK_START}" for one in ("driver", "executor")]
    settings.append("spark.sql.shuffle.partitions=2")
    confs = (word for one in settings for word in ("--conf", one))
    return run([*COMMAND, "replay", *words, *confs], folder)


def run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.fixture(scope="module")
def ingested(real_log_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ingest a real broker's audit log on this machine."""
    folder = tmp_path_factory.mktemp("replay")
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz") as log:
        (folder / "audit.log").write_bytes(log.read())
    ran = replay(folder, "ingest", "--input", "audit.log", "--out", "events")
    assert ran.returncode == 0, ran.stderr
    return folder / "events"


def test_real_audit_log_is_ingested_on_this_machine(ingested: Path) -> None:
    """Every line becomes an event, and Spark leaves no files in the folder."""
    summary = json.loads((ingested / "ingest.json").read_text())
    assert summary["accepted"]
    assert (summary["lines"], summary["events"]) == (LINES, LINES)
    left = {path.name for path in ingested.parent.glob("[!.]*")}
    assert left == {"audit.log", "events"}


def test_package_runs_a_command_in_spark_submit(
    ingested: Path, real_log_dir: Path, tmp_path: Path
) -> None:
    """The driver reads the ACLs itself, and its results equal those of the engine without Spark."""
    words = ("usage", "--events", str(ingested), "--acls", str(real_log_dir), "--out")
    expected = run([*COMMAND, "replay", *words, "expected"], tmp_path)
    packed = run([*COMMAND, "replay", "package", "--out", "files"], tmp_path)
    home = find_spark_home(None, os.environ)
    *line, command, arguments = packed.stdout.split()
    assert (line[0], command, arguments) == ("spark-submit", "COMMAND", "ARGUMENTS")
    confs = ("spark.ui.enabled=false", f"spark.driver.extraJavaOptions={QUICK_START}")
    local = ("--master", "local[2]", *(word for each in confs for word in ("--conf", each)))
    ran = subprocess.run(
        [home / "bin/spark-submit", *local, *line[1:], *words, "out"],
        cwd=tmp_path,
        env={
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONSAFEPATH": "1",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ran.returncode == expected.returncode == 0, ran.stdout + ran.stderr
    assert expected.stdout in ran.stdout
    for name in ("usage.json", "commands.sh"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "expected" / name).read_text()
