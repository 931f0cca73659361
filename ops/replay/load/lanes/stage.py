"""The sending stage of a load, on Spark: one barrier task per lane, each with its own connection.

**Invariant:** no question is sent twice. Spark never recomputes this stage: its tasks return their
results directly to the driver, speculation is off, and a second attempt of a task sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext, SparkFiles
from pyspark.sql import DataFrame, SparkSession

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.driving import drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.lanes.target import TLS_FILES
from authorizerd.replay.load.plan.stage import ROWS_AT_ONCE, frames_in
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPECULATION: Final = "spark.speculation"
_FAILURES: Final = "spark.task.maxFailures"
_SLOTS_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.5


def check_cluster(spark: SparkSession, lanes: int, seconds: float = _SLOTS_SECONDS) -> None:
    """Check that Spark runs every task only once, and has a slot for each lane.

    Args:
        seconds: maximum wait for executors that are starting.

    Raises:
        LoadError: a task could run twice, or there are too few slots.
    """
    settings, master = spark.sparkContext.getConf(), str(spark.sparkContext.master)
    refusal = attempts_refusal(
        master,
        failures=settings.get(_FAILURES),
        speculation=settings.get(_SPECULATION),
    )
    if refusal is not None:
        raise LoadError(refusal)
    # A local master starts with all of its slots.
    give_up = time.monotonic() + (0 if master.startswith("local") else seconds)
    while (slots := _slots(spark)) < lanes:
        if time.monotonic() >= give_up:
            raise LoadError(
                f"{lanes} lanes need {lanes} task slots, and Spark has {slots}: use fewer --lanes, "
                "or give the executors more cores"
            )
        time.sleep(_LOOK_SECONDS)


def attempts_refusal(master: str, *, failures: str | None, speculation: str | None) -> str | None:
    """Return why a task could run twice with these settings, or None if it cannot."""
    if speculation == "true":
        return f"{_SPECULATION} is true: set it to false, or a task could send its load twice"
    _, comma, local_failures = master.removesuffix("]").partition(",")
    if master.startswith("local"):
        # A local master ignores the setting: local[THREADS,FAILURES], with a default of 1.
        failures = local_failures.strip() if comma else "1"
    if failures != "1":
        shown = "not set, which means 4" if failures is None else failures
        return f"{_FAILURES} is {shown}: set it to 1, or a failed task would send its load again"
    return None


def send(spark: SparkSession, plan: LoadPlan, frames: DataFrame) -> list[LaneResult]:
    """Send the planned frames and return the result of each lane.

    Raises:
        LoadError: a lane was not ready, so no lane has sent anything.
    """
    rows_before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, ROWS_AT_ONCE)
    try:
        sending = frames.mapInArrow(partial(_send, plan), "result binary", barrier=True)
        rows = sending.collect()
    finally:
        spark.conf.set(_BATCH_ROWS, str(rows_before))
    results = [msgspec.json.decode(row.result, type=LaneResult) for row in rows]
    for result in results:
        if result.refused is not None:
            raise LoadError(result.refused)
    return results


def locate_files(plan: LoadPlan) -> LoadPlan:
    """Return the plan with the paths of its TLS files on this machine, a driver or an executor.

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


def _send(plan: LoadPlan, batches: Batches) -> Batches:
    context = BarrierTaskContext.get()
    assert context is not None, "only called in a barrier task"
    attempt = context.attemptNumber()
    result = drive(
        locate_files(plan),
        context.partitionId(),
        frames_in(batches),
        context.allGather,
        refused=f"Spark started attempt {attempt + 1}; only one may send" if attempt else None,
    )
    for _ in batches:  # read the rest after an early end, since Spark waits for it
        pass
    yield pa.RecordBatch.from_pydict(
        {"result": pa.array([msgspec.json.encode(result)], pa.binary())}
    )


def _slots(spark: SparkSession) -> int:
    """Return the number of tasks that can run at the same time."""
    context = spark.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))
