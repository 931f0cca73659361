"""The job of ``replay load`` on Spark: one barrier task for each lane, with its own connection.

**Invariant:** nothing is sent before the target has answered every lane and the plan is complete.
No question is sent twice. A task reads all of its input, and packs its frames, before the barrier.
After the barrier, no part of the stage can run again: its tasks return their results directly to
the driver, speculation is off, and neither a task nor the stage is retried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark import BarrierTaskContext, SparkFiles, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import LoadError
from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.load.checks import check_plan
from authorizerd.replay.load.lanes.connection import TLS_FILES, connect
from authorizerd.replay.load.lanes.driving import run_lane
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.ordering import (
    BY_TIME,
    PLACED_MAX,
    Spread,
    add_lanes,
    encode_questions,
    number_questions,
)
from authorizerd.replay.load.plan.pacing import Schedule, make_schedule
from authorizerd.replay.load.running import run_load
from authorizerd.replay.load.surfaces import RecordedQuestion
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.spark.storage import open_storage

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

_MARGIN_S: Final = 3.0
"""Longer than the second by which tasks leave Spark's barrier apart."""
_ATTEMPTS: Final = ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts")
_TOO_FEW_SLOTS: Final = "SPARK-24819"
"""Part of Spark's error for a barrier stage with more tasks than the cluster can run at once."""
_ENCODED: Final = (
    "at_ms bigint, run string, sequence bigint, principal string, allowed boolean, reason string, "
    "question binary"
)
_NUMBERED: Final = f"{_ENCODED}, number bigint, elapsed_ms bigint"


def run(spark: SparkSession, plan: LoadPlan) -> int:
    """Write ``load.json``; return 0, 3 if a threshold failed, or 1 if the run is not valid.

    Raises:
        JobError, LoadError: events, plan, target or cluster are unusable; nothing was sent.
        OSError: a file cannot be read or written.
    """
    check_plan(plan)
    if plan.start_margin_s is None:
        plan = replace(plan, start_margin_s=_MARGIN_S)
    table = open_table(spark, plan.events)
    if not plan.dry_run:
        check_lanes(spark, plan)
    with plan_load(plan, table.events()) as (schedule, questions):
        lanes = partial(run_lanes, plan, schedule, questions)
        return run_load(plan, schedule, open_storage(spark, plan.out), lanes)


@contextmanager
def plan_load(plan: LoadPlan, recorded: DataFrame) -> Iterator[tuple[Schedule, DataFrame]]:
    """Plan the load of the ``recorded`` events.

    Yield its schedule, and its encoded questions for use within the block: one partition for each
    lane, in order.

    Raises:
        LoadError: there are no questions, or too many.
    """
    at_ms = sql.unix_millis("at").alias("at_ms")
    names = RecordedQuestion.__struct_fields__
    events = recorded.select(at_ms, *BY_TIME[1:], "allowed", *names)
    encoded = events.mapInArrow(partial(encode_questions, plan.surface), _ENCODED)
    # One task sorts and numbers all events, which is cheap for each: encoding them is not.
    in_order = encoded.repartition(1).sortWithinPartitions(*BY_TIME)
    numbered = in_order.mapInArrow(partial(number_questions, plan.max_gap_s), _NUMBERED).persist()
    try:
        asked = numbered.where("reason IS NULL")
        reasons = numbered.groupBy("reason").agg(sql.count("*"), sql.max("elapsed_ms")).collect()
        not_asked = {reason: count for reason, count, _ in reasons}
        elapsed_ms = next((elapsed for reason, _, elapsed in reasons if reason is None), None)
        schedule = make_schedule(plan, not_asked.pop(None, 0), elapsed_ms, not_asked)
        frequent = asked.groupBy("principal").count().orderBy(sql.desc("count"), "principal")
        counts = [(row.principal, row["count"]) for row in frequent.limit(PLACED_MAX).collect()]
        place = partial(add_lanes, Spread(counts, plan.lanes))
        placed = asked.mapInArrow(place, f"{_NUMBERED}, lane int")
        # Partition by id, not by hash: the partition's number must be the lane's.
        in_lanes = placed.repartitionById(plan.lanes, sql.col("lane"))
        yield schedule, in_lanes.sortWithinPartitions("number")
    finally:
        numbered.unpersist()


