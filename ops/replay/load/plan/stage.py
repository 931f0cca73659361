"""The planning stage of a load, on Spark: order and number the recorded questions, by lane.

**Invariant:** equal events and equal options give equal lanes, however Spark distributes the work.
The events of all files are ordered by (at, sequence), and each lane keeps this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.judging.questions import unasked_reasons
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.ordering import Layout, Stretch, Walk, lay_out, measure_stretch
from authorizerd.replay.load.plan.pacing import Pacing, parse_profile
from authorizerd.replay.load.plan.questions import (
    ENCODE_QUESTION,
    RecordedQuestion,
    reason_not_asked,
)
from authorizerd.replay.load.plan.spread import PLACED_MAX, Spread
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

QUESTIONS_MAX: Final = 200_000_000

_QUESTIONS: Final = (
    "at_ms bigint, reason string, principal string, allowed boolean, question binary"
)
_PLACED: Final = "lane int, number bigint, elapsed_ms bigint, allowed boolean, question binary"
_REMEMBERED: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class PlannedLoad:
    """The encoded questions in order, one partition per lane, and when to ask them.

    ``events`` is the number of events that can be asked; ``not_asked`` counts the others by reason.
    """

    questions: DataFrame
    pacing: Pacing
    rounds: int
    not_asked: dict[str, int]


@contextmanager
def plan_load(plan: LoadPlan, recorded: DataFrame) -> Iterator[PlannedLoad]:
    """Plan the load of the ``recorded`` events; its questions can be read within the block.

    Raises:
        LoadError: there are no questions, or too many.
    """
    events = recorded.select(
        sql.unix_millis("at").alias("at_ms"),
        "run",
        "sequence",
        "allowed",
        *QUESTION_FIELDS,
        "pattern_type",
    )
    by_time = ("at_ms", "run", "sequence")
    # Ranges, not hashes: ordering.py needs parts that follow each other in time.
    in_order = events.repartitionByRange(*by_time).sortWithinPartitions(*by_time)
    ordered = in_order.mapInArrow(partial(_encode, plan.surface), _QUESTIONS).persist()
    try:
        yield _planned(plan, ordered)
    finally:
        ordered.unpersist()


def _planned(plan: LoadPlan, ordered: DataFrame) -> PlannedLoad:
    gap_max_ms = None if plan.max_gap_s is None else round(plan.max_gap_s * 1000)
    asked = ordered.where(sql.col("reason").isNull())
    not_asked = {
        row.reason: row["count"]
        for row in ordered.where(sql.col("reason").isNotNull()).groupBy("reason").count().collect()
    }
    layout = _lay_out(asked, gap_max_ms)
    if not layout.events:
        raise LoadError(
            f"events: {plan.events}: no event can be asked ({not_asked or 'there are no events'})"
        )
    pacing = Pacing(
        events=layout.events,
        period_ms=layout.period_ms,
        speed=plan.speed,
        segments=parse_profile(plan.profile, plan.rate),
    )
    rounds = plan.loop or pacing.rounds_for(plan.ends_s or 0)
    if rounds * layout.events > QUESTIONS_MAX:
        raise LoadError(
            f"{rounds} rounds of {layout.events} questions exceed the limit of {QUESTIONS_MAX}"
        )
    placed = asked.mapInArrow(partial(_place, _spread(asked, plan), layout, gap_max_ms), _PLACED)
    # By id instead of a hash: the partition's number must be the lane's.
    in_lanes = placed.repartitionById(plan.lanes, sql.col("lane")).sortWithinPartitions("number")
    return PlannedLoad(questions=in_lanes, pacing=pacing, rounds=rounds, not_asked=not_asked)


def _lay_out(asked: DataFrame, gap_max_ms: int | None) -> Layout:
    times = asked.select("at_ms")
    rows = times.mapInArrow(partial(_measure, gap_max_ms), "stretch binary").collect()
    return lay_out([msgspec.json.decode(row.stretch, type=Stretch) for row in rows], gap_max_ms)


def _spread(asked: DataFrame, plan: LoadPlan) -> Spread:
    counts = asked.groupBy("principal").count()
    frequent = counts.orderBy(sql.desc("count"), "principal").limit(PLACED_MAX).collect()
    return Spread([(row.principal, row["count"]) for row in frequent], plan.lanes)


def _encode(surface: str, batches: Batches) -> Batches:
    # A few distinct questions make up most of a record.
    @lru_cache(maxsize=_REMEMBERED)
    def encoded(*fields: str) -> tuple[str | None, bytes | None]:
        question = RecordedQuestion(*fields)
        reason = reason_not_asked(question, surface)
        return (reason, None) if reason else (None, ENCODE_QUESTION[surface](question))

    for batch in batches:
        questions = [
            (reason, None) if reason else encoded(*fields)
            for reason, *fields in zip(
                unasked_reasons(batch).to_pylist(),
                *(batch.column(name).to_pylist() for name in QUESTION_FIELDS),
                strict=True,
            )
        ]
        yield pa.RecordBatch.from_pydict(
            {
                "at_ms": batch.column("at_ms"),
                "reason": pa.array([reason for reason, _ in questions], pa.string()),
                "principal": batch.column("principal"),
                "allowed": batch.column("allowed"),
                "question": pa.array([question for _, question in questions], pa.binary()),
            }
        )


def _measure(gap_max_ms: int | None, batches: Batches) -> Batches:
    times = (batch.column("at_ms") for batch in filter(len, batches))
    stretch = measure_stretch(task_number(), times, gap_max_ms)
    found = [] if stretch is None else [msgspec.json.encode(stretch)]
    yield pa.RecordBatch.from_pydict({"stretch": pa.array(found, pa.binary())})


def _place(spread: Spread, layout: Layout, gap_max_ms: int | None, batches: Batches) -> Batches:
    walk: Walk | None = None
    for batch in filter(len, batches):
        walk = walk or Walk(layout.places[task_number()], gap_max_ms)
        numbers, elapsed_ms = walk.step(batch.column("at_ms"))
        principals = batch.column("principal").to_pylist()
        yield pa.RecordBatch.from_pydict(
            {
                "lane": pa.array(map(spread.lane_of, principals), pa.int32()),
                "number": numbers,
                "elapsed_ms": elapsed_ms,
                "allowed": batch.column("allowed"),
                "question": batch.column("question"),
            }
        )


def task_number() -> int:
    """Return the number of the partition that this task reads.

    A part's number is that of its task, since all stages read the same persisted partitions.
    """
    context = TaskContext.get()
    assert context is not None, "only called in a worker"
    return context.partitionId()
