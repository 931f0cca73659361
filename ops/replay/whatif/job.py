"""The job of ``replay whatif``: compare the decisions of other ACLs on the recorded tuples.

**Invariant:** every tuple is judged, or counted as not evaluated with the reason. ``whatif.json``
is written last, once ``changes`` is complete.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.spark import SparkRows, SparkSource
from authorizerd.replay.spark.files import write_text
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.changes import Change
from authorizerd.replay.whatif.evaluation import change_finder, make_report
from authorizerd.replay.whatif.report import WhatIf, summary_lines


def run(spark: SparkSession, plan: WhatIfPlan) -> int:
    """Write ``whatif.json`` and ``changes``; return 3 if anything is newly denied, else 0.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        OSError: a file cannot be read or written.
    """
    report = write_report(spark, plan)
    for line in summary_lines(report):
        print(line, flush=True)
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE


def write_report(spark: SparkSession, plan: WhatIfPlan) -> WhatIf:
    """Write ``changes`` and ``whatif.json``, and return the report.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        OSError: a file cannot be read or written.
    """
    source = SparkSource(spark, plan.events)
    written = f"{plan.out}/changes"
    found = source.tuples().map(change_finder(plan), Change).persist()  # the sort reads it twice
    try:
        ordered = found.orderBy("change", sql.desc("events"), *QUESTION_FIELDS)
        ordered.write.mode("overwrite").parquet(written)
    finally:
        found.unpersist()
    # Sum what was written, so that the report agrees with the files.
    changes = SparkRows(spark.read.schema(found.schema).parquet(written), Change)
    report = make_report(plan, source, changes)
    write_text(spark, f"{plan.out}/whatif.json", encode_json(report))
    return report
