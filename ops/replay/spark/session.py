"""The Spark session of a job, with the settings that results depend on.

**Invariant:** no result depends on a machine's time zone or on a cluster's defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import authorizerd
from authorizerd.replay.errors import JobError

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without this, a changed byte of a file could give other rows.
    "parquet.page.verify-checksum.enabled": "true",
    # With the default, a batch of lines with the maximum length would take gigabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Write the days concurrently: sorting by day would cost more than parsing.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
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


def send_code(spark: SparkSession) -> None:
    """Send the archive that contains this code to the executors of a session of Spark Connect.

    Raises:
        JobError: this code was not imported from an archive.
    """
    archive = Path(str(authorizerd.__file__)).parents[1]
    if not archive.is_file():
        raise JobError(
            f"{archive}: expected the zip of authorizerd replay package: with Spark Connect, "
            "put it first in PYTHONPATH"
        )
    spark.addArtifacts(str(archive), pyfile=True)


def is_local(spark: SparkSession) -> bool:
    """Return True if the driver and its workers are processes of this machine."""
    if is_remote(spark):
        return False
    master = str(spark.conf.get("spark.master"))
    # Executors of local-cluster[…] are processes with working directories of their own.
    return master == "local" or master.startswith("local[")
