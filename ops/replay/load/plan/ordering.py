"""Plan a load: encode the recorded questions, number them in order, and assign lanes.

**Invariant:** equal events and options give equal numbers, times and lanes, with or without Spark.
Without it, memory does not grow with the record: what exceeds ``SORT_BYTES`` is sorted in parts on
the disk. Only the events of the newest commit's runs count, and none may be missing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.replay.errors import LoadError
from authorizerd.replay.ingest.commit import TableError, check_complete, read_newest
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.load.plan.frames import read_batches, temporary_file, write_batches
from authorizerd.replay.load.plan.pacing import Schedule, make_schedule
from authorizerd.replay.load.surfaces import SURFACES, RecordedQuestion, reason_not_asked
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.recorded.parquet_files import open_parquet

BY_TIME: Final = ("at_ms", "run", "sequence")
"""The order of events; ``run`` and ``sequence`` give the order of the log within a millisecond."""
PLACED_MAX: Final = 10_000
"""Maximum number of principals, the most frequent ones, that are assigned one by one. A checksum of
its name assigns every other principal."""
SORT_BYTES: Final = 256 * 1024 * 1024
BATCH_ROWS: Final = 16_384
_READ: Final = ["sequence", "allowed", *RecordedQuestion.__struct_fields__]
_KEPT: Final = (*BY_TIME, "principal", "allowed")
_REMEMBERED: Final = 100_000


def encode_questions(surface: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield events with their encoded questions (``question``), or the ``reason`` not to ask them.

    Args:
        batches: events with the columns of ``RecordedQuestion``, ``BY_TIME`` and ``allowed``.
    """
    encode = SURFACES[surface].encode_question

    # A few distinct questions make up most of a record.
    @lru_cache(maxsize=_REMEMBERED)
    def encoded(*fields: str) -> tuple[str | None, bytes | None]:
        question = RecordedQuestion(*fields)
        reason = reason_not_asked(question, surface)
        return (reason, None) if reason else (None, encode(question))

    names = RecordedQuestion.__struct_fields__
    for batch in batches:
        pairs = map(encoded, *(batch.column(name).to_pylist() for name in names))
        reasons, questions = zip(*pairs, strict=True) if len(batch) else ((), ())
        added = pa.array(reasons, pa.string()), pa.array(questions, pa.binary())
        yield _with(batch.select(_KEPT), reason=added[0], question=added[1])


