"""Read an events table on Spark: its totals, its events, and its distinct tuples.

**Invariant:** readers see the live runs of the newest commit only, whatever else the directory
contains. A table that has lost files is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import (
    Commit,
    Run,
    TableError,
    check_complete,
    read_newest_commit,
)
from authorizerd.replay.ingest.delta import DataFile
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.ingest.schemas import EVENTS_SCHEMA, TUPLES_SCHEMA
from authorizerd.replay.spark.listing import PATH_NOT_FOUND, escape_glob
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.text import format_time


class Table:
    """The content of a table, as of its newest commit when it was opened.

    ``option`` is the command-line option that errors mention.
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
            lambda: read_runs(self._spark, self._uri, live),
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
        run = self.commit.tuples_run
        if run is None:
            return self._spark.createDataFrame([], TUPLES_SCHEMA)
        # The directory, not a glob of its files: Spark would log that no file has the glob's name.
        place = escape_glob(f"{self._uri}/tuples/run={run}")
        reading = self._spark.read.schema(TUPLES_SCHEMA)
        return self._read(lambda: reading.parquet(place), "tuples", self.commit.ingested.tuples)

    def check(self) -> None:
        """Check that no file of a live run is missing. Blocks.

        Raises:
            JobError: events or tuples are missing.
        """
        if self.commit.runs:
            self.events()
            self.tuples()

    def _read(self, read: Callable[[], DataFrame], part: str, expected: int) -> DataFrame:
        """Return the rows of a part of the table, if none is missing."""
        found: int | str = "no files of a run"
        try:
            frame = read()
            found = frame.count()  # without columns, this reads only the footers of the files
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
        JobError: no ingest wrote it, or its newest commit cannot be read.
    """
    try:
        commit = read_newest_commit(open_storage(spark, uri), uri)
    except TableError as error:
        raise JobError(f"{option}: {error}") from error
    return Table(spark, uri, commit, option=option)


def read_runs(spark: SparkSession, uri: str, runs: Sequence[Run]) -> DataFrame:
    """Return the events of live runs that have not expired, as ``Table.events``."""
    events = read_events(spark, uri, [run.id for run in runs])
    for run in runs:
        if run.first_day:
            is_kept = sql.col("day") >= sql.lit(run.first_day).cast("date")
            events = events.where((sql.col("run") != run.id) | is_kept)
    return events


def read_events(spark: SparkSession, uri: str, runs: Sequence[str]) -> DataFrame:
    """Return the events of ``runs`` in the table at ``uri``, as ``Table.events``."""
    schema = f"{EVENTS_SCHEMA}, run string, day date"
    if not runs:
        return spark.createDataFrame([], schema)
    reading = spark.read.option("basePath", f"{uri}/events").schema(schema)
    return reading.parquet(*(escape_glob(f"{uri}/events/run={run}") for run in runs))


def list_data_files(spark: SparkSession, folder: str) -> list[DataFile]:
    """List the Parquet files that have rows, in a directory of a run; reads only their footers."""
    about = ("_metadata.file_path", "_metadata.file_size")
    modified_ms = sql.unix_millis("_metadata.file_modification_time")
    rows = spark.read.schema(TUPLES_SCHEMA).parquet(escape_glob(folder))  # no column is read
    files = rows.groupBy(*about, modified_ms).count()
    return [DataFile._make(file) for file in files.collect()]
