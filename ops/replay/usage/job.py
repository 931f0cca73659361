"""The job of ``replay usage``: which ACLs recorded traffic used, and which narrower ones it needs.

**Invariant:** the job claims only what the evidence supports. Otherwise it writes nothing and exits
with code 1.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import remove_file, write_text
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.evaluation import evaluate
from authorizerd.replay.usage.report import UsageReport
from authorizerd.replay.usage.summary import summary
from authorizerd.replay.usage.sums import Workers, tuples_within, window_report
from authorizerd.replay.usage.window import check_ages, window_of


def run(spark: SparkSession, plan: UsagePlan) -> int:
    """Write ``usage.json`` and ``commands.sh``, print a summary, and return the exit code.

    Raises:
        OSError: the events cannot be read, or the results cannot be written.
    """
    # If this run fails, the script of an earlier run must not remain.
    remove_file(spark, f"{plan.out}/commands.sh")
    try:
        report, commands = _usage(spark, plan)
    except (JobError, UsageError) as error:
        print(error, file=sys.stderr)
        return EXIT_FAULT
    write_text(spark, f"{plan.out}/commands.sh", commands)
    # The summary is written last, so it exists only next to complete results.
    write_text(spark, f"{plan.out}/usage.json", encode_json(report))
    for line in summary(report):
        print(line)
    return EXIT_DONE


def _usage(spark: SparkSession, plan: UsagePlan) -> tuple[UsageReport, str]:
    """Return the report, and the script that carries out its suggestions."""
    table = open_table(spark, plan.events)
    window = window_of(table.ingested, plan.lookback_days)
    check_ages(plan.acls, assume_in_force=plan.assume_in_force)
    # Persisted, since the sums and each pass of the proof read them.
    tuples = tuples_within(table.events(), window).persist()
    workers = Workers(spark, tuples, plan.acls)
    try:
        # Before the costly sums, since it rejects a window that can prove nothing.
        seen = window_report(tuples, window, plan.lookback_days)
        return evaluate(plan, window, seen, workers)
    finally:
        workers.free()
        tuples.unpersist()
