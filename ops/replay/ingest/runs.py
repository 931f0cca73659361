"""Write the runs of an events table on Spark, and read them back.

**Invariant:** a run's directories are its own: no other run writes into them, and nothing reads
them before a commit names the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.adding import TupleCount, Written
from authorizerd.replay.ingest.commit import NO_ROWS, Commit, Content, Input, Run
from authorizerd.replay.ingest.contents import First, add_digests
from authorizerd.replay.ingest.delta import DataFile
from authorizerd.replay.ingest.inputs import TABLE_FILE, collect, describe, sort_inputs
from authorizerd.replay.ingest.local_files import find_files, needs_hadoop
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.records import NewRecords, Offsets
from authorizerd.replay.ingest.rows import read_rows
from authorizerd.replay.ingest.schemas import ASIDE_SCHEMA, EVENT_COLUMNS
from authorizerd.replay.ingest.summary import BLANK, Group, group_of_level
from authorizerd.replay.ingest.sums import make_parts, split_tuples, sum_tuples
from authorizerd.replay.ingest.table import (
    Table,
    list_data_files,
    open_table,
    read_events,
    read_runs,
)
from authorizerd.replay.ingest.topics import find_records, read_new_rows
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.listing import escape_glob, list_files, local_path
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.spark.topics import RECORDS_DELETED, tells_of_loss
from authorizerd.replay.topics import Topic

_ASIDE: Final = ("line", "reason", "file", "sequence", "hash")
_EVENT: Final = (*EVENT_COLUMNS, "file", "sequence")
# Rules are long and numerous: with the default size, Parquet would abandon their dictionary.
_WRITING: Final = {"parquet.enable.dictionary#rule": "false"}
_BUCKET_BITS: Final = 16


class SparkRuns:
    """The runs in the directory of a table; see ``adding.Runs``."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._table = table
        self.storage = open_storage(spark, table)
        self.folder = local_path(spark, table)

    def check(self, commit: Commit) -> None:
        Table(self._spark, self._table, commit).check()

    def list_files(self, folder: str, /) -> list[DataFile]:
        return list_data_files(self._spark, folder)

    def find_inputs(self, inputs: Sequence[str]) -> tuple[Input, ...]:
        return find_inputs(self._spark, inputs)

    def find_records(self, topics: Sequence[Topic], recorded: Offsets) -> list[NewRecords]:
        return find_records(self._spark, topics, recorded)

    def write(
        self,
        run: str,
        salt: int,
        files: Sequence[Input],
        records: Sequence[NewRecords],
        layout: LineLayout,
    ) -> Written:
        parts = [read_new_rows(self._spark, new, layout, salt) for new in records]
        if files:
            parts.append(read_rows(self._spark, sort_inputs(files), layout, salt))
        try:
            self._write(run, reduce(DataFrame.unionByName, parts))
        except SPARK_ERRORS as error:
            if tells_of_loss(error):
                raise JobError(RECORDS_DELETED) from error
            raise
        return self._summarize(run, salt)

    def rewrite(self, old: str, new: str, cuts: Mapping[str, int], salt: int) -> Written:
        events = self._cut(read_events(self._spark, self._table, [old]), cuts)
        # Spark's own choice of the number of files: it merges small days, and splits large ones.
        self._write_events(events.select(*_EVENT, "day").hint("rebalance", "day"), new)
        self._write_set_aside(self._cut(self._read_set_aside(old), cuts), new)
        return self._summarize(new, salt)

    def read_first(self, content: Content, rows: int, salt: int) -> First:
        is_of_file = sql.col("file") == content.file
        events = read_events(self._spark, self._table, [content.run])
        lines = self._read_set_aside(content.run).where(sql.col("reason") != BLANK)
        bucket_of = sql.shiftright("sequence", _BUCKET_BITS).alias("bucket")
        no_head = sql.lit(None).cast(_HEAD_TYPE).alias("head")
        parts = (
            frame.where(is_of_file).select("sequence", "hash", head, bucket_of)
            for frame, head in ((events, _head()), (lines, no_head))
        )
        frame = reduce(DataFrame.unionByName, parts)
        # Add up whole buckets of consecutive rows, so that only the last bucket has to be sorted.
        digest, left, bucket = NO_ROWS, rows, 0
        for row in frame.groupBy("bucket").agg(*_sums()).orderBy("bucket").collect():
            bucket = row.bucket
            if row.rows >= left:
                break
            left -= row.rows
            digest = add_digests(digest, tuple(row.digest))
        of_bucket = frame.where(sql.col("bucket") == bucket).orderBy("sequence").limit(left)
        last_head = sql.max_by("head", "sequence").alias("last_head")
        (last,) = of_bucket.agg(*_sums(), last_head).collect()
        head = _hash_head(RowHashes(salt), last.last_head)
        return First(add_digests(digest, tuple(last.digest)), last.ends, head)

    def write_tuples(self, run: str, before: Commit) -> TupleCount:
        parts = make_parts(read_events(self._spark, self._table, [run]))
        earlier = split_tuples(Table(self._spark, self._table, before).tuples())
        return self._write_tuples(run, parts.unionByName(earlier))

    def write_kept(self, name: str, kept: Sequence[Run]) -> TupleCount:
        return self._write_tuples(name, make_parts(read_runs(self._spark, self._table, kept)))

    def group_kept(self, run: Run) -> list[Group]:
        figures = (
            sql.count(sql.lit(1)),
            sql.count_if("allowed"),
            sql.unix_millis(sql.min("at")),
            sql.unix_millis(sql.max("at")),
        )
        events = read_runs(self._spark, self._table, [run])
        return [group_of_level(*row) for row in events.groupBy("level").agg(*figures).collect()]

    def _write_tuples(self, run: str, parts: DataFrame) -> TupleCount:
        # Sorted, the files are smaller.
        merged = sum_tuples(parts).sortWithinPartitions("principal", "resource_name")
        merged.write.parquet(self._uri("tuples", run))
        events = sql.col("allowed_events") + sql.col("denied_events")
        figures = sql.count(sql.lit(1)), sql.coalesce(sql.sum(events), sql.lit(0))
        written = self._spark.read.parquet(escape_glob(self._uri("tuples", run)))
        ((number, summed),) = written.agg(*figures).collect()
        return TupleCount(number, summed)

    def _uri(self, part: str, run: str) -> str:
        return f"{self._table}/{part}/run={run}"

    def _write(self, run: str, rows: DataFrame) -> None:
        """Write ``rows`` in one pass: the events by day, and the other lines separately."""
        observation = Observation("unread")
        is_event = sql.col("reason").isNull()
        counted = rows.observe(observation, sql.count_if(~is_event).alias("lines"))
        # Some lines are set aside because they are not valid UTF-8, but a string column must be
        # valid.
        line = sql.make_valid_utf8("line").alias("line")
        day = sql.when(is_event, sql.col("day")).alias("day")
        self._write_events(counted.select(*_EVENT, line, "reason", day), run)
        lines = self._spark.createDataFrame([], ASIDE_SCHEMA)
        unread = f"{self._uri('events', run)}/day=__HIVE_DEFAULT_PARTITION__"
        if observation.get["lines"]:
            lines = self._spark.read.schema(ASIDE_SCHEMA).parquet(escape_glob(unread))
        reason = sql.when(sql.col("reason") == "", BLANK).otherwise(sql.col("reason"))
        self._write_set_aside(lines.withColumn("reason", reason), run)
        self.storage.remove(unread)

    def _write_events(self, events: DataFrame, run: str) -> None:
        events.write.options(**_WRITING).partitionBy("day").parquet(self._uri("events", run))

    def _write_set_aside(self, lines: DataFrame, run: str) -> None:
        file = lines.select(*_ASIDE).coalesce(1)
        file.write.options(**_WRITING).parquet(self._uri("set_aside", run))

    def _read_set_aside(self, run: str) -> DataFrame:
        uri = escape_glob(self._uri("set_aside", run))
        return self._spark.read.schema(ASIDE_SCHEMA).parquet(uri)

    def _cut(self, rows: DataFrame, cuts: Mapping[str, int]) -> DataFrame:
        ends = self._spark.createDataFrame(list(cuts.items()), "of_file string, ends long")
        joined = rows.join(sql.broadcast(ends), sql.col("file") == sql.col("of_file"), "left")
        return joined.where("of_file IS NULL OR sequence > ends")

    def _summarize(self, run: str, salt: int) -> Written:
        """Return what ``run`` contains; reads each column once."""
        events = read_events(self._spark, self._table, [run])
        of_events = [
            *_sums(),
            sql.count_if("allowed").alias("allowed"),
            sql.unix_millis(sql.min("at")).alias("first_ms"),
            sql.unix_millis(sql.max("at")).alias("last_ms"),
            sql.min_by(_head(), "sequence").alias("first_head"),
            sql.max_by(_head(), "sequence").alias("last_head"),
        ]
        groups = events.groupBy("file", "level", "day").agg(*of_events).collect()
        aside = self._read_set_aside(run).groupBy("file", "reason").agg(*_sums()).collect()
        hashes = RowHashes(salt)
        found = [_make_group(row, hashes) for row in (*groups, *aside)]
        return Written(found, len(events.inputFiles()))


