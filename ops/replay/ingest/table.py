"""Read an events table on Spark: its totals, its events, and its distinct tuples.

**Invariant:** readers see the live runs of the newest commit only, whatever else the directory
contains.
"""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import (
    UNVERSIONED_RUN,
    Commit,
    TableError,
    carry_forward,
    decode_commit,
    find_numbers,
    name_commit,
)
from authorizerd.replay.ingest.commit_files import read_newest
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import read_text
from authorizerd.replay.spark.paths import escape_glob, local_path

EVENTS_SCHEMA: Final = (
    "at timestamp, allowed boolean, principal string, host string, operation string, "
    "resource_type string, resource_name string, pattern_type string, request string, "
    "reference_count int, rule string, level string, file string, sequence long"
)
TUPLES_SCHEMA: Final = (
    "principal string, host string, operation string, resource_type string, resource_name string, "
    "pattern_type string, allowed_events long, allowed_first_at timestamp, "
    "allowed_last_at timestamp, allowed_rule string, denied_events long, "
    "denied_first_at timestamp, denied_last_at timestamp, denied_rule string"
)
_PARTITIONS: Final = "run string, day date"


class Table:
    """The content of a table, as of its newest commit when it was opened."""

    def __init__(self, spark: SparkSession, uri: str, commit: Commit) -> None:
        self._spark = spark
        self._uri = uri
        self.commit = commit

    @property
    def ingested(self) -> Ingested:
        """Return the totals of the table."""
        return self.commit.ingested

    def events(self) -> DataFrame:
        """Return all events: the columns of ``EVENTS_SCHEMA``, ``run`` and ``day``.

        ``ORDER BY at, run, sequence`` gives the recorded order.
        """
        base = f"{self._uri}/events"
        live = [run.id for run in self.commit.runs if run.ingested.events]
        reading = self._spark.read.option("basePath", base)
        folders = [escape_glob(f"{base}/run={run}") for run in live if run != UNVERSIONED_RUN]
        schema = f"{EVENTS_SCHEMA}, {_PARTITIONS}"
        frames = [reading.schema(schema).parquet(*folders)] if folders else []
        if UNVERSIONED_RUN in live:
            unversioned = reading.schema(f"{EVENTS_SCHEMA}, day date").parquet(
                f"{escape_glob(base)}/day=*"
            )
            frames.append(unversioned.withColumn("run", sql.lit(UNVERSIONED_RUN)))
        if not frames:
            return self._spark.createDataFrame([], schema)
        return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])

    def tuples(self) -> DataFrame:
        """Return each distinct tuple of the events once, with ``TUPLES_SCHEMA``."""
        if self.commit.tuples_glob is None:
            return self._spark.createDataFrame([], TUPLES_SCHEMA)
        files = f"{escape_glob(self._uri)}/{self.commit.tuples_glob}"
        return self._spark.read.schema(TUPLES_SCHEMA).parquet(files)


def open_table(spark: SparkSession, uri: str, *, option: str = "--events") -> Table:
    """Return the table at ``uri``, the directory given by ``option``.

    Raises:
        JobError: no ingest wrote it, an ingest of version 0 was not accepted, or its newest commit
            cannot be read.
    """
    folder = local_path(spark, uri)
    try:
        commit = _read_newest(spark, uri) if folder is None else read_newest(folder)
    except TableError as error:
        raise JobError(f"{option}: {error}") from error
    return Table(spark, uri, commit)


def _read_newest(spark: SparkSession, uri: str) -> Commit:
    place = f"{uri}/commits"
    try:
        numbers = _list_commits(spark, place)
        if numbers:
            place = f"{place}/{name_commit(numbers[0])}"
            return decode_commit(read_text(spark, place).encode())
        place = f"{uri}/ingest.json"
        return carry_forward(read_text(spark, place))
    except FileNotFoundError as error:
        raise TableError(f"{uri}: expected the output of ingest: {error}") from error
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, TableError) as error:
        raise TableError(f"{place}: {error}") from error


def _list_commits(spark: SparkSession, folder: str) -> list[int]:
    """Return the numbers of the commits, newest first."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = files.load(f"{escape_glob(folder)}/*.json").where("length > 0").select("path")
        paths = [row.path for row in found.collect()]
    except AnalysisException:  # nothing matches
        return []
    # A text that Spark writes is a directory of one file: NUMBER.json/part-….
    return find_numbers(name for path in paths for name in path.rsplit("/", 2)[1:])
