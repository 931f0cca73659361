"""The planning stage of a load, on Spark: pack recorded events into frames, by lane.

**Invariant:** equal events and equal options give equal frames, however Spark distributes the work.
The events of all files are ordered by (at, sequence), and each lane keeps this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.judging.questions import unasked_reasons
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.frames import (
    Frame,
    LaneDigest,
    LaneHash,
    TimedQuestion,
    frames_of,
)
from authorizerd.replay.load.plan.ordering import Place, Stretch, lay_out, measure_stretches
from authorizerd.replay.load.plan.pacing import US_PER_S, Pacing, parse_profile
from authorizerd.replay.load.plan.questions import (
    ENCODE_QUESTION,
    RecordedQuestion,
    reason_not_asked,
)
from authorizerd.replay.load.plan.rounds import repeat_batches
from authorizerd.replay.load.plan.spread import PLACED_MAX, Spread
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

QUESTIONS_MAX: Final = 200_000_000
ROWS_AT_ONCE: Final = 256
"""Frames per Arrow batch. Small, because the sending stage reads a batch between two sends."""

_QUESTIONS: Final = (
    "at_ms bigint, reason string, principal string, allowed boolean, question binary"
)
_ENCODED: Final = pa.schema(
    [
        ("at_ms", pa.int64()),
        ("reason", pa.string()),
        ("principal", pa.string()),
        ("allowed", pa.bool_()),
        ("question", pa.binary()),
    ]
)
_PLACED: Final = "lane int, number bigint, elapsed_ms bigint, allowed boolean, question binary"
_FRAMES: Final = "lane int, number bigint, due_us bigint, body binary, recorded binary"
_REMEMBERED: Final = 100_000
_PARTS_EACH: Final = 4
"""The number of parts per task slot."""


@dataclass(frozen=True, kw_only=True)
class PlannedLoad:
    """The planned frames, persisted in order, one partition per lane.

    ``events`` is the number of events that can be asked; ``not_asked`` counts the others by reason.
    """

    frames: DataFrame
    lanes: list[LaneDigest]
    events: int
    not_asked: dict[str, int]
    rounds: int


def plan_load(spark: SparkSession, plan: LoadPlan, recorded: DataFrame) -> PlannedLoad:
    """Return the planned frames of the ``recorded`` events; the caller must unpersist them.

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
    in_order = events.repartitionByRange(_parts(spark), *by_time).sortWithinPartitions(*by_time)
    encoded = in_order.mapInArrow(partial(_encode, plan.surface), _QUESTIONS)
    ordered = encoded.withColumn("part", sql.spark_partition_id()).persist()
    try:
        return _planned(plan, ordered)
    finally:
        ordered.unpersist()


def _parts(spark: SparkSession) -> int:
    """Return the number of parts, which is limited: Spark's default is 200.

    Spark merges small parts, but not persisted ones.
    """
    wanted = int(spark.conf.get("spark.sql.shuffle.partitions") or _PARTS_EACH)
    return min(wanted, _PARTS_EACH * spark.sparkContext.defaultParallelism)


def _planned(plan: LoadPlan, ordered: DataFrame) -> PlannedLoad:
    gap_max_ms = None if plan.max_gap_s is None else round(plan.max_gap_s * 1000)
    asked = ordered.where(sql.col("reason").isNull())
    rows = (
        asked.select("part", "at_ms")
        .mapInArrow(partial(_stretches, gap_max_ms), "stretch binary")
        .collect()
    )
    layout = lay_out([msgspec.json.decode(row.stretch, type=Stretch) for row in rows], gap_max_ms)
    not_asked = {
        row.reason: row["count"]
        for row in ordered.where(sql.col("reason").isNotNull()).groupBy("reason").count().collect()
    }
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
    frames = _frames(plan, asked, layout.places, gap_max_ms, pacing, rounds).persist()
    try:
        lanes = [
            msgspec.json.decode(row.digest, type=LaneDigest)
            for row in frames.mapInArrow(_digest, "digest binary").collect()
        ]
        if not sum(lane.questions for lane in lanes):
            raise LoadError("no question is due within the duration")
    # The caller unpersists only the frames that it gets.
    except BaseException:
        frames.unpersist()
        raise
    return PlannedLoad(
        frames=frames, lanes=lanes, events=layout.events, not_asked=not_asked, rounds=rounds
    )


