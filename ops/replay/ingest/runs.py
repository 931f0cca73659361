"""Write the runs of an events table, and read them back.

**Invariant:** a run's directories are its own: no other run writes into them, and nothing reads
them before a commit names the run.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import NO_ROWS, UNVERSIONED_RUN, Content, Digest
from authorizerd.replay.ingest.contents import add_digests
from authorizerd.replay.ingest.direct import Places, are_here, plan_tasks, write_run
from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.part_files import BLANK
from authorizerd.replay.ingest.report import Ingested, by_frequency
from authorizerd.replay.ingest.rows import EVENT_COLUMNS
from authorizerd.replay.ingest.table import EVENTS_SCHEMA, read_events
from authorizerd.replay.spark.files import is_occupied, list_files
from authorizerd.replay.spark.paths import escape_glob, local_path
from authorizerd.replay.spark.session import is_local
from authorizerd.replay.text import format_time

_ASIDE_SCHEMA: Final = "line string, reason string, file string, sequence long"
_ASIDE: Final = tuple(column.split()[0] for column in _ASIDE_SCHEMA.split(", "))
_EVENT: Final = tuple(column.split()[0] for column in EVENTS_SCHEMA.split(", "))
_NO_DAY: Final = "day=__HIVE_DEFAULT_PARTITION__"
# Rules are long and numerous: Parquet would abandon their dictionary half way.
_WRITING: Final = {"parquet.enable.dictionary#rule": "false"}
_BUCKET_BITS: Final = 16
_FILES_A_DAY_MAX: Final = 8
_ROWS_A_FILE_MIN: Final = 100_000


class RunSummary(NamedTuple):
    """What a run contains: its figures, without ``tuples``, its days, and each file's content."""

    ingested: Ingested
    days: tuple[str, ...]
    contents: tuple[Content, ...]


class Cut(NamedTuple):
    """The ``sequence`` of a file's last row to leave out, and that of its last such blank line."""

    row: int
    blank_line: int


class Runs:
    """The runs in the directory of a table; ``salt`` is the key of the hashes of rows."""

    def __init__(self, spark: SparkSession, table: str, salt: int) -> None:
        self._spark = spark
        self._table = table
        self._salt = salt
        self._ends: dict[tuple[str, str, int], int] = {}

    def write(self, run: str, rows: DataFrame) -> None:
        """Write ``rows`` in one pass: the events by day, and the other lines apart."""
        observation = Observation("unread")
        is_event = sql.col("reason").isNull()
        counted = rows.observe(observation, sql.count_if(~is_event).alias("lines"))
        # Some lines are set aside because they are not valid UTF-8, but a string column must be.
        line = sql.make_valid_utf8("line").alias("line")
        day = sql.when(is_event, sql.col("day")).alias("day")
        events = self._uri("events", run)
        self._write_events(counted.select(*_EVENT, line, "reason", day), events)
        if not observation.get["lines"]:
            self._write_set_aside(self._spark.createDataFrame([], _ASIDE_SCHEMA), run)
            return
        unread = f"{events}/{_NO_DAY}"
        lines = self._spark.read.schema(_ASIDE_SCHEMA).parquet(escape_glob(unread))
        reason = sql.when(sql.col("reason") == "", BLANK).otherwise(sql.col("reason"))
        self._write_set_aside(lines.withColumn("reason", reason), run)
        remove_directory(self._spark, unread)

    def write_directly(
        self, run: str, inputs: Inputs, line_format: LineFormat, time_zone: str
    ) -> DataFrame | None:
        """Return the parts of the run's tuples, which write the run when they are computed.

        Return None unless the tasks can read and write the files themselves.
        """
        folder = local_path(self._spark, self._table)
        if folder is None or not are_here(inputs) or not is_local(self._spark):
            return None
        places = Places(folder / "events" / f"run={run}", folder / "set_aside" / f"run={run}")
        tasks = plan_tasks(inputs, self._spark.sparkContext.defaultParallelism)
        return write_run(self._spark, tasks, places, line_format, time_zone)

    def is_scattered(self, run: str, summary: RunSummary) -> bool:
        """Return True if the events are in too many files for their number and days."""
        files = len(read_events(self._spark, self._table, [run]).inputFiles())
        expected = len(summary.days) * _FILES_A_DAY_MAX
        return files > expected + summary.ingested.events // _ROWS_A_FILE_MIN

    def rewrite(self, old: str, new: str, cuts: Mapping[str, Cut]) -> None:
        """Write the run ``old`` again as ``new``, clustered by day.

        Args:
            cuts: what to leave out of a file.
        """
        rows = {file: cut.row for file, cut in cuts.items()}
        blank = {file: cut.blank_line for file, cut in cuts.items()}
        events = self._cut(read_events(self._spark, self._table, [old]), rows)
        # Spark's own choice of the number of files: it merges small days, and splits large ones.
        clustered = events.select(*_EVENT, "day").hint("rebalance", "day")
        self._write_events(clustered, self._uri("events", new))
        lines, is_blank = self._read_set_aside(old), sql.col("reason") == BLANK
        blank_lines = self._cut(lines.where(is_blank), blank)
        kept = self._cut(lines.where(~is_blank), rows).select(*_ASIDE)
        self._write_set_aside(kept.unionByName(blank_lines.select(*_ASIDE)), new)

    def summarize(self, run: str, time_zone: str, inputs: tuple[str, ...]) -> RunSummary:
        """Return what ``run`` contains; read each column once."""
        events = read_events(self._spark, self._table, [run]).withColumns(self._hash_event())
        groups = (
            events.groupBy("file", "level", "day")
            .agg(
                *_sum_hashes(),
                sql.count_if("allowed").alias("allowed"),
                sql.unix_millis(sql.min("at")).alias("first_ms"),
                sql.unix_millis(sql.max("at")).alias("last_ms"),
                sql.min("sequence").alias("begins"),
                # Not its hash: the event may have been read while its line was being written.
                sql.min_by("head", "sequence").alias("first"),
            )
            .collect()
        )
        lines = self._read_set_aside(run).withColumns(self._hash_line())
        aside = lines.groupBy("file", "reason").agg(*_sum_hashes()).collect()
        return RunSummary(
            make_figures(groups, aside, time_zone, inputs),
            tuple(sorted({str(row.day) for row in groups})),
            tuple(_contents(run, groups, aside)),
        )

    def digest_first(self, content: Content, rows: int) -> Digest:
        """Return the digest of the first ``rows`` that the content's run has of it."""
        frame = self._hashed(content).withColumn("bucket", sql.shiftright("sequence", _BUCKET_BITS))
        digest, left, bucket = NO_ROWS, rows, 0
        for row in frame.groupBy("bucket").agg(*_sum_hashes()).orderBy("bucket").collect():
            bucket = row.bucket
            if row.rows >= left:
                break
            left -= row.rows
            digest = add_digests(digest, _digest_of([row]))
        of_bucket = (
            frame.where(sql.col("bucket").eqNullSafe(bucket)).orderBy("sequence").limit(left)
        )
        (last,) = of_bucket.agg(*_sum_hashes()).collect()
        self._ends[content.run, content.file, rows] = last.ends
        return add_digests(digest, _digest_of([last]))

    def end_of(self, content: Content, rows: int) -> int:
        """Return the ``sequence`` of the last row for which ``digest_first`` was called."""
        return self._ends[content.run, content.file, rows]

    def end_of_blank(self, content: Content, number: int) -> int:
        """Return the ``sequence`` of the blank line ``number``, or of the last one, or -1."""
        is_of_file = (sql.col("file") == content.file) & (sql.col("reason") == BLANK)
        lines = self._read_set_aside(content.run).where(is_of_file)
        first = lines.orderBy("sequence").limit(number)
        ((end,),) = first.agg(sql.max("sequence")).collect()
        return -1 if end is None else int(end)

    def discard(self, run: str) -> None:
        """Remove what was written for ``run``."""
        for part in ("events", "set_aside", "tuples"):
            remove_directory(self._spark, self._uri(part, run))

    def _uri(self, part: str, run: str) -> str:
        return f"{self._table}/{part}/run={run}"

    def _write_events(self, events: DataFrame, uri: str) -> None:
        events.write.options(**_WRITING).partitionBy("day").parquet(uri)

    def _write_set_aside(self, lines: DataFrame, run: str) -> None:
        lines.select(*_ASIDE).coalesce(1).write.options(**_WRITING).parquet(
            self._uri("set_aside", run)
        )

    def _read_set_aside(self, run: str) -> DataFrame:
        uri = f"{self._table}/set_aside" if run == UNVERSIONED_RUN else self._uri("set_aside", run)
        files = f"{escape_glob(uri)}/*.parquet"
        if list_files(self._spark, files).isEmpty():  # other programs wrote tables of version 0 too
            return self._spark.createDataFrame([], _ASIDE_SCHEMA)
        return self._spark.read.schema(_ASIDE_SCHEMA).parquet(files)

    def _cut(self, rows: DataFrame, cuts: Mapping[str, int]) -> DataFrame:
        if not cuts:
            return rows
        ends = self._spark.createDataFrame(list(cuts.items()), "of_file string, ends long")
        joined = rows.join(sql.broadcast(ends), sql.col("file") == sql.col("of_file"), "left")
        return joined.where("of_file IS NULL OR sequence > ends")

    def _hashed(self, content: Content) -> DataFrame:
        """Return ``sequence`` and ``hash`` of the rows that the content's run has of it."""
        is_of_file = sql.col("file") == content.file
        events = read_events(self._spark, self._table, [content.run]).where(is_of_file)
        lines = self._read_set_aside(content.run).where(is_of_file & (sql.col("reason") != BLANK))
        columns = ("sequence", "hash", "head")
        hashed = events.withColumns(self._hash_event()).select(*columns)
        return hashed.unionByName(lines.withColumns(self._hash_line()).select(*columns))

    def _hash_event(self) -> dict[str, Column]:
        salt = sql.lit(self._salt)
        head = ("at", "allowed", "principal", "host", "operation")
        return {"hash": sql.xxhash64(salt, *EVENT_COLUMNS), "head": sql.xxhash64(salt, *head)}

    def _hash_line(self) -> dict[str, Column]:
        salt = sql.lit(self._salt)
        return {"hash": sql.xxhash64(salt, "line", "reason"), "head": sql.lit(0).cast("long")}


