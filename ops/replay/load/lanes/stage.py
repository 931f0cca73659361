"""The sending stage of a load: one task a lane, all at once, each with a connection of its own.

**Invariant:** no question is sent twice. The stage is not one that Spark makes again: its tasks
give straight to the driver, they are not speculated on, and a second attempt of one sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.driving import drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.stage import ROWS_AT_ONCE, frames_in
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.spark.arrow_map import map_in_arrow

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPECULATION: Final = "spark.speculation"
_FAILURES: Final = "spark.task.maxFailures"
_SLOTS_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.5


def check_cluster(spark: SparkSession, lanes: int, seconds: float = _SLOTS_SECONDS) -> None:
    """See that Spark runs every task once, and has a slot for each lane.

    Args:
        seconds: how long executors that are starting are waited for.

    Raises:
        LoadError: it does not, or has not.
    """
    settings, master = spark.sparkContext.getConf(), str(spark.sparkContext.master)
    refusal = attempts_refusal(
        master,
        failures=settings.get(_FAILURES),
        speculation=settings.get(_SPECULATION),
    )
    if refusal is not None:
        raise LoadError(refusal)
    give_up = time.monotonic() + (0 if master.startswith("local") else seconds)
    while (slots := _slots(spark)) < lanes:
        if time.monotonic() >= give_up:
            raise LoadError(
                f"lanes: {lanes} need as many task slots at once, and Spark has {slots}: "
                "fewer --lanes, or more cores for the executors"
            )
        time.sleep(_LOOK_SECONDS)


def attempts_refusal(master: str, *, failures: str | None, speculation: str | None) -> str | None:
    """Return why a task could run twice under these settings, None where it cannot."""
    if speculation == "true":
        return f"{_SPECULATION} is true: a task that ran twice would send its load twice"
    _, comma, local_failures = master.removesuffix("]").partition(",")
    if master.startswith("local"):
        # A local master has its own count, 1 unless it is named: local[THREADS,FAILURES].
        failures = local_failures.strip() if comma else "1"
    if failures != "1":
        shown = "not set, so 4" if failures is None else failures
        return f"{_FAILURES} is {shown}: must be 1, or a task that failed would send its load again"
    return None


def send(spark: SparkSession, plan: LoadPlan, frames: DataFrame) -> list[LaneResult]:
    """Send the planned frames and return what each lane tells.

    Raises:
        LoadError: a lane could not begin, so none has.
    """
    rows_before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, ROWS_AT_ONCE)
    try:
        sending = map_in_arrow(frames, partial(_send, plan), "result binary", barrier=True)
        rows = sending.collect()
    finally:
        spark.conf.set(_BATCH_ROWS, str(rows_before))
    results = [msgspec.json.decode(row.result, type=LaneResult) for row in rows]
    for result in results:
        if result.refused is not None:
            raise LoadError(result.refused)
    return results


def _send(plan: LoadPlan, batches: Batches) -> Batches:
    context = BarrierTaskContext.get()
    assert context is not None, "a task of a barrier has one"
    attempt = context.attemptNumber()
    result = drive(
        plan,
        context.partitionId(),
        frames_in(batches),
        context.allGather,
        refused=f"this is attempt {attempt + 1}, and one is all there may be" if attempt else None,
    )
    for _ in batches:  # what an early end has left: Spark's other side waits until it is read
        pass
    yield pa.RecordBatch.from_pydict(
        {"result": pa.array([msgspec.json.encode(result)], pa.binary())}
    )


def _slots(spark: SparkSession) -> int:
    """Return how many tasks can run at once."""
    context = spark.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))
