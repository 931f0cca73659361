"""The job of ``replay whatif``: compare the decisions of other ACLs on the recorded tuples.

**Invariant:** every tuple is judged, or counted as not evaluated with the reason. ``whatif.json``
is written last, once ``changes`` is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sql

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.judging.index import AclIndex, index_of, key_of, pack
from authorizerd.replay.judging.questions import unasked_reasons
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.spark.files import write_text
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.changes import (
    CHANGES_SCHEMA,
    FIGURES,
    find_changes,
)
from authorizerd.replay.whatif.report import (
    LISTED_MAX,
    NEWLY_ALLOWED,
    NEWLY_DENIED,
    NOTHING_CHANGED,
    Changed,
    Detail,
    OperationCount,
    PrincipalCount,
    RecordedBaseline,
    ResourceCount,
    WhatIf,
    summary_lines,
)

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

T = TypeVar("T")

_SPARK_TYPES: Final = {"string": "string", "int64": "long", "timestamp[us, tz=UTC]": "timestamp"}
_SPARK_SCHEMA: Final = ", ".join(
    f"{field.name} {_SPARK_TYPES[str(field.type)]}" for field in CHANGES_SCHEMA
)
_FIGURES: Final = tuple(
    f"{verdict}_{name}" for verdict in ("allowed", "denied") for name in FIGURES
)
_ALL: Final = "all"
_COUNTED_BY: Final = (("principal",), ("resource_type", "resource_name"), ("operation",))
"""Tuples have no nulls in these columns, so a null means that the row is not grouped by it."""
_TIME_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def run(spark: SparkSession, plan: WhatIfPlan) -> int:
    """Write ``whatif.json`` and ``changes``; return 3 if anything is newly denied, else 0.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        OSError: a file cannot be read or written.
    """
    table = open_table(spark, plan.events)
    ingested, tuples = table.ingested, table.tuples()
    written = f"{plan.out}/changes"
    found = _found(spark, plan, tuples).persist()  # the sort reads them twice
    try:
        ordered = found.orderBy("change", sql.desc("events"), *QUESTION_FIELDS)
        ordered.write.mode("overwrite").parquet(written)
    finally:
        found.unpersist()
    # Sum what was written, so that the report agrees with the files.
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
    write_text(spark, f"{plan.out}/whatif.json", encode_json(report))
    for line in summary_lines(report):
        print(line, flush=True)
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE


def _found(spark: SparkSession, plan: WhatIfPlan, tuples: DataFrame) -> DataFrame:
    """Return the changes, with ``CHANGES_SCHEMA``."""
    candidate = _carried(spark, plan.candidate)
    baseline = None if plan.baseline is None else _carried(spark, plan.baseline)

    def find(batches: Batches) -> Batches:
        judge, before = candidate(), None if baseline is None else baseline()
        for batch in batches:
            asked = batch.filter(unasked_reasons(batch).is_null())
            yield from find_changes(asked, judge, before)

    columns = (*QUESTION_FIELDS, "pattern_type", *_FIGURES)
    return tuples.select(*columns).mapInArrow(find, _SPARK_SCHEMA)


def _carried(spark: SparkSession, acl_set: AclSet) -> Callable[[], AclIndex]:
    """Return a function that returns the index of ``acl_set``; each worker builds it once."""
    # A broadcast reaches each executor once; a closure would be sent with every task.
    key, packed = key_of(acl_set), spark.sparkContext.broadcast(pack(acl_set))
    return lambda: index_of(key, lambda: packed.value)


def _not_evaluated(tuples: DataFrame) -> dict[str, Count]:
    asked = tuples.select(
        *QUESTION_FIELDS,
        "pattern_type",
        (sql.col("allowed_events") + sql.col("denied_events")).alias("events"),
    )
    counted = (
        asked.mapInArrow(_unasked, "reason string, events long")
        .groupBy("reason")
        .agg(sql.sum("events").alias("events"), sql.count("*").alias("tuples"))
    )
    # Sorted: the report must not depend on the order of Spark's groups.
    return {
        row.reason: Count(events=row.events, tuples=row.tuples) for row in sorted(counted.collect())
    }


def _unasked(batches: Batches) -> Batches:
    for batch in batches:
        reasons = unasked_reasons(batch)
        rows = pa.RecordBatch.from_arrays([reasons, batch["events"]], names=["reason", "events"])
        yield rows.filter(reasons.is_valid())


def _summed(changed: DataFrame) -> dict[str, Changed]:
    """Return the sums and the lists of each kind of change."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in _grouped(changed).collect():
        groups[row.change, row.counted_by].append(row)
    found = {NEWLY_DENIED: NOTHING_CHANGED, NEWLY_ALLOWED: NOTHING_CHANGED}
    for kind in {kind for kind, _ in groups}:
        (total,) = groups[kind, _ALL]
        principals, resources, operations = (groups[kind, keys[0]] for keys in _COUNTED_BY)
        found[kind] = Changed(
            events=total.events,
            tuples=total.tuples,
            by_principal=[_counted(PrincipalCount, row) for row in principals],
            by_principal_left_out=principals[0].groups - len(principals),
            by_resource=[_counted(ResourceCount, row) for row in resources],
            by_resource_left_out=resources[0].groups - len(resources),
            by_operation=[_counted(OperationCount, row) for row in operations],
            details=_details(changed.where(sql.col("change") == kind)),
            details_left_out=max(total.tuples - LISTED_MAX, 0),
        )
    return found


def _grouped(changed: DataFrame) -> DataFrame:
    """Return the sums of each kind of change, and of its largest groups by ``_COUNTED_BY``.

    ``groups`` is the number of all groups, including those that are left out.
    """
    names = [name for keys in _COUNTED_BY for name in keys]
    counted_by = sql.coalesce(
        *(sql.when(sql.col(keys[0]).isNotNull(), keys[0]) for keys in _COUNTED_BY), sql.lit(_ALL)
    )
    group = Window.partitionBy("change", "counted_by")
    place = sql.row_number().over(group.orderBy(sql.desc("events"), sql.desc("tuples"), *names))
    return (
        changed.groupingSets(
            [["change"], *(["change", *keys] for keys in _COUNTED_BY)], "change", *names
        )
        .agg(sql.sum("events").alias("events"), sql.count("*").alias("tuples"))
        .withColumn("counted_by", counted_by)
        .withColumns({"place": place, "groups": sql.count("*").over(group)})
        .where(sql.col("place") <= LISTED_MAX)
        .orderBy("place")
    )


def _counted(kind: type[T], row: Row) -> T:
    return msgspec.convert(row.asDict(), kind)


def _details(changed: DataFrame) -> list[Detail]:
    rows = changed.orderBy(sql.desc("events"), *QUESTION_FIELDS).limit(LISTED_MAX)
    texts = {
        name: sql.date_format(name, _TIME_FORMAT).alias(name) for name in ("first_at", "last_at")
    }
    columns = [texts.get(name, sql.col(name)) for name in Detail.__struct_fields__]
    return [Detail(**row.asDict()) for row in rows.select(*columns).collect()]
