"""Count the records of a batch in the table of a watch, and report all records so far.

The table ``follow`` in ``out`` is one of ingest without events. Its newest commit has the figures,
the distinct tuples and the next offset of each partition.

**Invariant:** each record is counted once. A commit counts one batch, with the next number. Spark
repeats its last batch after a crash, with the same records. A batch raises an error if it is
neither the counted one nor the next, or if its records do not fit its position in the stream.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import NO_ROWS, Commit
from authorizerd.replay.ingest.committing import create_commit, find_table, remove_unneeded
from authorizerd.replay.ingest.logs import merge_logs
from authorizerd.replay.ingest.report import Ingested, add_up, are_readable
from authorizerd.replay.ingest.rows import parse_lines
from authorizerd.replay.ingest.schemas import TUPLE
from authorizerd.replay.ingest.summary import BLANK, Group, RunSummary, summarize
from authorizerd.replay.ingest.sums import split_tuples, sum_tuples
from authorizerd.replay.ingest.table import Table, open_table
from authorizerd.replay.plans import FollowPlan
from authorizerd.replay.recorded.spark import SparkEngine
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.files import is_occupied, remove, write_text
from authorizerd.replay.spark.listing import escape_glob, local_path
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.spark.topics import explain
from authorizerd.replay.text import encode_json, format_count
from authorizerd.replay.whatif.evaluation import write_report

TUPLES_MAX: Final = 2_000_000
"""Maximum number of distinct requests in a watch; each report judges all of them."""

_NO_BATCH: Final = 1
"""The commit number of a new watch; the commit of batch 0 has the next number."""
_COMMITS_KEPT: Final = 2


def open_watch(spark: SparkSession, plan: FollowPlan) -> None:
    """Continue the watch in ``out``, or begin a new one.

    Raises:
        JobError: ``out`` contains other files, or a watch of another topic.
        OSError: a file cannot be read or written.
    """
    uri, topic = plan.whatif.events, plan.topic.name
    if plan.is_anew and is_occupied(spark, uri):
        _remove(spark, uri)
    storage, folder = open_storage(spark, uri), local_path(spark, uri)
    commit = find_table(storage, uri, overwrite=False)
    if not commit.number:
        if is_occupied(spark, plan.out) and not plan.is_anew:
            raise JobError(f"--out: {plan.out}: not empty; --overwrite replaces its results")
        for name in ("whatif", "ingest"):  # results of an earlier watch
            remove(spark, f"{plan.out}/{name}.json")
        nothing = _summarize(plan, []).ingested
        commit = replace(commit, number=_NO_BATCH, offsets={topic: {}}, ingested=nothing)
        create_commit(storage, uri, commit, folder)
    elif topic not in commit.offsets:
        raise JobError(
            f"--out: {plan.out}: this is a watch of the topic {', '.join(commit.offsets)}, not of "
            f"{topic}: use another --out, or --overwrite"
        )
    elif commit.number > _NO_BATCH:
        _write_reports(spark, plan)  # the ACLs may have changed


def take_batch(plan: FollowPlan, batch: DataFrame, number: int) -> None:
    """Count a batch, unless it was counted before, and write the reports.

    Spark calls this in a thread of its own; with Spark Connect, in a process of the server. So it
    keeps nothing in memory.

    Raises:
        JobError: the batch does not continue the watch, or there are too many distinct requests.
        OSError: a file cannot be read or written.
    """
    spark = batch.sparkSession
    table = open_table(spark, plan.whatif.events, option="--out")
    sums = _sum_records(batch, plan).persist()
    try:
        parts = _read_parts(sums)
        if is_next(table.commit, plan.topic.name, number, parts):
            _add(spark, plan, table, sums, parts)
        _write_reports(spark, plan)
    except SPARK_ERRORS as error:
        # Of other errors, the stream's error shows only the first line.
        raise JobError(explain(error)) from error
    finally:
        sums.unpersist()


def is_next(commit: Commit, topic: str, batch: int, parts: Sequence[Row]) -> bool:
    """Return True for the batch after ``commit``, and False for the batch that ``commit`` counts.

    Raises:
        JobError: it is neither.
    """
    next_offset = commit.offsets[topic].get
    place = batch + 1 + _NO_BATCH - commit.number
    is_new = all(part.first_offset >= next_offset(part.partition, 0) for part in parts)
    is_counted = all(part.last_offset < next_offset(part.partition, 0) for part in parts)
    if not (place == 1 and is_new) and not (place == 0 and is_counted):
        raise JobError(
            f"batch {batch} does not continue batch {batch - place}: the directory follow in --out "
            "was changed. Start over with another --out, or with --overwrite"
        )
    return place == 1


def read_figures(spark: SparkSession, plan: FollowPlan) -> Ingested:
    """Return the figures of all batches.

    Raises:
        JobError: they were removed during the watch.
    """
    ingested = open_table(spark, plan.whatif.events, option="--out").ingested
    return replace(ingested, accepted=are_readable(ingested, plan.ingest.bad_ratio_max))


def _write_reports(spark: SparkSession, plan: FollowPlan) -> None:
    """Write ``ingest.json``, ``changes`` and ``whatif.json``."""
    write_text(spark, f"{plan.out}/ingest.json", encode_json(read_figures(spark, plan)))
    write_report(plan.whatif, SparkEngine(spark, plan.whatif.events, plan.out))


def _remove(spark: SparkSession, uri: str) -> None:
    """Remove the table and the checkpoint of a watch."""
    folder = local_path(spark, uri)
    if folder is None:
        raise JobError(
            f"--overwrite: {uri}: only files of this machine can be replaced: remove the directory "
            "first"
        )
    # Rename first, so that a crash cannot leave part of a watch.
    removed = folder.with_name(f"{folder.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    shutil.rmtree(folder.rename(removed))


def _sum_records(batch: DataFrame, plan: FollowPlan) -> DataFrame:
    """Return the sums of records by tuple, answer, rule, level, reason and partition."""
    lines = batch.withColumnRenamed("value", "line")
    rows = parse_lines(lines, plan.ingest.layout)
    return rows.groupBy(*TUPLE, "allowed", "rule", "level", "reason", "partition").agg(
        sql.count(sql.lit(1)).alias("events"),
        sql.min("at").alias("first_at"),
        sql.max("at").alias("last_at"),
        sql.min("offset").alias("first_offset"),
        sql.max("offset").alias("last_offset"),
    )


def _read_parts(sums: DataFrame) -> list[Row]:
    """Return the figures of each partition, level and reason; the reason of an event is None."""
    reason = sql.when(sql.col("reason") == "", BLANK).otherwise(sql.col("reason"))
    parts = sums.groupBy("partition", "level", reason.alias("reason")).agg(
        sql.sum("events").alias("rows"),
        sql.sum(sql.when(sql.col("allowed"), sql.col("events")).otherwise(0)).alias("allowed"),
        sql.unix_millis(sql.min("first_at")).alias("first_ms"),
        sql.unix_millis(sql.max("last_at")).alias("last_ms"),
        sql.min("first_offset").alias("first_offset"),
        sql.max("last_offset").alias("last_offset"),
    )
    return parts.collect()


def _summarize(plan: FollowPlan, parts: Sequence[Row]) -> RunSummary:
    """Return the figures of a batch, and of each partition the time of its newest event."""
    groups = (
        Group(
            f"{plan.topic.uri}/{part.partition}", part.level, None, part.reason, part.rows, NO_ROWS,
            part.first_offset, part.last_offset, 0,
            allowed=part.allowed, first_ms=part.first_ms, last_ms=part.last_ms,
        )
        for part in parts
    )  # fmt: skip
    return summarize("", groups, plan.ingest.layout.time_zone, (plan.topic.uri,))


def _add(
    spark: SparkSession, plan: FollowPlan, table: Table, sums: DataFrame, parts: Sequence[Row]
) -> None:
    """Write the tuples of all batches, and commit them."""
    before, uri = table.commit, plan.whatif.events
    logs, batch = before.ingested.logs, _summarize(plan, parts)
    run = f"{before.number + 1:08d}-{secrets.token_hex(4)}"
    earlier = split_tuples(table.tuples())
    events = sums.where(sql.col("reason").isNull()).select(*earlier.columns)
    written = f"{uri}/tuples/run={run}"
    sum_tuples(events.unionByName(earlier)).write.parquet(written)
    tuples = spark.read.parquet(escape_glob(written)).count()
    if tuples > TUPLES_MAX:
        raise JobError(
            f"more than {format_count(TUPLES_MAX, 'distinct request')}: the watch ends, and its "
            "report is complete up to the last batch. Ingest the topic, and run whatif on the "
            "result"
        )
    commit = replace(
        before,
        number=before.number + 1,
        tuples_run=run,
        offsets={name: _advance(offsets, parts) for name, offsets in before.offsets.items()},
        ingested=replace(
            add_up([before.ingested, batch.ingested], tuples),
            logs=merge_logs(logs, logs, batch.newest),
        ),
    )
    storage = open_storage(spark, uri)
    create_commit(storage, uri, commit, local_path(spark, uri))
    remove_unneeded(storage, uri, commit, kept=_COMMITS_KEPT)


def _advance(offsets: Mapping[int, int], parts: Sequence[Row]) -> dict[int, int]:
    """Return the next offset of each partition after a batch."""
    after = dict(offsets)
    for part in parts:
        after[part.partition] = max(after.get(part.partition, 0), part.last_offset + 1)
    return after