_HEAD_COLUMNS: Final = ("allowed", "principal", "host", "operation")
_HEAD_TYPE: Final = (
    "struct<at: long, allowed: boolean, principal: string, host: string, operation: string>"
)


# Functions, because a task also imports this module, and has no session to make a column.
def _head() -> Column:
    return sql.struct(sql.unix_micros("at").alias("at"), *_HEAD_COLUMNS).alias("head")


def _sums() -> list[Column]:
    halves = (sql.col("hash").bitwiseAND(0xFFFFFFFF), sql.shiftrightunsigned("hash", 32))
    return [
        sql.count(sql.lit(1)).alias("rows"),
        # Sum the halves of the hashes, because their sums do not overflow.
        sql.array(*(sql.coalesce(sql.sum(half), sql.lit(0)) for half in halves)).alias("digest"),
        sql.min("sequence").alias("begins"),
        sql.max("sequence").alias("ends"),
        sql.max_by("hash", "sequence").alias("last"),
    ]


def _make_group(row: Row, hashes: RowHashes) -> Group:
    values = row.asDict() | {"digest": tuple(row.digest)}
    if "level" in values:
        values |= {"day": str(row.day), "reason": None}
        values["first"] = _hash_head(hashes, values.pop("first_head"))
        values["last_head"] = _hash_head(hashes, row.last_head)
    else:
        values |= {"day": None, "level": None}
    return Group(**values)


