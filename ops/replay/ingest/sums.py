"""Sum up events by tuple (the request), on Spark.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.schemas import SUMMED_BY, TUPLE

_FIGURES: Final = ("events", "first_at", "last_at", "rule")
_RULES_SENT_MAX: Final = 500_000
"""Up to this number, every task gets the texts of all rules."""


def make_parts(events: DataFrame) -> DataFrame:
    """Return each event as a part of its tuple (``SUMS_SCHEMA``)."""
    times = (sql.col("at").alias(name) for name in ("first_at", "last_at"))
    return events.select(*SUMMED_BY, sql.lit(1).cast("long").alias("events"), *times)


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


def sum_tuples(parts: DataFrame) -> DataFrame:
    """Return each tuple once; parts have ``TUPLE``, ``allowed`` and the figures of their events.

    If several rules share the latest time, the greatest one is kept. Blocks, to number the rules.

    Each task sums up its parts, so that Spark shuffles few rows, and only once. For this, a figure
    must be a number: of the latest event, it is the time followed by the number of the rule.
    """
    span = sql.min("last_at").alias("begin"), sql.max("last_at").alias("end")
    in_order = parts.groupBy("rule").agg(*span).coalesce(1).sortWithinPartitions("rule")
    # Kept, since a text must have one number in all jobs.
    rules = in_order.withColumn("number", sql.monotonically_increasing_id()).localCheckpoint()
    micros = sql.unix_micros(sql.min("begin")), sql.unix_micros(sql.max("end"))
    ((count, begin, end),) = rules.agg(sql.count(sql.lit(1)), *micros).collect()
    count, begin, end = count or 1, begin or 0, end or 0
    rules = rules.select("number", "rule")
    if count <= _RULES_SENT_MAX:
        rules = sql.broadcast(rules)
    kind = "long" if (end - begin + 1) * count < 2**63 else "decimal(38,0)"
    time = (sql.unix_micros("last_at") - begin).cast(kind) * sql.lit(count).cast(kind)
    numbered = parts.join(rules.withColumnRenamed("rule", "of"), sql.expr("rule <=> of"))
    numbered = numbered.withColumn("latest", time + sql.col("number").cast(kind))
    answers = {"allowed": sql.col("allowed"), "denied": ~sql.col("allowed")}
    figures = {"events": sql.sum, "first_at": sql.min, "latest": sql.max}
    tuples = numbered.groupBy(*TUPLE).agg(
        *(
            total(sql.when(is_answer, sql.col(name))).alias(f"{answer}_{name}")
            for answer, is_answer in answers.items()
            for name, total in figures.items()
        )
    )
    for answer in answers:
        number = sql.expr(f"{answer}_latest % {count}").cast("long")
        named = rules.select(sql.col("number").alias("of"), sql.col("rule").alias(f"{answer}_rule"))
        tuples = tuples.join(named, number == sql.col("of"), "left").drop("of")
    return tuples.select(
        *TUPLE,
        *(
            figure.alias(f"{answer}_{name}")
            for answer in answers
            for name, figure in (
                ("events", sql.coalesce(f"{answer}_events", sql.lit(0))),
                ("first_at", sql.col(f"{answer}_first_at")),
                (
                    "last_at",
                    sql.timestamp_micros(sql.expr(f"{answer}_latest div {count} + {begin}")),
                ),
                ("rule", sql.col(f"{answer}_rule")),
            )
        ),
    )
