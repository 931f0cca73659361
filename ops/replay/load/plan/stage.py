"""The planning stage of a load, on Spark: order and number the recorded questions, by lane.

**Invariant:** equal events and equal options give equal lanes, however Spark distributes the work.
The events of all files are ordered by (at, run, sequence), and each lane keeps this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.ordering import Layout, Stretch, Walk, lay_out
from authorizerd.replay.load.plan.pacing import Pacing, parse_profile
from authorizerd.replay.load.plan.questions import (
    ENCODE_QUESTION,
    RecordedQuestion,
    reason_not_asked,
)
from authorizerd.replay.load.plan.spread import PLACED_MAX, spread
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

QUESTIONS_MAX: Final = 200_000_000

_QUESTIONS: Final = (
    "reason string, part int, number bigint, at_ms bigint, elapsed_ms bigint, principal string, "
    "allowed boolean, question binary"
)
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
    at_ms = sql.unix_millis("at").alias("at_ms")
    events = recorded.select(at_ms, "run", "sequence", "allowed", *QUESTION_FIELDS, "pattern_type")
    by_time = ("at_ms", "run", "sequence")
    # Partition by range, not by hash: ordering.py needs parts that follow each other in time.
    in_order = events.repartitionByRange(*by_time).sortWithinPartitions(*by_time)
    gap_max_ms = None if plan.max_gap_s is None else round(plan.max_gap_s * 1000)
    encode = partial(_encode, plan.surface, gap_max_ms)
    ordered = in_order.mapInArrow(encode, _QUESTIONS).persist()
    try:
        yield _planned(plan, ordered, gap_max_ms)
    finally:
        ordered.unpersist()


def _planned(plan: LoadPlan, ordered: DataFrame, gap_max_ms: int | None) -> PlannedLoad:
    asked = ordered.where("reason IS NULL")
    reasons = ordered.where("reason IS NOT NULL").groupBy("reason").count().collect()
    not_asked = {row.reason: row["count"] for row in reasons}
    stretches = asked.groupBy("part").agg(
        sql.count("*"), sql.min("at_ms"), sql.max("at_ms"), sql.max("elapsed_ms")
    )
    layout = lay_out((Stretch(*row) for row in stretches.collect()), gap_max_ms)
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
    in_lanes = _divide(asked, layout, plan.lanes)
    return PlannedLoad(questions=in_lanes, pacing=pacing, rounds=rounds, not_asked=not_asked)


def _divide(asked: DataFrame, layout: Layout, lanes: int) -> DataFrame:
    """Return the questions of each lane in a partition of its own, with their final positions."""
    frequent = asked.groupBy("principal").count().orderBy(sql.desc("count"), "principal")
    counts = [(row.principal, row["count"]) for row in frequent.limit(PLACED_MAX).collect()]
    spark = asked.sparkSession
    lane_of = spark.createDataFrame(spread(counts, lanes), "principal string, lane int")
    places = spark.createDataFrame(layout.places, "part int, begin bigint, begin_ms bigint")
    placed = asked.join(sql.broadcast(places), "part").join(
        sql.broadcast(lane_of), "principal", "left"
    )
    others = sql.pmod(sql.crc32("principal"), sql.lit(lanes)).cast("int")
    questions = placed.select(
        sql.coalesce("lane", others).alias("lane"),
        (sql.col("number") + sql.col("begin")).alias("number"),
        (sql.col("elapsed_ms") + sql.col("begin_ms")).alias("elapsed_ms"),
        "allowed",
        "question",
    )
    # Partition by id, not by hash: the partition's number must be the lane's.
    return questions.repartitionById(lanes, sql.col("lane")).sortWithinPartitions("number")


def _encode(surface: str, gap_max_ms: int | None, batches: Batches) -> Batches:
    # A few distinct questions make up most of a record.
    @lru_cache(maxsize=_REMEMBERED)
    def encoded(*fields: str) -> tuple[str | None, bytes | None]:
        question = RecordedQuestion(*fields)
        reason = reason_not_asked(question, surface)
        return (reason, None) if reason else (None, ENCODE_QUESTION[surface](question))

    walk = Walk(gap_max_ms)
    names = RecordedQuestion.__struct_fields__
    part = pa.scalar(task_number(), pa.int32())
    for batch in batches:
        questions = list(map(encoded, *(batch.column(name).to_pylist() for name in names)))
        reasons = pa.array([reason for reason, _ in questions], pa.string())
        asked, unknown = pc.is_null(reasons), pa.nulls(len(batch), pa.int64())
        numbers, elapsed_ms = walk.step(batch.column("at_ms").filter(asked))
        yield pa.RecordBatch.from_pydict(
            {
                "reason": reasons,
                "part": pa.repeat(part, len(batch)),
                "number": pc.replace_with_mask(unknown, asked, numbers),
                "at_ms": batch.column("at_ms"),
                "elapsed_ms": pc.replace_with_mask(unknown, asked, elapsed_ms),
                "principal": batch.column("principal"),
                "allowed": batch.column("allowed"),
                "question": pa.array([question for _, question in questions], pa.binary()),
            }
        )


def task_number() -> int:
    """Return the number of the partition that this task reads."""
    context = TaskContext.get()
    assert context is not None, "only called in a worker"
    return context.partitionId()