def _frames(
    plan: LoadPlan,
    asked: DataFrame,
    by_part: dict[int, Place],
    gap_max_ms: int | None,
    pacing: Pacing,
    rounds: int,
) -> DataFrame:
    counts = asked.groupBy("principal").count()
    frequent = counts.orderBy(sql.desc("count"), "principal").limit(PLACED_MAX).collect()
    spread = Spread([(row.principal, row["count"]) for row in frequent], plan.lanes)
    placed = asked.mapInArrow(partial(_place, spread, by_part, gap_max_ms), _PLACED)
    # By id instead of a hash: the partition's number must be the lane's.
    in_lanes = placed.repartitionById(plan.lanes, sql.col("lane")).sortWithinPartitions("number")
    return in_lanes.mapInArrow(partial(_frame, plan, pacing, rounds), _FRAMES)


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
        columns = [
            batch.column("at_ms"),
            pa.array([reason for reason, _ in questions], pa.string()),
            batch.column("principal"),
            batch.column("allowed"),
            pa.array([question for _, question in questions], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ENCODED)


def _stretches(gap_max_ms: int | None, batches: Batches) -> Batches:
    rows = (row for batch in batches for row in _rows(batch, "part", "at_ms"))
    found = [msgspec.json.encode(stretch) for stretch in measure_stretches(rows, gap_max_ms)]
    yield pa.RecordBatch.from_pydict({"stretch": pa.array(found, pa.binary())})


def _place(
    spread: Spread, by_part: dict[int, Place], gap_max_ms: int | None, batches: Batches
) -> Batches:
    walks = {part: place.walk(gap_max_ms) for part, place in by_part.items()}
    for batch in batches:
        placed = [walks[part].step(at_ms) for part, at_ms in _rows(batch, "part", "at_ms")]
        principals = batch.column("principal").to_pylist()
        yield pa.RecordBatch.from_pydict(
            {
                "lane": pa.array(map(spread.lane_of, principals), pa.int32()),
                "number": pa.array((number for number, _ in placed), pa.int64()),
                "elapsed_ms": pa.array((elapsed_ms for _, elapsed_ms in placed), pa.int64()),
                "allowed": batch.column("allowed"),
                "question": batch.column("question"),
            }
        )


def _frame(plan: LoadPlan, pacing: Pacing, rounds: int, batches: Batches) -> Batches:
    lane = _partition()
    # In a closed loop, all questions are due at 0, so only ``batch`` and size end a frame.
    linger_us = round(plan.linger_ms * 1000) if plan.is_open else US_PER_S
    # Each lane repeats its own part: Spark sorts the record once, whatever the number of rounds.
    timed = _timed(plan, pacing, repeat_batches(batches, rounds))
    frames = frames_of(timed, plan.surface, plan.batch, linger_us)
    waiting: list[Frame] = []
    for frame in frames:
        waiting.append(frame)
        if len(waiting) == ROWS_AT_ONCE:
            yield _frame_batch(lane, waiting)
            waiting = []
    yield _frame_batch(lane, waiting)


def _timed(
    plan: LoadPlan, pacing: Pacing, batches: Iterable[tuple[int, pa.RecordBatch]]
) -> Iterator[TimedQuestion]:
    """Yield the questions of a lane that are due before the load's end."""
    end_us = None if plan.ends_s is None else plan.ends_s * US_PER_S
    for round_number, batch in batches:
        before = round_number * pacing.events
        for number, elapsed_ms, allowed, question in _rows(
            batch, "number", "elapsed_ms", "allowed", "question"
        ):
            due_us = pacing.due_us(before + number, elapsed_ms) if plan.is_open else 0
            # Due times never decrease within a lane, so all later questions are too late as well.
            if due_us is None or (end_us is not None and due_us >= end_us):
                return
            yield TimedQuestion(due_us, allowed, question)


def _frame_batch(lane: int, frames: list[Frame]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "lane": pa.array([lane] * len(frames), pa.int32()),
            "number": pa.array([frame.number for frame in frames], pa.int64()),
            "due_us": pa.array([frame.due_us for frame in frames], pa.int64()),
            "body": pa.array([frame.body for frame in frames], pa.binary()),
            "recorded": pa.array([frame.recorded for frame in frames], pa.binary()),
        }
    )


def frames_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Frame]:
    """Yield the frames in the batches of a lane."""
    for batch in batches:
        for fields in _rows(batch, "number", "due_us", "body", "recorded"):
            yield Frame(*fields)


def _digest(batches: Batches) -> Batches:
    lane = LaneHash()
    for frame in frames_in(batches):
        lane.add(frame)
    found = msgspec.json.encode(lane.digest(_partition()))
    yield pa.RecordBatch.from_pydict({"digest": pa.array([found], pa.binary())})


def _rows(batch: pa.RecordBatch, *names: str) -> Iterator[tuple]:  # type: ignore[type-arg]
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None, "only called in a worker"
    return context.partitionId()
