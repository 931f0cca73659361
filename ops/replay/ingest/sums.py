"""Sum up events by tuple (the request): in a task that reads them, and on Spark.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.parse.columns import Texts
from authorizerd.replay.ingest.schemas import SUMMED_BY, TUPLE

_FIGURES: Final = ("events", "first_at", "last_at", "rule")
_ROWS_A_BATCH: Final = 50_000
_MERGED: Final = 16
"""The number of batches whose sums are merged at once: this costs little, and bounds memory."""


class TextSums:
    """Sums up events by the numbers of their ``texts``, which is cheaper than by tuple."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self._parts: list[pyarrow.Table] = []

    def add(self, at: pyarrow.TimestampArray, numbers: pyarrow.Int64Array) -> None:
        """Add lines; ``at`` is null for lines without an event."""
        lines = pyarrow.table([numbers, at], ["number", "at"])
        events = lines if not at.null_count else lines.filter(at.is_valid())
        self._parts.append(_sum(events, ([], "count_all"), ("at", "min"), ("at", "max")))
        if len(self._parts) > _MERGED:
            self._parts = [self._merge()]

    def take(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the parts of the tuples (``SUMS_SCHEMA``) added so far."""
        if self._parts:
            sums = self._merge()
            values = self.texts.look_up(sums["number"].combine_chunks())
            texts = pyarrow.Table.from_batches([values]).select([*SUMMED_BY])
            for name in ("events", "first_at", "last_at"):
                texts = texts.append_column(name, sums[name])
            yield from texts.to_batches(_ROWS_A_BATCH)

    def _merge(self) -> pyarrow.Table:
        parts = pyarrow.concat_tables(self._parts)
        return _sum(parts, ("events", "sum"), ("first_at", "min"), ("last_at", "max"))


def _sum(rows: pyarrow.Table, *figures: tuple[str | list[str], str]) -> pyarrow.Table:
    sums = rows.group_by("number", use_threads=False).aggregate(list(figures))
    return sums.rename_columns(["number", "events", "first_at", "last_at"])


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
