"""The sending stage of a load, on Spark: one barrier task per lane, each with its own connection.

**Invariant:** no question is sent twice. A task reads all of its input, and packs its frames,
before the barrier. After the barrier, no part of the stage can run again: its tasks return their
results directly to the driver, speculation is off, and neither a task nor the stage is retried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext, SparkFiles
from pyspark.sql import SparkSession

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.connection import connect
from authorizerd.replay.load.lanes.driving import drive
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.lanes.target import TLS_FILES
from authorizerd.replay.load.plan.frames import LaneDigest, pack_lane, read_frames, temporary_file
from authorizerd.replay.load.plan.pacing import Pacing
from authorizerd.replay.load.plan.stage import PlannedLoad, task_number
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]

_ATTEMPTS: Final = ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts")
_TOO_FEW_SLOTS: Final = "SPARK-24819"
"""Part of Spark's error for a barrier stage with more tasks than the cluster can run at once."""


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


def run_lanes(plan: LoadPlan, planned: PlannedLoad) -> list[LaneResult]:
    """Pack the frames of each lane, send them unless it is a dry run, and return the results.

    Raises:
        LoadError: a lane was not ready, so no lane has sent anything.
    """
    function = partial(_run_lane, plan, planned.pacing, planned.rounds)
    running = planned.questions.mapInArrow(function, "result binary", barrier=not plan.dry_run)
    results = [msgspec.msgpack.decode(row.result, type=LaneResult) for row in running.collect()]
    for result in results:
        if result.refused is not None:
            raise LoadError(result.refused)
    if not any(result.planned.questions for result in results):
        raise LoadError("no question is due within the duration")
    return results


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


def _run_lane(plan: LoadPlan, pacing: Pacing, rounds: int, batches: Batches) -> Batches:
    planned = LaneDigest(lane=task_number(), digest="")
    refused: str | None = None
    with temporary_file() as file:
        try:
            planned = pack_lane(plan, pacing, rounds, planned.lane, batches, file)
        except OSError as error:
            refused = f"its frames cannot be written: {error}"
        deque(batches, maxlen=0)  # after an error as well: Spark waits until they are read
        if plan.dry_run:
            result = LaneResult(planned=planned, refused=refused)
        else:
            context = BarrierTaskContext.get()
            if attempt := context.attemptNumber():
                refused = f"Spark started attempt {attempt + 1}; only one may send"
            frames, gather = read_frames(file), context.allGather
            result = drive(locate_files(plan), planned, frames, gather, refused=refused)
    encoded = pa.array([msgspec.msgpack.encode(result)], pa.binary())
    yield pa.RecordBatch.from_pydict({"result": encoded})
