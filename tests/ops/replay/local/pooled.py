"""Evaluate many sets of ACLs on Spark in few jobs.

Each evaluation runs in a thread of its own. As soon as all of them wait for sums, one job computes
all sums of a kind: its rows have the number of their pool in front, and its sums that of a request.
Spark's workers import this module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_type_hints,
)

from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.recorded.rows import Row
from authorizerd.replay.recorded.tuples import RecordedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from authorizerd.replay.recorded.spark import SparkRows

T = TypeVar("T")
Find: TypeAlias = Callable[[Iterable[Any]], Iterable[Any]]
Finds: TypeAlias = Sequence[tuple[int, Find]]
"""The number of a pool, and a function for its rows."""

ANSWER_SECONDS_MAX: Final = 600


class Request(NamedTuple):
    """A wish for the sums of ``kind`` that ``find`` yields for a pool's rows of ``source``."""

    source: Row
    kind: Row
    pool: int
    find: Find
    answer: Future[Iterator[Any]]


@cache
def number_rows(kind: Row) -> Row:
    """Return the type of rows of ``kind`` with a number in front."""
    hints = get_type_hints(kind)
    fields = [("pool", int), *((name, hints[name]) for name in kind._fields)]
    return NamedTuple(f"Numbered{kind.__name__}", fields)


def find_numbered(
    rows: Iterable[Sequence[Any]], source: Row, kind: Row, finds: Finds
) -> Iterator[Any]:
    """Yield what each function yields for the rows of its pool, with the function's place."""
    pools = defaultdict(list)
    for number, *fields in rows:
        pools[number].append(source._make(fields))
    for place, (pool, find) in enumerate(finds):
        for row in find(pools[pool]):
            yield kind(place, *row)


class Pools:
    """The rows of all pools by kind, and the requests for their sums."""

    def __init__(self) -> None:
        self.frames: dict[Row, DataFrame] = {}
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self._numbers: dict[tuple[str, int | None], int] = {}
        self._lock = Lock()

    def number_tuples(self, spark: SparkSession, events: str, since_ms: int | None) -> int:
        """Return the number of the pool with the tuples of a table's events since a time."""
        from pyspark.sql import functions as sql

        from authorizerd.replay.recorded.spark import SparkEngine

        with self._lock:
            number = self._numbers.get((events, since_ms))
            if number is None:
                number = self._numbers[events, since_ms] = len(self._numbers)
                frame = SparkEngine(spark, events, "").tuples(since_ms).map(iter, RecordedTuple)
                frame = frame.withColumn("pool", sql.lit(number).cast("long"))
                so_far = self.frames.get(RecordedTuple)
                self.frames[RecordedTuple] = frame if so_far is None else so_far.unionByName(frame)
            return number

    def map(self, source: Row, kind: Row, finds: Finds) -> None:
        """Make the rows that each function yields a pool with the function's place as number."""
        find = partial(find_numbered, source=source, kind=number_rows(kind), finds=finds)
        self.frames[kind] = self._rows(source).map(find, number_rows(kind)).persist()

    def run(self, evaluations: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of all evaluations."""
        with ThreadPoolExecutor(len(evaluations)) as threads:
            futures = [threads.submit(each) for each in evaluations]
            running = set(futures)
            waiting: list[Request] = []
            try:
                while running:
                    running = wait(running, 0.05, FIRST_COMPLETED).not_done
                    while not self.requests.empty():
                        waiting.append(self.requests.get())
                    if waiting and len(waiting) == len(running):
                        self._answer(waiting)
                        waiting.clear()
            finally:
                for request in waiting:
                    request.answer.cancel()  # does nothing after a result
        return [future.result() for future in futures]

    def _answer(self, requests: Sequence[Request]) -> None:
        """Run one job for each kind of sums."""
        by_kind = defaultdict(list)
        for request in requests:
            by_kind[request.source, request.kind].append(request)
        for (source, kind), some in by_kind.items():
            finds = [(each.pool, each.find) for each in some]
            found = defaultdict(list)
            for place, *fields in self._sum(source, kind, finds):
                found[place].append(kind._make(fields))
            for place, request in enumerate(some):
                request.answer.set_result(iter(found[place]))

    def _sum(self, source: Row, kind: Row, finds: Finds) -> Iterator[Any]:
        find = partial(find_numbered, source=source, kind=number_rows(kind), finds=finds)
        return self._rows(source).sum(find, number_rows(kind))

    def _rows(self, source: Row) -> SparkRows[Any]:
        from authorizerd.replay.recorded.spark import SparkRows

        return SparkRows(self.frames[source], number_rows(source))


class PooledRows(Generic[T]):
    """The rows of one pool."""

    def __init__(self, pools: Pools, source: type[T], pool: int) -> None:
        self._request = partial(Request, source)
        self._pools = pools
        self._pool = pool

    def sum(self, find: Find, kind: Row, /) -> Iterator[Any]:
        """Wait until all evaluations wait for sums, and return those of this one."""
        answer: Future[Iterator[Any]] = Future()
        self._pools.requests.put(self._request(kind, self._pool, find, answer))
        return answer.result(ANSWER_SECONDS_MAX)


class PooledSource:
    """A table whose sums are computed together with others."""

    def __init__(self, pools: Pools, spark: SparkSession, events: str, ingested: Ingested) -> None:
        self._pools = pools
        self._spark = spark
        self._events = events
        self.ingested = ingested

    def tuples(self, since_ms: int | None = None, /) -> PooledRows[RecordedTuple]:
        """Return the tuples of all events, or of those since a time."""
        pool = self._pools.number_tuples(self._spark, self._events, since_ms)
        return PooledRows(self._pools, RecordedTuple, pool)
