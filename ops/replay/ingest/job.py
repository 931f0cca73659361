"""The job of ``replay ingest`` on Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from authorizerd.replay.ingest.adding import add
from authorizerd.replay.ingest.runs import SparkRuns
from authorizerd.replay.plans import IngestPlan


def run(spark: SparkSession, plan: IngestPlan) -> int:
    """Add the events of the plan's inputs to the table; see ``add``."""
    return add(plan, SparkRuns(spark, plan.out))
