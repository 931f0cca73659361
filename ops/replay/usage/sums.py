"""Sum up use on Spark: the tuples of the window, judged by the workers.

**Invariant:** the driver receives only sums: at most one row per ACL, with a limited number of
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql import Window as Partitions

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.evaluation import WindowSums, describe_window
from authorizerd.replay.usage.matching import UseIndex, distinct, index_of, pack
from authorizerd.replay.usage.proving import Changed, Comparison
from authorizerd.replay.usage.recorded import (
    BY_SUPER_USERS,
    DISAGREEING,
    NOT_EVALUATED,
    WHOLE_TUPLE,
    RecordedTuple,
    Summed,
)
from authorizerd.replay.usage.report import WindowReport
from authorizerd.replay.usage.rows import changes_in, uses_in
from authorizerd.replay.usage.suggestions import AclUsage
from authorizerd.replay.usage.window import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast

_ASKED: Final = RecordedTuple._fields[:6]
_COUNTED: Final = AclUsage._fields[:4]
_USE_COLUMNS: Final = "number int, label string, is_alone boolean, events long, last_ms long"
_CHANGE_COLUMNS: Final = (
    "number int, is_allowed boolean, events long, principal string, resource_name string"
)


class SentSet(NamedTuple):
    """A set of ACLs that Spark sends to each executor once."""

    key: str
    broadcast: Broadcast[bytes]

    def built(self) -> UseIndex:
        return index_of(self.key, lambda: self.broadcast.value)


class Workers:
    """The recorded tuples, and the ACLs that judge them."""

    def __init__(self, spark: SparkSession, tuples: DataFrame, acl_set: AclSet) -> None:
        self._spark = spark
        # In this order, because the workers read the columns by position.
        self._tuples = tuples.select(*RecordedTuple._fields)
        self._acls = [item.acl for item in distinct(acl_set)]
        self._set = self._sent(acl_set)

    def free(self) -> None:
        self._set.broadcast.destroy()

    def sum_uses(self, names_max: int) -> Summed:
        """Return the use by all tuples, with at most ``names_max`` names for each wide ACL."""
        rows = self._tuples.mapInArrow(partial(_uses, self._set), _USE_COLUMNS)
        summed = Summed({}, {}, Count(), Count())
        for row in _sums(rows, names_max).collect():
            count = Count(
                events=row.events_alone + row.events_with_others,
                tuples=row.tuples_alone + row.tuples_with_others,
            )
            if row.number == NOT_EVALUATED:
                summed.not_evaluated[row.reason] = count
            elif row.number == BY_SUPER_USERS:
                summed = summed._replace(by_super_users=count)
            elif row.number == DISAGREEING:
                summed = summed._replace(disagreeing=count)
            else:
                summed.usage[self._acls[row.number]] = _usage_of(row)
        return summed

    def compare(self, other: AclSet) -> Comparison:
        """Return the tuples that ``other`` answers differently, in total and by removed ACL."""
        sent = self._sent(other)
        try:
            changing = partial(_changes, self._set, sent)
            rows = self._tuples.mapInArrow(changing, _CHANGE_COLUMNS)
            changed = {row.number: _changed_of(row) for row in _changes_summed(rows).collect()}
        finally:
            # Each pass of the proof sends a set; executors would keep all of them.
            sent.broadcast.destroy()
        whole = changed.pop(WHOLE_TUPLE, None)
        return Comparison(whole, {self._acls[number]: item for number, item in changed.items()})

    def _sent(self, acl_set: AclSet) -> SentSet:
        key, packed = pack(acl_set)
        return SentSet(key, self._spark.sparkContext.broadcast(packed))


def tuples_within(events: DataFrame, window: Window) -> DataFrame:
    """Return the distinct requests of the window, with the fields of ``RecordedTuple``.

    The tuples that ingest wrote cover the whole record, so they cannot be used here.
    """
    at, at_ms = functions.col("at"), functions.unix_millis("at")
    allowed, denied = functions.col("allowed"), ~functions.col("allowed")
    # Bare columns on the left: with a function around ``at``, Spark would read every row group, and
    # without a condition on ``day``, the files of every day.
    begins = functions.timestamp_millis(functions.lit(window.begins_ms))
    return (
        events.where((functions.col("day") >= begins.cast("date")) & (at >= begins))
        .groupBy(*_ASKED)
        .agg(
            functions.count_if(allowed).alias("allowed_events"),
            functions.count_if(denied).alias("denied_events"),
            functions.max(functions.when(allowed, at_ms)).alias("allowed_last_ms"),
            functions.max(functions.when(denied, at_ms)).alias("denied_last_ms"),
            functions.min(functions.when(allowed, at_ms)).alias("allowed_first_ms"),
        )
    )


def window_report(tuples: DataFrame, window: Window, lookback_days: float | None) -> WindowReport:
    """Return the figures of the window.

    Raises:
        UsageError: the window contains no allowed request.
    """
    total = tuples.agg(
        functions.count("*").alias("tuples"),
        functions.sum("allowed_events").alias("allowed_events"),
        functions.sum("denied_events").alias("denied_events"),
        functions.min("allowed_first_ms").alias("first_ms"),
        functions.max("allowed_last_ms").alias("last_ms"),
    ).collect()[0]
    return describe_window(window, WindowSums(**total.asDict()), lookback_days)


def _uses(sent: SentSet, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    index = sent.built()
    return (uses_in(index, batch) for batch in batches)


def _changes(
    before: SentSet, after: SentSet, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    indexes = before.built(), after.built()
    return (changes_in(*indexes, batch) for batch in batches)


def _sums(rows: DataFrame, names_max: int) -> DataFrame:
    """Return one row per ACL, and one per reason, with the fields of ``AclUsage``."""
    alone, events, label = (functions.col(name) for name in ("is_alone", "events", "label"))
    by_name = rows.groupBy("number", "label").agg(
        functions.sum(functions.when(alone, events).otherwise(0)).alias("events_alone"),
        functions.sum(functions.when(~alone, events).otherwise(0)).alias("events_with_others"),
        functions.count_if(alone).alias("tuples_alone"),
        functions.count_if(~alone).alias("tuples_with_others"),
        functions.max("last_ms").alias("last_ms"),
    )
    # Number the names first: a list of all names of one wildcard may exceed a worker's memory.
    place = functions.row_number().over(Partitions.partitionBy("number").orderBy("label"))
    is_listed = (functions.col("number") >= 0) & (functions.col("place") <= names_max)
    reason = functions.when(functions.col("number") == NOT_EVALUATED, label)
    return (
        by_name.withColumn("place", place)
        .groupBy("number", reason.alias("reason"))
        .agg(
            *(functions.sum(name).alias(name) for name in _COUNTED),
            functions.max("last_ms").alias("last_ms"),
            functions.count("label").alias("names_count"),
            functions.min("label").alias("name_min"),
            functions.max("label").alias("name_max"),
            # collect_list skips nulls, and so the names that are not listed.
            functions.array_sort(functions.collect_list(functions.when(is_listed, label))).alias(
                "names"
            ),
        )
    )


def _usage_of(row: Row) -> AclUsage:
    sums = (row[name] for name in AclUsage._fields[:-1])
    return AclUsage._make((*sums, tuple(row.names)))


def _changes_summed(rows: DataFrame) -> DataFrame:
    """Return one row per ACL and one for all, each with an example."""
    is_allowed, events = functions.col("is_allowed"), functions.col("events")
    example = functions.struct("principal", "resource_name")
    return rows.groupBy("number").agg(
        functions.sum(functions.when(~is_allowed, events).otherwise(0)).alias("denied_events"),
        functions.count_if(~is_allowed).alias("denied_tuples"),
        functions.sum(functions.when(is_allowed, events).otherwise(0)).alias("allowed_events"),
        functions.count_if(is_allowed).alias("allowed_tuples"),
        # The least, not the first: the report must not depend on the order of rows.
        functions.min(example).alias("example"),
    )


def _changed_of(row: Row) -> Changed:
    return Changed(
        newly_denied=Count(events=row.denied_events, tuples=row.denied_tuples),
        newly_allowed=Count(events=row.allowed_events, tuples=row.allowed_tuples),
        principal=row.example.principal,
        resource_name=row.example.resource_name,
    )
