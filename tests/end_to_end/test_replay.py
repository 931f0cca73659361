"""``authorizerd replay`` with a real spark-submit, on this machine and on a cluster."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
from pathlib import Path

import pytest

from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.java import find_java
from authorizerd.replay.submit.spark_home import find_spark_home
from tests.end_to_end.spark_cluster import QUICK_START, running_cluster
from tests.support.daemon_process import COMMAND, ROOT

LINES = 13_518  # in the broker's audit log
SECONDS_MAX = 600.0

try:
    find_java(os.environ)
    find_spark_home(None, os.environ)
except SubmissionError as error:
    pytest.skip(str(error), allow_module_level=True)


def replay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder without the project."""
    settings = [f"spark.{one}.extraJavaOptions={QUICK_START}" for one in ("driver", "executor")]
    settings.append("spark.sql.shuffle.partitions=2")
    return subprocess.run(
        [*COMMAND, "replay", *words, *(word for one in settings for word in ("--conf", one))],
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


def test_cluster_needs_only_the_jobs_files_and_three_modules(
    ingested: Path, real_log_dir: Path, tmp_path: Path
) -> None:
    """The ACLs are read on this machine. The workers' Python cannot import the project."""
    with running_cluster(tmp_path) as cluster:
        for package in ("authorizerd", "ops", "pyspark"):
            alone = subprocess.run(
                [cluster.python, "-c", f"import {package}"],
                cwd=cluster.folder,
                env=cluster.environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert f"No module named '{package}'" in alone.stderr
        ran = replay(
            tmp_path,
            *("whatif", "--events", str(ingested), "--acls", str(real_log_dir)),
            *("--out", (tmp_path / "out").as_uri(), "--master", cluster.master),
            *("--python", str(cluster.python), "--executor-memory", "512m"),
            *("--conf", "spark.driver.host=127.0.0.1"),
        )
    assert ran.returncode in (0, 3), ran.stderr
    summary = json.loads((tmp_path / "out/whatif.json").read_text())
    assert summary["events"] == LINES
    assert summary["newly_denied"]["events"] > 0 or ran.returncode == 0
