"""The job of ``replay load``: send recorded questions to a running daemon, and measure it.

**Invariant:** nothing is sent before the target has answered every lane and the plan is complete.
Once the first question may have been sent, ``load.json`` is written, and says whether the run is
valid.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.load.checks import check_plan
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.stage import check_lanes, run_lanes
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.stage import PlannedLoad, plan_load
from authorizerd.replay.load.report import LoadReport, exit_code
from authorizerd.replay.load.results import planned_report, with_results
from authorizerd.replay.load.summary import fault_lines, summary_lines
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.spark.files import write_text
from authorizerd.replay.text import encode_json

JOB_SECONDS_MAX: Final = 120.0
"""Time limit of a job of Spark after the sending stage."""


def run(spark: SparkSession, plan: LoadPlan) -> int:
    """Write ``load.json``; return 0, 3 if a threshold failed, or 1 if the run is not valid.

    Raises:
        JobError, LoadError: events, plan, target or cluster are unusable; nothing was sent.
        OSError: a file cannot be read or written.
    """
    check_plan(plan)
    table = open_table(spark, plan.events)
    if not plan.dry_run:
        check_lanes(spark, plan)
    with plan_load(plan, table.events()) as planned:
        report = _run_lanes(spark, plan, planned)
    _write(spark, plan, report)
    for line in summary_lines(report):
        print(line, flush=True)
    for line in fault_lines(report):
        print(line, file=sys.stderr)
    return exit_code(report)


def _run_lanes(spark: SparkSession, plan: LoadPlan, planned: PlannedLoad) -> LoadReport:
    try:
        results = run_lanes(plan, planned)
    except SPARK_ERRORS as error:
        if plan.dry_run:
            raise
        reason = f"the sending stage failed, so it is unknown how much it sent: {one_line(error)}"
        failed = {"valid": False, "invalid_reasons": [reason]}
        # Before packing again, which fails if Spark has lost its executors.
        _write(spark, plan, msgspec.structs.replace(_report(plan, planned, []), **failed))
        report = _report(plan, planned, _pack_again(spark, plan, planned))
        return msgspec.structs.replace(report, **failed)
    report = _report(plan, planned, results)
    return report if plan.dry_run else with_results(report, results, plan)


def _report(plan: LoadPlan, planned: PlannedLoad, results: list[LaneResult]) -> LoadReport:
    pacing = planned.pacing
    return planned_report(
        plan, results, events=pacing.events, rounds=planned.rounds, not_asked=planned.not_asked
    )


def _write(spark: SparkSession, plan: LoadPlan, report: LoadReport) -> None:
    with _time_limit(spark):
        write_text(spark, f"{plan.out}/load.json", encode_json(report))


def _pack_again(spark: SparkSession, plan: LoadPlan, planned: PlannedLoad) -> list[LaneResult]:
    """Return the planned lanes after the sending stage failed; none if packing fails as well."""
    try:
        with _time_limit(spark):
            return run_lanes(msgspec.structs.replace(plan, dry_run=True), planned)
    except (LoadError, *SPARK_ERRORS):
        return []


@contextmanager
def _time_limit(spark: SparkSession) -> Iterator[None]:
    """Interrupt the session's jobs after a time; without executors, Spark would wait forever."""
    is_over = threading.Event()

    def interrupt() -> None:
        # Job tags would not work: in Spark 4.1, they apply only to the thread that added them.
        while not is_over.wait(JOB_SECONDS_MAX):
            spark.interruptAll()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
