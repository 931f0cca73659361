"""The job of ``replay whatif``: compare the decisions of other ACLs on the recorded tuples.

**Invariant:** every tuple is judged, or counted as not evaluated with the reason. ``whatif.json``
is written last, once ``changes`` is complete.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.spark import SparkEngine
from authorizerd.replay.whatif import evaluation


def run(spark: SparkSession, plan: WhatIfPlan) -> int:
    """Write ``whatif.json`` and ``changes``; return the exit code of ``print_summary``.

    Raises:
        JobError: ``events`` is not the output of an accepted ingest.
        OSError: a file cannot be read or written.
    """
    return evaluation.run(plan, SparkEngine(spark, plan.events, plan.out))
