"""Read an events table on Spark: its totals, its events, and its distinct tuples.

**Invariant:** readers see the live runs of the newest commit only, whatever else the directory
contains. A table that has lost files is rejected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import (
    UNVERSIONED_RUN,
    Commit,
    NoTableError,
    TableError,
    check_complete,
    find_numbers,
    read_newest_commit,
)
from authorizerd.replay.ingest.commit_files import list_commits, read_newest
from authorizerd.replay.ingest.report import Ingested, add_up
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import PATH_NOT_FOUND, read_text
from authorizerd.replay.spark.paths import escape_glob, local_path
from authorizerd.replay.text import format_time

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
_PARTS: Final = {"events", "set_aside", "tuples", "commits", "ingest.json"}
_PARTITIONS: Final = "run string, day date"


class Table:
    """The content of a table, as of its newest commit when it was opened.

    ``option`` is the one that names it in errors.
    """

    def __init__(
        self, spark: SparkSession, uri: str, commit: Commit, *, option: str = "--out"
    ) -> None:
        self._spark = spark
        self._uri = uri
        self._option = option
        self.commit = commit

    @property
    def ingested(self) -> Ingested:
        """Return the totals of the table."""
        return self.commit.ingested

    def events(self, since_ms: int | None = None) -> DataFrame:
        """Return all events: the columns of ``EVENTS_SCHEMA``, ``run`` and ``day``.

        ``ORDER BY at, run, sequence`` gives the recorded order. Blocks, to count the events.

        Args:
            since_ms: leave out runs that end on an earlier day.

        Raises:
            JobError: events of these runs are missing.
        """
        first_day = "" if since_ms is None else format_time(since_ms)[:10]
        live = [run for run in self.commit.runs if run.may_contain(first_day)]
        return self._read(
            lambda: read_events(self._spark, self._uri, [run.id for run in live]),
            "events",
            sum(run.ingested.events for run in live),
        )

    def tuples(self) -> DataFrame:
        """Return each distinct tuple of the events once, with ``TUPLES_SCHEMA``.

        The first call blocks, to count them.

        Raises:
            JobError: tuples are missing.
        """
        return self._tuples

    @cached_property
    def _tuples(self) -> DataFrame:
        if self.commit.tuples_glob is None:
            return self._spark.createDataFrame([], TUPLES_SCHEMA)
        files = f"{escape_glob(self._uri)}/{self.commit.tuples_glob}"
        reading = self._spark.read.schema(TUPLES_SCHEMA)
        return self._read(lambda: reading.parquet(files), "tuples", self.commit.ingested.tuples)

    def _read(self, read: Callable[[], DataFrame], part: str, expected: int) -> DataFrame:
        """Return the rows of a part of the table, if none is missing."""
        found: int | str = "no files of a run"
        try:
            frame = read()
            found = frame.count()  # without columns: it reads only the ends of the files
        except AnalysisException as error:
            if error.getCondition() != PATH_NOT_FOUND:
                raise
        try:
            check_complete(f"{self._uri}/{part}", part, expected=expected, found=found)
        except TableError as error:
            raise JobError(f"{self._option}: {error}") from error
        return frame


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
    return Table(spark, uri, commit, option=option)


def find_table(spark: SparkSession, uri: str, *, overwrite: bool) -> Table:
    """Return the table to which an ingest adds a run; it is empty if there is none yet.

    Args:
        overwrite: the table is to become empty: return only the number of its newest commit.

    Raises:
        JobError: the directory contains other files, or the newest commit cannot be read.
    """
    folder = local_path(spark, uri)
    nothing = Commit(number=0, salt=0, runs=(), tuples_run=None, ingested=add_up([], 0))
    try:
        if overwrite:
            numbers = _list_commits(spark, uri) if folder is None else list_commits(folder)
            return Table(spark, uri, replace(nothing, number=max(numbers, default=0)))
        commit = _read_newest(spark, uri) if folder is None else read_newest(folder)
    except NoTableError:
        others = sorted(set(os.listdir(folder)) - _PARTS) if folder and folder.exists() else []
        if others:
            raise JobError(
                f"--out: {uri}: expected a table or an empty directory, found {others[0]}; "
                "--overwrite ignores other files"
            ) from None
        commit = nothing
    except TableError as error:
        raise JobError(f"--out: {error}") from error
    return Table(spark, uri, commit)


def read_events(spark: SparkSession, uri: str, runs: Sequence[str]) -> DataFrame:
    """Return the events of ``runs`` in the table at ``uri``, as ``Table.events``."""
    base = f"{uri}/events"
    reading = spark.read.option("basePath", base)
    schema = f"{EVENTS_SCHEMA}, {_PARTITIONS}"
    folders = [escape_glob(f"{base}/run={run}") for run in runs if run != UNVERSIONED_RUN]
    frames = [reading.schema(schema).parquet(*folders)] if folders else []
    if UNVERSIONED_RUN in runs:
        unversioned = reading.schema(f"{EVENTS_SCHEMA}, day date").parquet(
            f"{escape_glob(base)}/day=*"
        )
        frames.append(unversioned.withColumn("run", sql.lit(UNVERSIONED_RUN)))
    if not frames:
        return spark.createDataFrame([], schema)
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _read_newest(spark: SparkSession, uri: str) -> Commit:
    numbers = _list_commits(spark, uri)
    read = read_commit_text if numbers else read_text
    return read_newest_commit(uri, numbers, lambda place: read(spark, place))


def read_commit_text(spark: SparkSession, place: str) -> str:
    """Return the text of a commit that Spark wrote: of several writers', the first one counts."""
    read_text(spark, place)  # raises FileNotFoundError, and limits the size
    texts = spark.read.text(escape_glob(place), wholetext=True)
    first = texts.orderBy("_metadata.file_modification_time", "_metadata.file_path").first()
    assert first is not None, "an empty text is like a missing one"
    return str(first[0])


def _list_commits(spark: SparkSession, table: str) -> list[int]:
    """Return the numbers of the commits, newest first."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = (
            files.load(f"{escape_glob(table)}/commits/*.json").where("length > 0").select("path")
        )
        paths = [row.path for row in found.collect()]
    except AnalysisException:  # nothing matches
        return []
    # A text that Spark writes is a directory of one file: NUMBER.json/part-….
    return find_numbers(name for path in paths for name in path.rsplit("/", 2)[1:])
