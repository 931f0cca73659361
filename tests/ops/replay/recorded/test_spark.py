from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa

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
    renamed = table.rename_columns([name.replace("_ms", "_at") for name in table.column_names])
    frame = spark.createDataFrame(
        renamed.set_column(
            5, "first_at", renamed["first_at"].cast(pa.timestamp("ms", "UTC"))
        ).set_column(6, "last_at", renamed["last_at"].cast(pa.timestamp("ms", "UTC")))
    ).repartition(4)
    on_spark = SparkRows(frame, Sums)
    assert list(on_spark.sum(find_all, Sums)) == sum_by_scan(some)
    # With times as timestamps, as files have them, and back.
    written = SparkRows(on_spark.map(find_all, Sums), Sums)
    assert list(written.sum(find_all, Sums)) == sum_by_scan(some)
