"""Write the runs of an events table on Spark, and read them back.

**Invariant:** a run's directories are its own: no other run writes into them, and nothing reads
them before a commit names the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.adding import TupleCount, Written
from authorizerd.replay.ingest.commit import NO_ROWS, Commit, Content, Input, Run
from authorizerd.replay.ingest.contents import First, add_digests
from authorizerd.replay.ingest.delta import DataFile
from authorizerd.replay.ingest.grouping import (
    HEAD,
    OF_ASIDE,
    OF_EVENTS,
    digest_rows,
    group_rows,
    hash_head,
)
from authorizerd.replay.ingest.inputs import (
    TABLE_FILE,
    collect,
    describe,
    find_files,
    needs_hadoop,
    sort_inputs,
)
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.records import NewRecords, Offsets
from authorizerd.replay.ingest.rows import read_rows
from authorizerd.replay.ingest.schemas import ASIDE, ASIDE_SCHEMA, EVENTS, TUPLES_SCHEMA
from authorizerd.replay.ingest.summary import BLANK, Group, group_of_level, merge_groups
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
        self._write_events(events.select(*EVENTS.names, "day").hint("rebalance", "day"), new)
        self._write_set_aside(self._cut(self._read_set_aside(old), cuts), new)
        return self._summarize(new, salt)

    def read_first(self, content: Content, rows: int, salt: int) -> First:
        events = read_events(self._spark, self._table, [content.run])
        lines = self._read_set_aside(content.run).where(sql.col("reason") != BLANK)
        bucket_of = sql.shiftright("sequence", _BUCKET_BITS).alias("bucket")
        columns = "file", "sequence", "hash", bucket_of
        frame = events.select(*columns, *HEAD)
        frame = frame.unionByName(lines.select(*columns), allowMissingColumns=True)
        frame = frame.where(sql.col("file") == content.file)
        # Add up whole buckets of consecutive rows, so that only the last bucket has to be fetched.
        halves = sql.col("hash").bitwiseAND(0xFFFFFFFF), sql.shiftrightunsigned("hash", 32)
        sums = frame.groupBy("bucket").agg(sql.count(sql.lit(1)), *map(sql.sum, halves))
        digest, left, last = NO_ROWS, rows, 0
        for bucket, number, low, high in sums.orderBy("bucket").collect():
            last = bucket
            if number >= left:
                break
            left -= number
            digest = add_digests(digest, (low, high))
        of_last = frame.where(sql.col("bucket") == last).toArrow().sort_by("sequence")
        first = of_last.slice(0, left)
        is_event = first["at"][-1].is_valid
        head = hash_head(RowHashes(salt), first, len(first) - 1) if is_event else None
        return First(add_digests(digest, digest_rows(first)), first["sequence"][-1].as_py(), head)

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
        reading = self._spark.read.schema(TUPLES_SCHEMA)  # else one more job finds it
        written = reading.parquet(escape_glob(self._uri("tuples", run)))
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
        self._write_events(counted.select(*EVENTS.names, line, "reason", day), run)
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
        file = lines.select(*ASIDE.names).coalesce(1)
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
        parts = (events.select(*OF_EVENTS), self._read_set_aside(run).select(*OF_ASIDE))
        work = partial(_group, salt=salt)
        grouped = (part.mapInArrow(work, "groups binary") for part in parts)
        found = reduce(DataFrame.unionByName, grouped).collect()
        groups = (msgspec.msgpack.decode(row.groups, type=list[Group]) for row in found)
        return Written(list(chain.from_iterable(groups)), len(events.inputFiles()))


def _group(batches: Iterator[pa.RecordBatch], salt: int) -> Iterator[pa.RecordBatch]:
    """Yield the groups of all rows of a task, encoded."""
    hashes = RowHashes(salt)
    grouped = (group_rows(rows.sort_by("sequence"), hashes) for rows in batches)
    groups = merge_groups(chain.from_iterable(grouped))
    yield pa.RecordBatch.from_pydict({"groups": [msgspec.msgpack.encode(groups)]})


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