def check_lanes(spark: SparkSession, plan: LoadPlan) -> None:
    """Check that tasks run only once, and that each lane has a slot and can ask the target.

    Raises:
        LoadError: a task could run twice, there are too few slots, or the target rejects a lane.
    """
    refusal = attempts_refusal(lambda name: spark.conf.get(name, None))
    if refusal is not None:
        raise LoadError(refusal)
    one_each = spark.range(0, plan.lanes, 1, plan.lanes)
    probing = one_each.mapInArrow(partial(_probe, plan), "refused string", barrier=True)
    try:
        rows = probing.collect()
    except Exception as error:
        if _TOO_FEW_SLOTS not in str(error):
            raise
        raise LoadError(
            f"{plan.lanes} lanes need {plan.lanes} task slots, but Spark has fewer: use fewer "
            "--lanes, or give the executors more cores"
        ) from None
    for row in rows:
        if row.refused is not None:
            raise LoadError(row.refused)


def attempts_refusal(setting: Callable[[str], str | None]) -> str | None:
    """Return why a task could run twice with these Spark settings, or None if it cannot."""
    if setting("spark.speculation") == "true":
        return "spark.speculation is true: set it to false, or a task could send its load twice"
    attempts = {name: setting(name) for name in _ATTEMPTS}
    master = setting("spark.master") or ""
    if master == "local" or master.startswith("local["):
        # A local master never loses its executor, and takes local[THREADS,FAILURES] instead of
        # these settings.
        _, comma, failures = master.removesuffix("]").partition(",")
        attempts = {_ATTEMPTS[0]: failures.strip() if comma else "1"}
    for name, found in attempts.items():
        if found != "1":
            shown = "not set, which means 4" if found is None else found
            return f"{name} is {shown}: set it to 1, or a failed task would send its load again"
    return None


def run_lanes(plan: LoadPlan, schedule: Schedule, questions: DataFrame) -> list[LaneResult]:
    """Run each lane in a task, and return the results.

    Raises:
        LoadError: a lane was not ready, so no lane has sent anything.
    """
    function = partial(_run_lane, plan, schedule)
    running = questions.mapInArrow(function, "result binary", barrier=not plan.dry_run)
    return [msgspec.msgpack.decode(row.result, type=LaneResult) for row in running.collect()]


def locate_files(plan: LoadPlan) -> LoadPlan:
    """Return the plan with the paths of its TLS files on this executor.

    If Spark has copied a file to this machine, the path is the copy's. Other paths stay unchanged.
    """
    brought = Path(SparkFiles.getRootDirectory())
    paths = {name: getattr(plan, name) for name in TLS_FILES}
    located = {
        name: str(brought / path)
        for name, path in paths.items()
        if path is not None and (brought / path).exists()
    }
    return msgspec.structs.replace(plan, **located)


def _probe(plan: LoadPlan, batches: Batches) -> Batches:
    deque(batches, maxlen=0)
    refused = None
    try:
        connected, _ = connect(locate_files(plan))
        connected.close()
    except LoadError as error:
        refused = str(error)
    yield pa.RecordBatch.from_pydict({"refused": pa.array([refused], pa.string())})


def _run_lane(plan: LoadPlan, schedule: Schedule, batches: Batches) -> Batches:
    refused, here = None, TaskContext.get()
    assert here is not None, "only called in a task"
    gather: Callable[[str], list[str]] = lambda text: [text]  # noqa: E731 - unused in a dry run
    if not plan.dry_run:
        context = BarrierTaskContext.get()
        gather = context.allGather
        if attempt := context.attemptNumber():
            refused = f"Spark started attempt {attempt + 1}; only one may send"
    result = run_lane(
        locate_files(plan), schedule, here.partitionId(), batches, gather, refused=refused
    )
    encoded = pa.array([msgspec.msgpack.encode(result)], pa.binary())
    yield pa.RecordBatch.from_pydict({"result": encoded})
