"""Sum up events by tuple (the request), on Spark.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.schemas import ANSWERS, PARTS, SUMMED_BY, TUPLE

_FIGURES: Final = ("events", "first_at", "last_at")


def make_parts(events: DataFrame) -> DataFrame:
    """Return each event as a part of its tuple (``PARTS``)."""
    times = (sql.col("at").alias(name) for name in ("first_at", "last_at"))
    return events.select(*SUMMED_BY, sql.lit(1).cast("long").alias("events"), *times)


def split_tuples(tuples: DataFrame) -> DataFrame:
    """Return the parts of tuples: one for the allowed events, and one for the denied events."""
    allowed, denied = (
        tuples.where(sql.col(f"{answer}_events") > 0)
        .withColumn("allowed", sql.lit(is_allowed))
        .withColumnsRenamed({f"{answer}_{name}": name for name in (*_FIGURES, "rule")})
        .select(*PARTS.names)
        for answer, is_allowed in ANSWERS.items()
    )
    return allowed.unionByName(denied)


def sum_tuples(parts: DataFrame) -> DataFrame:
    """Return each tuple once; parts have the columns of ``PARTS``.

    If several rules share the latest time, the greatest one is kept.
    """
    # Summed up by rule first: Spark sorts what it sums up by the greatest text, and few rows are
    # left by then.
    totals = (sql.sum("events"), sql.min("first_at"), sql.max("last_at"))
    named = (total.alias(name) for total, name in zip(totals, _FIGURES, strict=True))
    by_rule = parts.groupBy(*SUMMED_BY).agg(*named)
    figures = []
    for answer, is_allowed in ANSWERS.items():
        is_answer = sql.col("allowed") == is_allowed
        events, first_at, latest = (
            sql.when(is_answer, column)
            for column in (sql.col("events"), sql.col("first_at"), sql.struct("last_at", "rule"))
        )
        figures += [
            sql.coalesce(sql.sum(events), sql.lit(0)).alias(f"{answer}_events"),
            sql.min(first_at).alias(f"{answer}_first_at"),
            sql.max(latest)["last_at"].alias(f"{answer}_last_at"),
            sql.max(latest)["rule"].alias(f"{answer}_rule"),
        ]
    return by_rule.groupBy(*TUPLE).agg(*figures)
