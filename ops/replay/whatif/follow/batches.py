"""Count the new records of a watched topic, and report on all records so far.

The table ``follow`` in ``out`` is one of ingest without events. Its newest commit has the figures,
the distinct tuples and the next offset of each partition.

**Invariant:** each record is counted once: a commit has the offsets up to which it counts records,
and the next batch begins there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import NO_ROWS, Commit
from authorizerd.replay.ingest.committing import create_commit, find_table, remove_unneeded
from authorizerd.replay.ingest.logs import merge_logs
from authorizerd.replay.ingest.records import check_continues
from authorizerd.replay.ingest.report import Ingested, add_up, are_readable
from authorizerd.replay.ingest.rows import parse_lines
from authorizerd.replay.ingest.schemas import TUPLE
from authorizerd.replay.ingest.summary import BLANK, Group, RunSummary, summarize
from authorizerd.replay.ingest.sums import split_tuples, sum_tuples
from authorizerd.replay.ingest.table import Table, open_table
from authorizerd.replay.plans import FollowPlan
from authorizerd.replay.recorded.spark import SparkEngine
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.listing import escape_glob, local_path
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.spark.topics import explain, find_ends, read_records
from authorizerd.replay.text import encode_json, format_count
from authorizerd.replay.whatif.evaluation import write_report
from authorizerd.replay.whatif.report import WhatIf

TUPLES_MAX: Final = 2_000_000
"""Maximum number of distinct requests in a watch; each report judges all of them."""

_COMMITS_KEPT: Final = 2
_CHECKPOINT: Final = "checkpoint"
"""Where Spark kept the position of a watch of version 1.0."""


def open_watch(spark: SparkSession, plan: FollowPlan) -> None:
    """Begin a watch in ``out``, unless there is one that continues.

    Raises:
        JobError: ``out`` contains other files, or a watch of another topic, or the topic cannot be
            read.
        OSError: a file cannot be read or written.
    """
    uri, topic = plan.whatif.events, plan.topic
    storage = open_storage(spark, plan.out)
    commit = find_table(storage, uri, overwrite=plan.is_anew)
    if commit.number and not plan.is_anew:
        if storage.is_occupied(f"{uri}/{_CHECKPOINT}"):
            raise JobError(
                f"--out: {plan.out}: a watch of version 1.0, which has its position in another "
                "form: use another --out, or --overwrite"
            )
        if topic.name not in commit.offsets:
            raise JobError(
                f"--out: {plan.out}: this is a watch of the topic {', '.join(commit.offsets)}, not "
                f"of {topic.name}: use another --out, or --overwrite"
            )
        return
    if storage.is_occupied(plan.out) and not plan.is_anew:
        raise JobError(f"--out: {plan.out}: not empty; --overwrite replaces its results")
    begins = {} if plan.from_beginning else find_ends(spark, topic)
    nothing = _summarize(plan, []).ingested
    _commit(spark, uri, replace(commit, offsets={topic.name: begins}, ingested=nothing), kept=1)
    for place in (f"{plan.out}/whatif.json", f"{plan.out}/ingest.json", f"{uri}/{_CHECKPOINT}"):
        storage.remove(place)  # of an earlier watch


def count_records(spark: SparkSession, plan: FollowPlan) -> bool:
    """Count the records that the topic has more; return True if there are any. Blocks.

    Raises:
        JobError: the topic cannot be read or was recreated, Kafka deleted records before they were
            read, or there are too many distinct requests.
        OSError: a file cannot be read or written.
    """
    table, topic = open_table(spark, plan.whatif.events, option="--out"), plan.topic
    begins, ends = table.commit.offsets[topic.name], find_ends(spark, topic)
    check_continues(topic, begins, ends)
    if begins == ends:
        return False
    sums = _sum_records(read_records(spark, topic, begins, ends), plan).persist()
    try:
        _add(spark, plan, table, sums, ends)
    except SPARK_ERRORS as error:
        raise JobError(f"{topic.uri}: {explain(error)}") from error
    finally:
        sums.unpersist()
    return True


def write_reports(spark: SparkSession, plan: FollowPlan) -> WhatIf:
    """Write ``ingest.json``, ``changes`` and ``whatif.json``, and return the last."""
    text = encode_json(read_figures(spark, plan))
    open_storage(spark, plan.out).replace(f"{plan.out}/ingest.json", text.encode())
    return write_report(plan.whatif, SparkEngine(spark, plan.whatif.events, plan.out))


def read_figures(spark: SparkSession, plan: FollowPlan) -> Ingested:
    """Return the figures of all batches.

    Raises:
        JobError: they were removed during the watch.
    """
    ingested = open_table(spark, plan.whatif.events, option="--out").ingested
    return replace(ingested, accepted=are_readable(ingested, plan.ingest.bad_ratio_max))


def _sum_records(records: DataFrame, plan: FollowPlan) -> DataFrame:
    """Return the sums of records by tuple, answer, rule, level, reason and partition."""
    rows = parse_lines(records.withColumnRenamed("value", "line"), plan.ingest.layout)
    return rows.groupBy(*TUPLE, "allowed", "rule", "level", "reason", "partition").agg(
        sql.count(sql.lit(1)).alias("events"),
        sql.min("at").alias("first_at"),
        sql.max("at").alias("last_at"),
    )


def _read_parts(sums: DataFrame) -> list[Row]:
    """Return the figures of each partition, level and reason; the reason of an event is None."""
    reason = sql.when(sql.col("reason") == "", BLANK).otherwise(sql.col("reason"))
    parts = sums.groupBy("partition", "level", reason.alias("reason")).agg(
        sql.sum("events").alias("rows"),
        sql.sum(sql.when(sql.col("allowed"), sql.col("events")).otherwise(0)).alias("allowed"),
        sql.unix_millis(sql.min("first_at")).alias("first_ms"),
        sql.unix_millis(sql.max("last_at")).alias("last_ms"),
    )
    return parts.collect()


def _summarize(plan: FollowPlan, parts: Sequence[Row]) -> RunSummary:
    """Return the figures of a batch, and of each partition the time of its newest event."""
    groups = (
        Group(
            f"{plan.topic.uri}/{part.partition}", part.level, None, part.reason, part.rows, NO_ROWS,
            0, 0, 0, allowed=part.allowed, first_ms=part.first_ms, last_ms=part.last_ms,
        )
        for part in parts
    )  # fmt: skip
    return summarize("", groups, plan.ingest.layout.time_zone, (plan.topic.uri,))


def _add(
    spark: SparkSession, plan: FollowPlan, table: Table, sums: DataFrame, ends: dict[int, int]
) -> None:
    """Write the tuples of all batches, and commit them."""
    before, uri = table.commit, plan.whatif.events
    logs, batch = before.ingested.logs, _summarize(plan, _read_parts(sums))
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
    ingested = replace(
        add_up([before.ingested, batch.ingested], tuples), logs=merge_logs(logs, logs, batch.newest)
    )
    commit = replace(before, tuples_run=run, offsets={plan.topic.name: ends}, ingested=ingested)
    _commit(spark, uri, commit, kept=_COMMITS_KEPT)


def _commit(spark: SparkSession, uri: str, commit: Commit, *, kept: int) -> None:
    """Create the commit after ``commit``, with its content, and remove what is older."""
    storage, after = open_storage(spark, uri), replace(commit, number=commit.number + 1)
    create_commit(storage, uri, after, local_path(spark, uri))
    remove_unneeded(storage, uri, after, kept=kept)
