"""The job of ``authorizerd verify`` on Spark: its report is that of one process."""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.protocol.verification import Cause
from tests.ops.replay.verify.both_engines import (
    BAD_LINES,
    check_engines,
    submit_to,
    write_random_logs,
)
from tests.ops.replay.verify.scripted_broker import SETTINGS
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.spark import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require_spark()


@pytest.fixture(autouse=True)
def submitted(spark: SparkSession, monkeypatch: MonkeyPatch) -> Iterator[None]:
    """Run plans in the session, with several tasks for a file of a few lines."""
    from authorizerd.replay.verify.job import run

    spark.conf.set("spark.sql.files.maxPartitionBytes", "32k")
    submit_to(monkeypatch, partial(run, spark))
    yield
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_planted_fault_is_found_in_archives_and_copies(tmp_path: Path, capsys: Capture) -> None:
    log, logs = write_random_logs(random.Random(3), tmp_path, Cause.CLOCK)
    text = (logs / "two.log").read_bytes()
    (logs / "copy.log").write_bytes(text[:3_000])
    first, rest = text[:9_000], text[9_000:]
    (logs / "two.log").write_bytes(rest)
    (logs / "two %41ü [1].gz").write_bytes(gzip.compress(first))
    (logs / "damaged.log.xz").write_bytes(lzma.compress(first[4_000:])[:-50])
    found = check_engines(capsys, "--logs", logs, "--log-dir", log, *SETTINGS, *BAD_LINES)
    assert Cause.CLOCK in found
