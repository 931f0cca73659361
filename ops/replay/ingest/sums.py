"""Sum up events by tuple (the request), on Spark.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.schemas import SUMMED_BY, TUPLE

_FIGURES: Final = ("events", "first_at", "last_at", "rule")


def sum_by_rule(events: DataFrame) -> DataFrame:
    """Return the parts of the tuples of events (``SUMS_SCHEMA``)."""
    return events.groupBy(*SUMMED_BY).agg(
        sql.count(sql.lit(1)).alias("events"),
        sql.min("at").alias("first_at"),
        sql.max("at").alias("last_at"),
    )


def sum_tuples(parts: DataFrame) -> DataFrame:
    """Return each tuple once; parts have ``TUPLE``, ``allowed`` and the figures of their events."""
    allowed = sql.col("allowed")
    columns = (*_sum_answer("allowed", allowed), *_sum_answer("denied", ~allowed))
    return parts.groupBy(*TUPLE).agg(*columns)


def split_tuples(tuples: DataFrame) -> DataFrame:
    """Return the parts of tuples: one for the allowed events, and one for the denied events."""
    parts = (
        tuples.where(sql.col(f"{answer}_events") > 0).select(
            *TUPLE,
            sql.lit(answer == "allowed").alias("allowed"),
            *(sql.col(f"{answer}_{name}").alias(name) for name in _FIGURES),
        )
        for answer in ("allowed", "denied")
    )
    return next(parts).unionByName(next(parts))


def _sum_answer(answer: str, is_answer: Column) -> Iterator[Column]:
    """Yield the figures of one answer.

    If several rules share the latest time, the greatest one is kept.
    """
    last = sql.when(is_answer, sql.struct("last_at", "rule"))
    for name, value in (
        ("events", sql.coalesce(sql.sum(sql.when(is_answer, sql.col("events"))), sql.lit(0))),
        ("first_at", sql.min(sql.when(is_answer, sql.col("first_at")))),
        ("last_at", sql.max(sql.when(is_answer, sql.col("last_at")))),
        ("rule", sql.max_by("rule", last)),
    ):
        yield value.alias(f"{answer}_{name}")
