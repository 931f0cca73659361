from __future__ import annotations

import gc
import random
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from authorizerd.replay.recorded.arrow import make_batch
from tests.ops.replay.recorded.sums import LABELS, Sums, find_all, sum_by_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_returns_the_same_rows_in_the_same_order(spark: SparkSession) -> None:
    from authorizerd.replay.recorded.spark import SparkRows

    drawn = random.Random(5)
    some = [
        Sums(
            drawn.randrange(-2, 3),
            drawn.choice(LABELS),
            drawn.random() < 0.5,
            *(drawn.randrange(-9, 9) for _ in range(4)),
        )
        for _ in range(500)
    ]
    table = pa.Table.from_batches([make_batch(some, Sums)])
    frame = spark.createDataFrame(table).repartition(4)
    on_spark = SparkRows(frame, Sums)
    assert list(on_spark.sum(find_all, Sums)) == sum_by_scan(some)
    # With times as timestamps, as files have them, and back.
    written = SparkRows(on_spark.map(find_all, Sums), Sums)
    assert list(written.sum(find_all, Sums)) == sum_by_scan(some)


def count_in_jvm(spark: SparkSession, name: str) -> int:
    """Return the number of reachable objects of a class in the driver's JVM."""
    gc.collect()  # Python's proxies keep their objects alive
    jvm: Any = spark._jvm
    jcmd = Path(jvm.System.getProperty("java.home"), "bin", "jcmd")
    if not jcmd.exists():
        pytest.skip("needs jcmd of a JDK")
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    histogram = subprocess.check_output([jcmd, pid, "GC.class_histogram"], text=True)
    found = re.search(rf"([0-9]+) +[0-9]+ +{re.escape(name)}\s", histogram)
    return 0 if found is None else int(found[1])


def test_jvm_keeps_no_jobs_of_earlier_sums(spark: SparkSession) -> None:
    from authorizerd.replay.recorded.spark import SparkRows

    table = pa.Table.from_batches([make_batch([Sums(1, "a", True, 1, 1, 1, 1)], Sums)])
    rows = SparkRows(spark.createDataFrame(table), Sums)
    jobs = "org.apache.spark.scheduler.JobWaiter"
    before = count_in_jvm(spark, jobs)
    for _ in range(8):
        assert list(rows.sum(find_all, Sums))
    # The JVM may still refer to the last jobs, but not to one for each sum.
    assert count_in_jvm(spark, jobs) < before + 8
