"""The Spark session of a job, with the settings that results depend on.

**Invariant:** no result depends on a machine's time zone or on a cluster's defaults.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def session_builder(name: str) -> SparkSession.Builder:
    """Return a builder with the settings of every job; spark-submit sets master and memory."""
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder


def is_remote(spark: SparkSession) -> bool:
    """Return True for a session of Spark Connect, whose driver is another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
