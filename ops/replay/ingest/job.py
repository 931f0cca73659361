"""The job of ``replay ingest``: read audit logs, and write Parquet that the other jobs read.

**Invariant:** every line is an event, blank, or set aside with its reason. If too many lines were
set aside, the result says so, and later jobs reject it. ``ingest.json`` is written last: a result
without it is incomplete.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from pyarrow import RecordBatch
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.inputs import check_apart, find_inputs
from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.report import Ingested, summary_line, why_not_accepted
from authorizerd.replay.ingest.rows import read_rows
from authorizerd.replay.ingest.table import EVENTS_SCHEMA
from authorizerd.replay.ingest.tuples import SUMS, TUPLE, sum_events
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import write_text
from authorizerd.replay.text import encode_json, format_time

_SETTINGS: Final = {
    # With the default, a batch of lines of maximum length would take gigabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Write the days concurrently: sorting by day would cost more than parsing.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
_WRITING: Final = {
    # Rules are long and numerous: Parquet would abandon their dictionary half way.
    "parquet.enable.dictionary#rule": "false",
    # Small files, because a task that sums up a file loads all of it into memory.
    "maxRecordsPerFile": "500000",
    # With "dynamic", which a cluster may set, days of an earlier ingest would remain.
    "partitionOverwriteMode": "static",
}


class _Read(msgspec.Struct, frozen=True):
    """The number of all lines, of blank lines, and of lines set aside."""

    lines: int = 0
    blank_lines: int = 0
    set_aside: int = 0


def run(spark: SparkSession, plan: IngestPlan) -> int:
    """Read the plan's inputs; write events, tuples, lines set aside, and the figures.

    Return 0, or 1 if the result is not accepted; standard error names the reason.

    Raises:
        JobError: an input does not exist, or cannot be read.
    """
    with _settings(spark):
        ingested = _ingest(spark, plan)
    print(summary_line(ingested))
    if Reason.BROKEN_ARCHIVE in ingested.reasons:
        print(f"an archive is damaged: see {plan.out}/set_aside", file=sys.stderr)
    if not ingested.accepted:
        reason = why_not_accepted(ingested, plan.bad_ratio_max)
        print(f"{reason}; see {plan.out}/set_aside", file=sys.stderr)
        return EXIT_FAULT
    return EXIT_DONE


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in _SETTINGS}
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.set(key, str(earlier))


def _ingest(spark: SparkSession, plan: IngestPlan) -> Ingested:
    try:
        find_zone(plan.time_zone)
    except ValueError as error:
        raise JobError(str(error)) from error
    inputs = find_inputs(spark, plan.inputs)
    check_apart(spark, inputs, plan.out)
    line_format = msgspec.convert(plan.format, LineFormat)
    read = _write_rows(read_rows(spark, inputs, line_format, plan.time_zone), plan.out)
    if read.lines == read.blank_lines + read.set_aside:
        _write_no_events(spark, plan.out)
    ingested = _figures(spark, plan, read)
    write_text(spark, f"{plan.out}/ingest.json", encode_json(ingested))
    return ingested


def _write_rows(rows: DataFrame, out: str) -> _Read:
    """Write the events in one pass, and the lines set aside, which are few, in another."""
    reason = sql.col("reason")
    observation = Observation("read")
    counted = rows.observe(
        observation,
        sql.count(sql.lit(1)).alias("lines"),
        sql.count_if(reason == "").alias("blank_lines"),
        sql.count_if(reason != "").alias("set_aside"),
    )
    columns = [column.split()[0] for column in EVENTS_SCHEMA.split(", ")]
    events = counted.where(reason.isNull()).select(*columns, "day")
    writer = events.write.mode("overwrite").options(**_WRITING).partitionBy("day")
    writer.parquet(f"{out}/events")
    read = msgspec.convert(observation.get, _Read)
    # If nothing was set aside, do not read the logs a second time.
    set_aside = rows.where(reason != "") if read.set_aside else rows.limit(0)
    # Some lines are set aside because they are not valid UTF-8, but a string column must be.
    line = sql.make_valid_utf8("line").alias("line")
    set_aside.select(line, "reason", "file").write.mode("overwrite").parquet(f"{out}/set_aside")
    return read


def _write_no_events(spark: SparkSession, out: str) -> None:
    """Write a file without rows: Spark cannot read a schema from an empty directory."""
    events = spark.createDataFrame([], EVENTS_SCHEMA).coalesce(1)
    events.write.mode("overwrite").parquet(f"{out}/events/day=1970-01-01")


def _figures(spark: SparkSession, plan: IngestPlan, read: _Read) -> Ingested:
    events = spark.read.parquet(f"{plan.out}/events")
    _tuples(spark, f"{plan.out}/events").write.mode("overwrite").parquet(f"{plan.out}/tuples")
    total = (
        spark.read.parquet(f"{plan.out}/tuples")
        .agg(
            sql.count(sql.lit(1)),
            sql.coalesce(sql.sum("allowed_events"), sql.lit(0)),
            sql.coalesce(sql.sum("denied_events"), sql.lit(0)),
            # least and greatest skip nulls: a tuple may have answers of one kind only.
            sql.unix_millis(sql.min(sql.least("allowed_first_at", "denied_first_at"))),
            sql.unix_millis(sql.max(sql.greatest("allowed_last_at", "denied_last_at"))),
        )
        .first()
    )
    assert total is not None  # an aggregate of no rows is one row
    tuple_count, allowed, denied, first_ms, last_ms = total
    set_aside = spark.read.parquet(f"{plan.out}/set_aside")
    return Ingested(
        # Multiply instead of dividing, because there may be no lines.
        accepted=read.set_aside <= plan.bad_ratio_max * read.lines,
        lines=read.lines,
        blank_lines=read.blank_lines,
        events=allowed + denied,
        set_aside=read.set_aside,
        reasons=_counts(set_aside, "reason") if read.set_aside else {},
        allowed_events=allowed,
        denied_events=denied,
        tuples=tuple_count,
        first_at=None if first_ms is None else format_time(first_ms),
        last_at=None if last_ms is None else format_time(last_ms),
        time_zone=plan.time_zone,
        inputs=plan.inputs,
        levels=_counts(events, "level"),
    )


def _tuples(spark: SparkSession, events: str) -> DataFrame:
    """Return each tuple with the figures of its allowed events, and of its denied ones."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(events)
    parts = files.select("content").mapInArrow(_sum_files, SUMS)
    allowed = sql.col("allowed")
    return (
        parts.repartition(*TUPLE)
        .groupBy(*TUPLE)
        .agg(*_verdict_figures("allowed", allowed), *_verdict_figures("denied", ~allowed))
    )


def _sum_files(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        for content in batch["content"]:
            for sums in sum_events(content.as_buffer()):
                yield from sums.to_batches()


def _verdict_figures(verdict: str, is_verdict: Column) -> Iterator[Column]:
    """Yield the columns of ``verdict``.

    If several rules were used last at the same time, the greatest one is kept.
    """
    last = sql.when(is_verdict, sql.struct("last_at", "rule"))
    for name, value in (
        ("events", sql.coalesce(sql.sum(sql.when(is_verdict, sql.col("events"))), sql.lit(0))),
        ("first_at", sql.min(sql.when(is_verdict, sql.col("first_at")))),
        ("last_at", sql.max(sql.when(is_verdict, sql.col("last_at")))),
        ("rule", sql.max_by("rule", last)),
    ):
        yield value.alias(f"{verdict}_{name}")


def _counts(rows: DataFrame, column: str) -> dict[str, int]:
    """Return the number of rows with each value, most frequent first."""
    counted = rows.groupBy(column).agg(sql.count(sql.lit(1)).alias("n"))
    return {row[0]: row[1] for row in counted.orderBy(sql.desc("n"), column).collect()}
