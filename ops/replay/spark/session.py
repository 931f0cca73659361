"""The Spark session of a job, and the settings that results depend on.

**Invariant:** no result depends on a machine's time zone, and a cluster's defaults do not change
these.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def session_builder(name: str) -> SparkSession.Builder:
    """Return a builder with the settings of every job; master and memory are spark-submit's."""
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder
