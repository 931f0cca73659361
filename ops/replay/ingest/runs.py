"""Write the runs of an events table, and read them back.

**Invariant:** a run's directories are its own: no other run writes into them, and nothing reads
them before a commit names the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.replay.ingest.commit import NO_ROWS, PARTS, Content, Digest
from authorizerd.replay.ingest.contents import First, add_digests
from authorizerd.replay.ingest.direct import Places, are_here, plan_tasks, write_run
from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.parse.columns import BLANK
from authorizerd.replay.ingest.report import Ingested, count_lines
from authorizerd.replay.ingest.schemas import EVENT_COLUMNS
from authorizerd.replay.ingest.table import read_events
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.spark.files import remove
from authorizerd.replay.spark.listing import escape_glob, local_path
from authorizerd.replay.spark.session import is_local

_ASIDE_SCHEMA: Final = "line string, reason string, file string, sequence long"
_ASIDE: Final = ("line", "reason", "file", "sequence")
_EVENT: Final = (*EVENT_COLUMNS, "file", "sequence")
# Rules are long and numerous: with the default size, Parquet would abandon their dictionary.
_WRITING: Final = {"parquet.enable.dictionary#rule": "false"}
_BUCKET_BITS: Final = 16
_FILES_A_DAY_MAX: Final = 8
_ROWS_A_FILE_MIN: Final = 100_000


class RunSummary(NamedTuple):
    """A run's figures (without ``tuples``), its days, and the content of each of its files."""

    run: str
    ingested: Ingested
    days: tuple[str, ...]
    contents: tuple[Content, ...]


class Runs:
    """The runs in the directory of a table; ``salt`` is the key of the hashes of rows."""

    def __init__(self, spark: SparkSession, table: str, salt: int) -> None:
        self._spark = spark
        self._table = table
        head = ("at", "allowed", "principal", "host", "operation")
        self._hash_event = {
            "hash": sql.xxhash64(sql.lit(salt), *EVENT_COLUMNS),
            "head": sql.xxhash64(sql.lit(salt), *head),
        }
        self._hash_line = {
            "hash": sql.xxhash64(sql.lit(salt), "line", "reason"),
            "head": sql.lit(0).cast("long"),
        }

    def write(self, run: str, rows: DataFrame) -> None:
        """Write ``rows`` in one pass: the events by day, and the other lines separately."""
        observation = Observation("unread")
        is_event = sql.col("reason").isNull()
        counted = rows.observe(observation, sql.count_if(~is_event).alias("lines"))
        # Some lines are set aside because they are not valid UTF-8, but a string column must be
        # valid.
        line = sql.make_valid_utf8("line").alias("line")
        day = sql.when(is_event, sql.col("day")).alias("day")
        self._write_events(counted.select(*_EVENT, line, "reason", day), run)
        lines = self._spark.createDataFrame([], _ASIDE_SCHEMA)
        unread = f"{self._uri('events', run)}/day=__HIVE_DEFAULT_PARTITION__"
        if observation.get["lines"]:
            lines = self._spark.read.schema(_ASIDE_SCHEMA).parquet(escape_glob(unread))
        reason = sql.when(sql.col("reason") == "", BLANK).otherwise(sql.col("reason"))
        self._write_set_aside(lines.withColumn("reason", reason), run)
        remove(self._spark, unread)

    def write_directly(self, run: str, inputs: Inputs, layout: LineLayout) -> DataFrame | None:
        """Return the parts of the run's tuples; computing them writes the run.

        Return None if the tasks cannot read and write the files themselves.
        """
        folder = local_path(self._spark, self._table)
        if folder is None or not are_here(inputs) or not is_local(self._spark):
            return None
        places = Places(folder / "events" / f"run={run}", folder / "set_aside" / f"run={run}")
        tasks = plan_tasks(inputs, self._spark.sparkContext.defaultParallelism)
        return write_run(self._spark, tasks, places, layout).persist()

    def is_scattered(self, summary: RunSummary) -> bool:
        """Return True if the run has too many files for its number of events and days."""
        files = len(read_events(self._spark, self._table, [summary.run]).inputFiles())
        expected = len(summary.days) * _FILES_A_DAY_MAX
        return files > expected + summary.ingested.events // _ROWS_A_FILE_MIN

    def rewrite(self, old: str, new: str, cuts: Mapping[str, int]) -> None:
        """Replace the run ``old`` with ``new``, clustered by day.

        Args:
            cuts: the ``sequence`` of the last row of a file to leave out.
        """
        events = self._cut(read_events(self._spark, self._table, [old]), cuts)
        # Spark's own choice of the number of files: it merges small days, and splits large ones.
        self._write_events(events.select(*_EVENT, "day").hint("rebalance", "day"), new)
        self._write_set_aside(self._cut(self._read_set_aside(old), cuts), new)
        self.discard(old)

    def summarize(self, run: str, time_zone: str, inputs: tuple[str, ...]) -> RunSummary:
        """Return what ``run`` contains; read each column once."""
        events = read_events(self._spark, self._table, [run]).withColumns(self._hash_event)
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
        lines = self._read_set_aside(run).withColumns(self._hash_line)
        aside = lines.groupBy("file", "reason").agg(*_sum_hashes()).collect()
        return RunSummary(
            run,
            make_figures(groups, aside, time_zone, inputs),
            tuple(sorted({str(row.day) for row in groups})),
            tuple(_contents(run, groups, [row for row in aside if row.reason != BLANK])),
        )

    def read_first(self, content: Content, rows: int) -> First:
        """Return the given number of leading rows of a content, from its run."""
        is_of_file = sql.col("file") == content.file
        events = read_events(self._spark, self._table, [content.run]).withColumns(self._hash_event)
        lines = self._read_set_aside(content.run).where(sql.col("reason") != BLANK)
        bucket_of = sql.shiftright("sequence", _BUCKET_BITS).alias("bucket")
        parts = (
            frame.where(is_of_file).select("sequence", "hash", "head", bucket_of)
            for frame in (events, lines.withColumns(self._hash_line))
        )
        frame = reduce(DataFrame.unionByName, parts)
        # Add up whole buckets of consecutive rows, so that only the last bucket has to be sorted.
        digest, left, bucket = NO_ROWS, rows, 0
        for row in frame.groupBy("bucket").agg(*_sum_hashes()).orderBy("bucket").collect():
            bucket = row.bucket
            if row.rows >= left:
                break
            left -= row.rows
            digest = add_digests(digest, _digest_of([row]))
        of_bucket = frame.where(sql.col("bucket") == bucket).orderBy("sequence").limit(left)
        (last,) = of_bucket.agg(*_sum_hashes()).collect()
        return First(add_digests(digest, _digest_of([last])), last.ends)

    def discard(self, run: str) -> None:
        """Remove everything that was written for ``run``."""
        for part in PARTS:
            remove(self._spark, self._uri(part, run))

    def _uri(self, part: str, run: str) -> str:
        return f"{self._table}/{part}/run={run}"

    def _write_events(self, events: DataFrame, run: str) -> None:
        events.write.options(**_WRITING).partitionBy("day").parquet(self._uri("events", run))

    def _write_set_aside(self, lines: DataFrame, run: str) -> None:
        file = lines.select(*_ASIDE).coalesce(1)
        file.write.options(**_WRITING).parquet(self._uri("set_aside", run))

    def _read_set_aside(self, run: str) -> DataFrame:
        uri = escape_glob(self._uri("set_aside", run))
        return self._spark.read.schema(_ASIDE_SCHEMA).parquet(uri)

    def _cut(self, rows: DataFrame, cuts: Mapping[str, int]) -> DataFrame:
        ends = self._spark.createDataFrame(list(cuts.items()), "of_file string, ends long")
        joined = rows.join(sql.broadcast(ends), sql.col("file") == sql.col("of_file"), "left")
        return joined.where("of_file IS NULL OR sequence > ends")


