"""The job of ``replay usage``: which ACLs recorded traffic used, and which narrower ones it needs.

**Invariant:** the job claims only what the evidence supports. Otherwise it writes nothing, and an
error ends it.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.recorded.spark import SparkSource
from authorizerd.replay.spark.files import remove_file, write_text
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage.evaluation import evaluate
from authorizerd.replay.usage.summary import summary


def run(spark: SparkSession, plan: UsagePlan) -> int:
    """Write ``usage.json`` and ``commands.sh``, print a summary, and return the exit code.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        UsageError: the evidence supports no claim.
        OSError: the events cannot be read, or the results cannot be written.
    """
    # If this run fails, the script of an earlier run must not remain.
    remove_file(spark, f"{plan.out}/commands.sh")
    try:
        report, commands = evaluate(plan, SparkSource(spark, plan.events))
    finally:
        spark.catalog.clearCache()
    write_text(spark, f"{plan.out}/commands.sh", commands)
    # The summary is written last, so it exists only next to complete results.
    write_text(spark, f"{plan.out}/usage.json", encode_json(report))
    for line in summary(report):
        print(line)
    return EXIT_DONE
