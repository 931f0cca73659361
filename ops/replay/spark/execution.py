"""Run a plan: prepare the output, and run the job.

**Invariant:** a summary exists only next to the results that it describes. An earlier summary is
removed before the job begins.
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module

from pyspark.sql import SparkSession

from authorizerd.replay.plans import FollowPlan, Plan
from authorizerd.replay.spark.description import describe
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import is_occupied, remove
from authorizerd.replay.spark.progress import printing_progress
from authorizerd.replay.spark.session import is_remote


def run_plan(spark: SparkSession, plan: Plan) -> int:
    """Run the plan's job and return its exit code.

    Raises:
        JobError: a session of Spark Connect cannot run the job, or ``out`` is not empty.
    """
    if isinstance(plan, FollowPlan) and is_remote(spark):
        raise JobError("--follow: expected a driver of its own, found Spark Connect: use --master")
    command = str(plan.__struct_config__.tag)
    # An ingest adds to its table, and replaces it only with a commit.
    if command != "ingest" and is_occupied(spark, plan.out):
        if not plan.overwrite:
            raise JobError(f"--out: {plan.out}: not empty; --overwrite replaces its results")
        remove(spark, f"{plan.out}/{command}.json")
    # A watch may run for days; progress of its stages would bury its messages.
    progress = nullcontext() if isinstance(plan, FollowPlan) else printing_progress(spark)
    with progress, describe(spark, command):
        code: int = import_module(f"authorizerd.replay.{command}.job").run(spark, plan)
    return code
