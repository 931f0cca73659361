"""The job of ``authorizerd verify`` on Spark: its report is that of one process."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from authorizerd.protocol.verification import Cause
from authorizerd.replay.verify.parts import Lines
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


def test_real_log_gives_one_report(real_log_dir: Path, capsys: Capture) -> None:
    words = ("--super-users", "User:admin", "--allow-everyone-if-no-acl-found", "false")
    log = real_log_dir / "kafka-authorizer.log.xz"
    assert check_engines(capsys, "--logs", log, "--log-dir", real_log_dir, *words) == {}


@pytest.mark.parametrize("fault", [Cause.CLOCK, Cause.SUPER_USERS])
def test_planted_faults_are_found_in_archives_and_copies(
    fault: Cause, tmp_path: Path, capsys: Capture
) -> None:
    log, logs = write_random_logs(random.Random(3), tmp_path, fault)
    text = (logs / "two.log").read_bytes()
    (logs / "copy.log").write_bytes(text[:3_000])
    first, rest = text[:9_000], text[9_000:]
    (logs / "two.log").write_bytes(rest)
    (logs / "two %41ü [1].gz").write_bytes(gzip.compress(first))
    (logs / "damaged.log.gz").write_bytes(gzip.compress(first[4_000:])[:-50])
    found = check_engines(capsys, "--logs", logs, "--log-dir", log, *SETTINGS, *BAD_LINES)
    assert fault in found


def make_batch(*rows: tuple[str, str, int, int | None]) -> pa.RecordBatch:
    names = ("line", "file", "block", "number")
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    return batch.set_column(0, "line", batch["line"].cast(pa.binary()))


def test_numbers_of_lines_continue_in_the_next_batch_and_those_of_records_are_offsets() -> None:
    from authorizerd.replay.verify.job import read_batches

    lines = [
        make_batch(("a", "file:/x%20y", 0, None), ("b", "file:/x%20y", 0, None)),
        make_batch(("c", "file:/x%20y", 0, None), ("d", "file:///x%20y", 9, None)),
        make_batch(("e", "s3a://b/x%20y", 9, None)),
    ]
    assert list(read_batches(lines)) == [
        Lines("/x y", 0, 0, [b"a", b"b"]),
        Lines("/x y", 0, 2, [b"c"]),
        Lines("/x y", 9, 0, [b"d"]),
        Lines("s3a://b/x%20y", 9, 0, [b"e"]),
    ]
    records = [
        make_batch(("a", "t/0@", 0, 0), ("b", "t/0@", 0, 1), ("c", "t/0@", 0, 5)),
        make_batch(("d", "t/0@", 0, 6), ("e", "t/1@", 0, 7)),
    ]
    assert list(read_batches(records)) == [
        Lines("t/0@", 0, -1, [b"a", b"b"]),
        Lines("t/0@", 0, 4, [b"c"]),
        Lines("t/0@", 0, 5, [b"d"]),
        Lines("t/1@", 0, 6, [b"e"]),
    ]