def number_questions(
    gap_max_s: float | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield encoded events in order, with each question's ``number`` and ``elapsed_ms``.

    The elapsed time counts from the first question; a longer gap counts as ``gap_max_s``. Events
    that are not asked have neither.
    """
    count = elapsed_ms = 0
    last_ms: int | None = None
    for batch in batches:
        asked = pc.is_null(batch.column("reason"))
        at_ms = batch.column("at_ms").filter(asked)
        numbers = elapsed = at_ms
        if len(at_ms):
            last_ms = at_ms[0].as_py() if last_ms is None else last_ms
            before = pa.concat_arrays([pa.array([last_ms], pa.int64()), at_ms[:-1]])
            gaps = pc.subtract(at_ms, before)
            if gap_max_s is not None:
                gaps = pc.min_element_wise(gaps, pa.scalar(round(gap_max_s * 1000), pa.int64()))
            elapsed = pc.cumulative_sum(gaps, start=elapsed_ms)
            numbers = pa.array(range(count, count + len(at_ms)), pa.int64())
            count += len(at_ms)
            elapsed_ms, last_ms = elapsed[-1].as_py(), at_ms[-1].as_py()
        unknown = pa.nulls(len(batch), pa.int64())
        numbers, elapsed = (pc.replace_with_mask(unknown, asked, of) for of in (numbers, elapsed))
        yield _with(batch, number=numbers, elapsed_ms=elapsed)


class Spread:
    """The lane of each principal, so that its questions keep the recorded order.

    The principals with the most questions come first, each in the lane that has the fewest so far.

    Args:
        counts: the number of questions of each principal, of at least ``PLACED_MAX`` if there are
            more.
    """

    def __init__(self, counts: Iterable[tuple[str, int]], lanes: int) -> None:
        self._lanes = lanes
        self._placed: dict[str, int] = {}
        loads = [(0, lane) for lane in range(lanes)]
        # Sort equal counts by name: the lanes must not depend on the order of the counts.
        frequent = sorted(counts, key=lambda item: (-item[1], item[0]))[:PLACED_MAX]
        for principal, count in frequent:
            load, lane = loads[0]
            self._placed[principal] = lane
            heapq.heapreplace(loads, (load + count, lane))

    def lane_of(self, principal: str) -> int:
        """Return the lane of a principal."""
        lane = self._placed.get(principal)
        return crc32(principal.encode()) % self._lanes if lane is None else lane


def add_lanes(spread: Spread, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield numbered questions with their ``lane``."""
    for batch in batches:
        principals = batch.column("principal").dictionary_encode()
        lanes = pa.array(map(spread.lane_of, principals.dictionary.to_pylist()), pa.int32())
        yield _with(batch, lane=lanes.take(principals.indices))


def _with(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    names = [*batch.schema.names, *columns]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names)


@contextmanager
def plan_here(plan: LoadPlan) -> Iterator[tuple[Schedule, Iterator[pa.RecordBatch]]]:
    """Plan the load of the events in the plan's table. Blocks.

    Yield its schedule, and its encoded questions with their lanes, in order, to read once within
    the block.

    Raises:
        LoadError: the table cannot be read, or there are no questions, or too many.
        OSError: a temporary file cannot be written.
    """
    principals, reasons, elapsed_ms = Counter[str](), Counter[str](), 0

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal elapsed_ms
        for batch in batches:
            asked = batch.filter(batch.column("reason").is_null())
            for counter, of, name in (
                (principals, asked, "principal"), (reasons, batch, "reason")
            ):  # fmt: skip
                values, counts = of.column(name).drop_null().value_counts().flatten()
                counter.update(dict(zip(values.to_pylist(), counts.to_pylist(), strict=True)))
            if len(asked):
                elapsed_ms = asked.column("elapsed_ms")[-1].as_py()
            yield asked

    with ExitStack() as stack:
        stack.enter_context(collector_off())
        encoded = encode_questions(plan.surface, read_events(plan))
        numbered = number_questions(plan.max_gap_s, sort_batches(encoded, stack))
        file = stack.enter_context(temporary_file())
        write_batches(count(numbered), file)
        schedule = make_schedule(plan, principals.total(), elapsed_ms, dict(reasons))
        yield schedule, add_lanes(Spread(principals.items(), plan.lanes), read_batches(file))


def read_events(plan: LoadPlan) -> Iterator[pa.RecordBatch]:
    """Yield the events of the plan's table, with the columns that ``encode_questions`` takes.

    Raises:
        LoadError: the table or one of its files cannot be read, or events are missing.
    """
    table = Path(plan.events)
    try:
        for number, run in enumerate(sorted(read_newest(table).runs, key=lambda each: each.id)):
            found = 0
            for path in sorted(table.glob(run.events_glob)):
                with open_parquet(path, pre_buffer=True) as file:
                    for batch in file.iter_batches(BATCH_ROWS, columns=["at", *_READ]):
                        found += len(batch)
                        at = batch.column("at").cast(pa.timestamp("ms", "UTC"), safe=False)
                        columns = [at.cast(pa.int64()), pa.repeat(number, len(batch))]
                        columns += map(batch.column, _READ)
                        yield pa.RecordBatch.from_arrays(columns, [*BY_TIME[:2], *_READ])
            place = f"{table}/{run.events_glob}"
            check_complete(place, "events", expected=run.ingested.events, found=found)
    except TableError as error:
        raise LoadError(f"events: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise LoadError(f"events: {table}: {error}") from error


def sort_batches(batches: Iterable[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of time; ``stack`` closes the temporary files."""
    runs: list[Iterator[pa.Table]] = []
    waiting: list[pa.Table] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        waiting_bytes += batch.nbytes
        if waiting_bytes >= SORT_BYTES:
            file = stack.enter_context(temporary_file())
            write_batches(_sort(waiting).to_batches(BATCH_ROWS), file)
            runs.append(pa.Table.from_batches([each]) for each in read_batches(file))
            waiting, waiting_bytes = [], 0
    if waiting:
        runs.append(iter([_sort(waiting)]))
    for merged in merge_runs(runs):
        yield from merged.to_batches(BATCH_ROWS)


def merge_runs(runs: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the rows of sorted runs in order. No table of a run is empty."""
    heads = [(head, run) for run in runs if (head := next(run, None)) is not None]
    while heads:
        # No row that is still to be read comes before the end of the head that ends first.
        bound = min(_key(head, len(head) - 1) for head, _ in heads)
        cuts = [bisect_right(range(len(head)), bound, key=partial(_key, head)) for head, _ in heads]
        ready = zip(heads, cuts, strict=True)
        yield _sort([head.slice(0, cut) for (head, _), cut in ready])
        left = [(head.slice(cut), run) for (head, run), cut in zip(heads, cuts, strict=True)]
        following = ((head if len(head) else next(run, None), run) for head, run in left)
        heads = [(head, run) for head, run in following if head is not None]


def _sort(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in BY_TIME])


def _key(table: pa.Table, row: int) -> tuple[int, ...]:
    return tuple(table.column(name)[row].as_py() for name in BY_TIME)
