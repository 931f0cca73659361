"""The job of ``replay whatif``: what other ACLs would have decided of the recorded tuples.

Law: every tuple is judged, or counted as not evaluated with the reason. ``whatif.json`` is written
last, once ``changes`` holds all that it sums up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from acl.model import WILDCARD_PRINCIPAL
from ops.replay.acl_set import AclSet
from ops.replay.evaluation.changes import CHANGES_SCHEMA, NEWLY_ALLOWED, NEWLY_DENIED, changes
from ops.replay.evaluation.index import AclIndex, index_of, key_of, pack
from ops.replay.evaluation.questions import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
    Unasked,
)
from ops.replay.evaluation.report import (
    LISTED_MAX,
    NOTHING_CHANGED,
    Changed,
    Count,
    Detail,
    JudgedBy,
    OperationCount,
    PrincipalCount,
    RecordedBaseline,
    ResourceCount,
    WhatIf,
    encode_report,
    summary_lines,
)
from ops.replay.jobs.arrow_map import map_in_arrow
from ops.replay.jobs.files import write_text
from ops.replay.jobs.ingested_events import read_accepted
from ops.replay.messages import EXIT_DENIED, EXIT_DONE
from ops.replay.plans import WhatIfPlan

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    Batches = Iterator[RecordBatch]

T = TypeVar("T")

_SPARK_SCHEMA: Final = from_arrow_schema(CHANGES_SCHEMA)
_FIGURES: Final = ("allowed_events", "denied_events", "first_at", "last_at")
_BY_PRINCIPAL: Final = ("principal",)
_BY_RESOURCE: Final = ("resource_type", "resource_name")
_BY_OPERATION: Final = ("operation",)
_TIME_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def run(spark: SparkSession, plan: WhatIfPlan) -> int:
    """Write ``whatif.json`` and ``changes``; return 3 where anything is newly denied, else 0.

    Raises:
        JobError: ``events`` is not what an ingest wrote, or that was not accepted.
        OSError: a file cannot be read or written.
    """
    ingested = read_accepted(spark, plan.events)
    tuples = spark.read.parquet(f"{plan.events}/tuples")
    written = f"{plan.out}/changes"
    found = _found(spark, plan, tuples).persist()
    try:
        _written(spark, plan, found).write.mode("overwrite").parquet(written)
    finally:
        found.unpersist()
    changed = spark.read.schema(_SPARK_SCHEMA).parquet(written)
    report = WhatIf(
        events=ingested.events,
        allowed_events=ingested.allowed_events,
        tuples=ingested.tuples,
        first_at=ingested.first_at,
        last_at=ingested.last_at,
        not_evaluated=_not_evaluated(tuples),
        candidate=JudgedBy.of(plan.candidate),
        baseline=RecordedBaseline() if plan.baseline is None else JudgedBy.of(plan.baseline),
        **_summed(changed),
    )
    write_text(spark, f"{plan.out}/whatif.json", encode_report(report))
    for line in summary_lines(report):
        print(line, flush=True)
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE


def _found(spark: SparkSession, plan: WhatIfPlan, tuples: DataFrame) -> DataFrame:
    """Return what changes, by ``CHANGES_SCHEMA``; without what only the events tell."""
    asked = tuples.where(_unasked().isNull()).select(*QUESTION_FIELDS, *_FIGURES)
    candidate = _carried(spark, plan.candidate)
    baseline = None if plan.baseline is None else _carried(spark, plan.baseline)

    def find(batches: Batches) -> Batches:
        judge, before = candidate(), None if baseline is None else baseline()
        for batch in batches:
            yield from changes(batch, judge, before)

    return map_in_arrow(asked, find, _SPARK_SCHEMA)


def _carried(spark: SparkSession, acl_set: AclSet) -> Callable[[], AclIndex]:
    """Return what gives a worker the index of ``acl_set``, which it builds once."""
    key, packed = key_of(acl_set), spark.sparkContext.broadcast(pack(acl_set))
    return lambda: index_of(key, lambda: packed.value)


def _written(spark: SparkSession, plan: WhatIfPlan, found: DataFrame) -> DataFrame:
    if plan.baseline is None and not found.isEmpty():
        found = _with_recorded(found, spark.read.parquet(f"{plan.events}/events"))
    return found.orderBy("change", sql.desc("events"), *QUESTION_FIELDS)


def _with_recorded(found: DataFrame, events: DataFrame) -> DataFrame:
    """Return ``found`` with the times and the last rule of the events that would change."""
    recorded = events.where(sql.col("pattern_type") == "LITERAL").alias("recorded")
    keys = found.select("change", *QUESTION_FIELDS).alias("found")
    was_allowed = sql.col("found.change") == NEWLY_DENIED
    told = (
        keys.join(
            recorded, _is_same(keys_of="found") & (sql.col("recorded.allowed") == was_allowed)
        )
        .groupBy(*(sql.col(f"found.{name}") for name in QUESTION_FIELDS))
        .agg(
            sql.min("recorded.at").alias("told_first_at"),
            sql.max("recorded.at").alias("told_last_at"),
            sql.max_by("recorded.rule", sql.struct("recorded.at", "recorded.sequence")).alias(
                "told_rule"
            ),
        )
        .alias("recorded")
    )
    columns = {
        "first_at": sql.coalesce("told_first_at", "found.first_at"),
        "last_at": sql.coalesce("told_last_at", "found.last_at"),
        "baseline_rule": sql.col("told_rule"),
    }
    return (
        found.alias("found")
        .join(told, _is_same(keys_of="found"), "left")
        .select(
            *(
                columns.get(name, sql.col(f"found.{name}")).alias(name)
                for name in _SPARK_SCHEMA.names
            )
        )
    )


def _is_same(keys_of: str) -> Column:
    """Return whether a row of ``keys_of`` and one of ``recorded`` ask one question."""
    return reduce(
        Column.__and__,
        (
            sql.col(f"{keys_of}.{name}").eqNullSafe(sql.col(f"recorded.{name}"))
            for name in QUESTION_FIELDS
        ),
    )


def _unasked() -> Column:
    """Return what ``questions.unasked_reason`` returns."""
    return (
        sql.when(
            sql.col("principal").isNull() | sql.col("resource_name").isNull(), Unasked.INCOMPLETE
        )
        .when(sql.col("principal") == WILDCARD_PRINCIPAL, Unasked.EVERYONE)
        .when(~_is_in("pattern_type", ("LITERAL",)), Unasked.PATTERN_TYPE)
        .when(~_is_in("operation", OPERATION_CODES), Unasked.OPERATION)
        .when(~_is_in("resource_type", RESOURCE_TYPE_CODES), Unasked.RESOURCE_TYPE)
    )


def _is_in(column: str, names: Iterable[str]) -> Column:
    return sql.coalesce(sql.col(column).isin(list(names)), sql.lit(False))


def _not_evaluated(tuples: DataFrame) -> dict[str, Count]:
    counted = (
        tuples.select(
            _unasked().alias("reason"),
            (sql.col("allowed_events") + sql.col("denied_events")).alias("events"),
        )
        .where(sql.col("reason").isNotNull())
        .groupBy("reason")
        .agg(sql.sum("events").alias("events"), sql.count("*").alias("tuples"))
    )
    return {
        row.reason: Count(events=row.events, tuples=row.tuples) for row in sorted(counted.collect())
    }


def _summed(changed: DataFrame) -> dict[str, Changed]:
    totals = changed.groupBy("change").agg(
        sql.sum("events").alias("events"),
        sql.count("*").alias("tuples"),
        sql.count_distinct(*_BY_PRINCIPAL).alias("principals"),
        sql.count_distinct(*_BY_RESOURCE).alias("resources"),
    )
    found = {NEWLY_DENIED: NOTHING_CHANGED, NEWLY_ALLOWED: NOTHING_CHANGED}
    for total in totals.collect():
        of_kind = changed.where(sql.col("change") == total.change)
        found[total.change] = Changed(
            events=total.events,
            tuples=total.tuples,
            by_principal=_counted(of_kind, _BY_PRINCIPAL, PrincipalCount),
            by_principal_left_out=_left_out(total.principals),
            by_resource=_counted(of_kind, _BY_RESOURCE, ResourceCount),
            by_resource_left_out=_left_out(total.resources),
            by_operation=_counted(of_kind, _BY_OPERATION, OperationCount),
            details=_details(of_kind),
            details_left_out=_left_out(total.tuples),
        )
    return found


def _left_out(count: int) -> int:
    return max(count - LISTED_MAX, 0)


def _counted(changed: DataFrame, keys: tuple[str, ...], kind: type[T]) -> list[T]:
    rows = (
        changed.groupBy(*keys)
        .agg(sql.sum("events").alias("events"), sql.count("*").alias("tuples"))
        .orderBy(sql.desc("events"), sql.desc("tuples"), *keys)
        .limit(LISTED_MAX)
    )
    return [kind(**row.asDict()) for row in rows.collect()]


def _details(changed: DataFrame) -> list[Detail]:
    rows = changed.orderBy(sql.desc("events"), *QUESTION_FIELDS).limit(LISTED_MAX)
    texts = {
        name: sql.date_format(name, _TIME_FORMAT).alias(name) for name in ("first_at", "last_at")
    }
    columns = [texts.get(name, sql.col(name)) for name in Detail.__struct_fields__]
    return [Detail(**row.asDict()) for row in rows.select(*columns).collect()]