def remove_directory(spark: SparkSession, uri: str) -> None:
    """Remove a directory of Parquet files; where only Spark can reach it, an empty one stays."""
    folder = local_path(spark, uri)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    elif is_occupied(spark, uri):
        nothing = spark.createDataFrame([], EVENTS_SCHEMA).coalesce(1)
        nothing.write.mode("overwrite").parquet(uri)


def _sum_hashes() -> list[Column]:
    digest = [
        sql.coalesce(sql.sum(half), sql.lit(0))
        for name in ("hash", "head")
        # The halves of the hashes, whose sums do not overflow.
        for half in (
            sql.col(name).bitwiseAND(0xFFFFFFFF),
            sql.shiftrightunsigned(name, 32),
        )
    ]
    return [
        sql.count(sql.lit(1)).alias("rows"),
        sql.array(*digest).alias("digest"),
        sql.max("sequence").alias("ends"),
        sql.max_by("hash", "sequence").alias("last"),
    ]


def _digest_of(rows: Iterable[Row]) -> Digest:
    """Return the sum of the digests that ``_sum_hashes`` has computed."""
    return reduce(add_digests, (tuple(row.digest) for row in rows), NO_ROWS)


def make_figures(
    groups: list[Row], aside: list[Row], time_zone: str, inputs: tuple[str, ...]
) -> Ingested:
    """Return the figures of a run, without ``tuples``."""
    levels, reasons = Counter[str](), Counter[str]()
    for row in groups:
        levels[row.level] += row.rows
    for row in aside:
        reasons[row.reason] += row.rows
    blank_lines = reasons.pop(BLANK, 0)
    events, allowed = levels.total(), sum(row.allowed for row in groups)
    return Ingested(
        accepted=True,
        lines=events + blank_lines + reasons.total(),
        blank_lines=blank_lines,
        events=events,
        set_aside=reasons.total(),
        reasons=by_frequency(reasons),
        allowed_events=allowed,
        denied_events=events - allowed,
        tuples=0,
        first_at=format_time(min(row.first_ms for row in groups)) if groups else None,
        last_at=format_time(max(row.last_ms for row in groups)) if groups else None,
        time_zone=time_zone,
        inputs=inputs,
        levels=by_frequency(levels),
    )


def _contents(run: str, groups: list[Row], aside: list[Row]) -> Iterator[Content]:
    """Yield the content of each file, in the order in which the run read them."""
    of_file: dict[str, tuple[list[Row], list[Row]]] = {}
    blank_lines = {row.file: row.rows for row in aside if row.reason == BLANK}
    aside = [row for row in aside if row.reason != BLANK]
    for place, rows in enumerate((groups, aside)):
        for row in rows:
            of_file.setdefault(row.file, ([], []))[place].append(row)
    for file, (events, lines) in of_file.items():
        rows = [*events, *lines]
        first = min(events, key=lambda row: row.begins, default=None)
        # Lines that a table of version 0 set aside have no sequence.
        last = max(rows, key=lambda row: -1 if row.ends is None else row.ends)
        yield Content(
            file=file,
            rows=sum(row.rows for row in rows),
            digest=_digest_of(rows),
            first=None if first is None else first.first,
            last=last.last,
            ends_unreadable=last in lines,
            run=run,
            blank_lines=blank_lines.get(file, 0),
        )