def _sum_hashes() -> list[Column]:
    digest = [
        sql.coalesce(sql.sum(half), sql.lit(0))
        for name in ("hash", "head")
        # Sum the halves of the hashes, because their sums do not overflow.
        for half in (sql.col(name).bitwiseAND(0xFFFFFFFF), sql.shiftrightunsigned(name, 32))
    ]
    return [
        sql.count(sql.lit(1)).alias("rows"),
        sql.array(*digest).alias("digest"),
        sql.max("sequence").alias("ends"),
        sql.max_by("hash", "sequence").alias("last"),
    ]


def _digest_of(rows: Iterable[Row]) -> Digest:
    """Return the sum of the digests that ``_sum_hashes`` computed."""
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
    damaged = (row.file for row in aside if row.reason == Reason.BROKEN_ARCHIVE)
    return count_lines(
        levels=levels,
        blank_lines=reasons.pop(BLANK, 0),
        reasons=reasons,
        allowed=sum(row.allowed for row in groups),
        first_ms=min((row.first_ms for row in groups), default=None),
        last_ms=max((row.last_ms for row in groups), default=None),
        time_zone=time_zone,
        inputs=inputs,
        damaged=tuple(sorted(damaged)),
    )


def _contents(run: str, groups: list[Row], aside: list[Row]) -> Iterator[Content]:
    """Yield the content of each file, in the order in which the run read them."""
    of_file: dict[str, list[Row]] = {}
    for row in (*groups, *aside):
        of_file.setdefault(row.file, []).append(row)
    for file, rows in of_file.items():
        events = [row for row in rows if "level" in row]
        first = min(events, key=lambda row: row.begins, default=None)
        last = max(rows, key=lambda row: row.ends)
        yield Content(
            file=file,
            rows=sum(row.rows for row in rows),
            digest=_digest_of(rows),
            first=None if first is None else first.first,
            last=last.last,
            ends_unreadable="reason" in last,
            run=run,
        )
