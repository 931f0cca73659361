"""Run functions over rows on Spark, and read the recorded tuples of an ingest there.

**Invariant:** the driver receives only sums, one for each key, and the workers pass on the sums of
their parts. A session that runs for days keeps none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.schemas import describe_columns
from authorizerd.replay.ingest.sums import make_parts, sum_tuples
from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.recorded.arrow import (
    column_of,
    find_in_batches,
    make_batch,
    read_rows,
    schema_of,
)
from authorizerd.replay.recorded.rows import FIGURES, Find, Row, Rows, key_size_of, sum_parts
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.spark.description import describe
from authorizerd.replay.spark.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterable[pa.RecordBatch]

T = TypeVar("T")
R = TypeVar("R", bound=Row)

Split: TypeAlias = Callable[[Iterable[R]], Iterator[list[R]]]

_BATCH_ROWS: Final = 10_000
_SUM: Final = {"events": sql.sum, "tuples": sql.sum, "first_ms": sql.min, "last_ms": sql.max}
assert set(_SUM) == set(FIGURES)


class SparkRows(Generic[T]):
    """The rows of ``frame``, as ``kind``; a time ``x_ms`` is the frame's column ``x_at``."""

    def __init__(self, frame: DataFrame, kind: type[T]) -> None:
        self._frame = frame.select(*schema_of(kind).names)
        self._kind = kind

    def map(self, find: Find[T, R], kind: type[R]) -> DataFrame:
        """Return the rows that ``find`` yields for each part."""
        return self._run(find, _split, kind)

    def sum(self, find: Find[T, R], kind: type[R], /) -> Iterator[R]:
        """Yield the sums of what ``find`` yields."""
        keys = kind._fields[: key_size_of(kind)]
        parts = self._run(find, partial(sum_parts, kind=kind), kind)
        figures = [
            _SUM[name](column_of(name)).alias(column_of(name)) for name in kind._fields[len(keys) :]
        ]
        # One task sorts the sums, so that a single further job fetches them.
        sums = parts.groupBy(*keys).agg(*figures).coalesce(1).sortWithinPartitions(*keys)
        # Not toLocalIterator: the JVM would keep 200 KB for the job of every call until it ends.
        with describe(sums.sparkSession, f"sum by {', '.join(keys)}"):
            return SparkRows(sums, kind).fetch()

    def fetch(self) -> Iterator[T]:
        """Fetch all rows, which must fit into the driver's memory, and yield them."""
        batches = self._frame.toArrow().to_batches()
        return chain.from_iterable(read_rows(batch, self._kind) for batch in batches)

    def _run(self, find: Find[T, R], split: Split[R], kind: type[R]) -> DataFrame:
        work = partial(_work, find, split, self._kind, kind)
        return self._frame.mapInArrow(work, describe_columns(schema_of(kind)))


def _work(
    find: Find[T, R], split: Split[R], source: type[T], kind: type[R], batches: Batches
) -> Iterator[pa.RecordBatch]:
    for chunk in split(find_in_batches(batches, source, find)):
        yield make_batch(chunk, kind)


def _split(rows: Iterable[R]) -> Iterator[list[R]]:
    left = iter(rows)
    return iter(lambda: list(islice(left, _BATCH_ROWS)), [])


class SparkEngine:
    """The output of an ingest, and the directory of a command's results.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
    """

    def __init__(self, spark: SparkSession, events: str, out: str) -> None:
        self._spark = spark
        self._out = out
        self._table = open_table(spark, events)
        self.ingested = self._table.ingested

    def tuples(self, since_ms: int | None = None, /) -> SparkRows[RecordedTuple]:
        """Return the distinct tuples of all events, or of those since a time.

        Raises:
            JobError: the table has lost some of their files.
        """
        if since_ms is None:
            return SparkRows(self._table.tuples(), RecordedTuple)
        # Persisted, since a command sums up its tuples several times.
        within = sum_events(self._table.events(since_ms), since_ms).persist()
        return SparkRows(within, RecordedTuple)

    def store(
        self, tuples: Rows[RecordedTuple], find: Find[RecordedTuple, R], kind: type[R], name: str, /
    ) -> SparkRows[R]:
        """Write the rows that ``find`` yields for the tuples, and return what was written."""
        assert isinstance(tuples, SparkRows), "they are of this engine"
        first, *keys = kind._fields[: key_size_of(kind)]
        found = tuples.map(find, kind).persist()  # the sort reads it twice
        place = f"{self._out}/{name}"
        try:
            ordered = found.orderBy(first, sql.desc("events"), *keys)
            with describe(self._spark, f"write {name}"):
                ordered.write.mode("overwrite").parquet(place)
        finally:
            found.unpersist()
        return SparkRows(self._spark.read.schema(found.schema).parquet(place), kind)

    def write_text(self, name: str, text: str, /) -> None:
        """Write a text of the results."""
        open_storage(self._spark, self._out).replace(f"{self._out}/{name}", text.encode())


def sum_events(events: DataFrame, since_ms: int) -> DataFrame:
    """Return the tuples of the events since a time."""
    # Compare bare columns: with a function around ``at``, Spark would read every row group, and
    # without a condition on ``day``, the files of every day.
    begins = sql.timestamp_millis(sql.lit(since_ms))
    within = events.where((sql.col("day") >= begins.cast("date")) & (sql.col("at") >= begins))
    return sum_tuples(make_parts(within))
