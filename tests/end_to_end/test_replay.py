"""``authorizerd replay`` with a real spark-submit on this machine."""

import json
import lzma
import os
from pathlib import Path

from tests.end_to_end.spark_cluster import QUICK_START
from tests.support.daemon_process import COMMAND, ROOT
from tests.support.programs import output_of
from tests.support.spark import require_spark

LINES = 13_518  # in the broker's audit log
SECONDS_MAX = 600.0

require_spark()


def test_real_audit_log_is_ingested_on_this_machine(real_log_dir: Path, tmp_path: Path) -> None:
    """Every line becomes an event, in a folder without the project. Spark leaves no files there."""
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz") as log:
        (tmp_path / "audit.log").write_bytes(log.read())
    settings = [f"spark.{one}.extraJavaOptions={QUICK_START}" for one in ("driver", "executor")]
    settings.append("spark.sql.shuffle.partitions=2")
    confs = (word for one in settings for word in ("--conf", one))
    words = ("replay", "ingest", "--input", "audit.log", "--out", "events", *confs)
    output_of(*COMMAND, *words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    summary = json.loads((tmp_path / "events" / "ingest.json").read_text())
    assert summary["accepted"]
    assert (summary["lines"], summary["events"]) == (LINES, LINES)
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"audit.log", "events"}
