"""The job of ``replay usage``: which ACLs recorded traffic used, and which narrower ones it needs.

**Invariant:** the job claims only what the evidence supports. Otherwise it writes nothing, and an
error ends it.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.recorded.spark import SparkEngine
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.usage import evaluation


def run(spark: SparkSession, plan: UsagePlan) -> int:
    """Write ``usage.json`` and ``commands.sh``, print a summary, and return the exit code.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        UsageError: the evidence supports no claim.
        OSError: the events cannot be read, or the results cannot be written.
    """
    # If this run fails, the script of an earlier run must not remain.
    open_storage(spark, plan.out).remove(f"{plan.out}/commands.sh")
    try:
        return evaluation.run(plan, SparkEngine(spark, plan.events, plan.out))
    finally:
        spark.catalog.clearCache()