def _hash_head(hashes: RowHashes, head: Row | None) -> int | None:
    return None if head is None else hashes.of_head(*head)


def find_inputs(spark: SparkSession, inputs: Sequence[str]) -> tuple[Input, ...]:
    """Return the files that paths, directories, globs and URIs match, each once.

    Raises:
        JobError: an input matches no file, a file that cannot be read, or a table that has lost
            files.
    """
    return collect(inputs, lambda text: _keep_live(spark, list(_list(spark, text))))


def _list(spark: SparkSession, text: str) -> Iterator[Input]:
    """Yield the files that ``text`` names, and those below directories, except hidden ones."""
    path = local_path(spark, text)
    if path is not None and not needs_hadoop(str(path)):
        yield from map(describe, find_files(str(path)))
        return
    for file in list_files(spark, escape_glob(text)) or list_files(spark, text):
        yield Input(uri=file.path, bytes=file.length, modified_ms=file.modified_ms)


def _keep_live(spark: SparkSession, files: list[Input]) -> list[Input]:
    """Return the files; of a table's files, keep only the events of live runs."""
    found = (TABLE_FILE.fullmatch(file.uri) for file in files)
    for root in sorted({match[1] for match in found if match}):
        table = open_table(spark, root, option="--input")
        table.events()  # raises an error if some are missing
        first_days = {run.id: run.first_day for run in table.commit.runs}
        files = [file for file in files if _is_live(file.uri, root, first_days)]
    return files


def _is_live(uri: str, root: str, first_days: Mapping[str, str]) -> bool:
    """Return False for a file of the table at ``root``, unless it has events of a live run."""
    run, _, day = uri.removeprefix(f"{root}/events/run=").partition("/")
    is_below = uri.startswith(f"{root}/")
    return not is_below or (run in first_days and day >= f"day={first_days[run]}")
