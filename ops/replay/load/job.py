"""The job of ``replay load``: send recorded questions to a running daemon, and measure it.

**Invariant:** nothing is sent before the target has answered a probe and the plan is complete. Once
the first question may have been sent, ``load.json`` is written, and says whether the run is valid.
"""

from __future__ import annotations

import sys

import msgspec
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.load.checks import check_plan
from authorizerd.replay.load.lanes.connection import probe
from authorizerd.replay.load.lanes.stage import check_cluster, locate_files, send
from authorizerd.replay.load.lanes.surfaces import surface_of
from authorizerd.replay.load.lanes.target import new_context, parse_target
from authorizerd.replay.load.plan.frames import plan_hash
from authorizerd.replay.load.plan.stage import PlannedLoad, plan_load
from authorizerd.replay.load.report import LoadReport, LoadSettings, exit_code
from authorizerd.replay.load.results import LoadTerms, plan_report, with_results
from authorizerd.replay.load.summary import fault_lines, summary_lines
from authorizerd.replay.load.thresholds import parse_thresholds
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.spark.files import write_text
from authorizerd.replay.text import encode_json


def run(spark: SparkSession, plan: LoadPlan) -> int:
    """Write ``load.json``; return 0, 3 if a threshold failed, or 1 if the run is not valid.

    Raises:
        JobError, LoadError: events, plan, target or cluster are unusable; nothing was sent.
        OSError: a file cannot be read or written.
    """
    check_plan(plan)
    table = open_table(spark, plan.events)
    if not plan.dry_run:
        check_cluster(spark, plan.lanes)
        probe(
            parse_target(plan.target, plan.surface),
            surface_of(plan.surface, plan.target, plan.token),
            new_context(locate_files(plan)),
        )
    planned = plan_load(spark, plan, table.events())
    try:
        report = _planned_report(plan, planned)
        if not plan.dry_run:
            report = _sent_report(spark, plan, planned, report)
    finally:
        planned.frames.unpersist()
    write_text(spark, f"{plan.out}/load.json", encode_json(report))
    for line in summary_lines(report):
        print(line, flush=True)
    for line in fault_lines(report):
        print(line, file=sys.stderr)
    return exit_code(report)


def _sent_report(
    spark: SparkSession, plan: LoadPlan, planned: PlannedLoad, report: LoadReport
) -> LoadReport:
    terms = LoadTerms(
        warm_up_s=plan.warm_up_s,
        send_lag_max_ms=plan.max_send_lag_ms,
        thresholds=parse_thresholds(plan.fail_on),
        listed_max=plan.mismatches_listed_max,
    )
    try:
        return with_results(report, send(spark, plan, planned.frames), terms)
    except SPARK_ERRORS as error:
        reason = f"the sending stage failed, so it is unknown how much it sent: {one_line(error)}"
        return msgspec.structs.replace(report, valid=False, invalid_reasons=[reason])


def _planned_report(plan: LoadPlan, planned: PlannedLoad) -> LoadReport:
    return LoadReport(
        run_id=plan.run_id,
        target=plan.target,
        surface=plan.surface,
        mode=plan.mode,
        dry_run=plan.dry_run,
        settings=LoadSettings.of(plan),
        plan=plan_report(
            planned.lanes,
            hash=plan_hash(planned.lanes),
            events=planned.events,
            not_asked=planned.not_asked,
            rounds=planned.rounds,
        ),
    )
