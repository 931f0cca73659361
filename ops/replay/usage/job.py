"""The job of ``replay usage``: which ACLs recorded traffic used, and which narrower ones it needs.

**Invariant:** the job claims only what the evidence supports. Otherwise it writes nothing and exits
with code 1.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.ingest.ingested_events import read_accepted
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import remove_file, write_text
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage.commands import script
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.matching import distinct
from authorizerd.replay.usage.proving import prove
from authorizerd.replay.usage.report import (
    Proof,
    UsageReport,
    WindowReport,
    sort_acls,
    suggestions_report,
)
from authorizerd.replay.usage.suggestions import Suggestions, keep_resources_closed, suggest
from authorizerd.replay.usage.summary import script_comments, summary
from authorizerd.replay.usage.sums import Summed, Workers, tuples_within, window_report
from authorizerd.replay.usage.window import Age, Window, age_of, check_ages, window_of


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
    window = window_of(read_accepted(spark, plan.events), plan.lookback_days)
    check_ages(plan.acls, assume_in_force=plan.assume_in_force)
    # Persisted, since the sums and each pass of the proof read them.
    tuples = tuples_within(spark.read.parquet(f"{plan.events}/events"), window).persist()
    workers = Workers(spark, tuples, plan.acls)
    try:
        # Before the costly sums, since it rejects a window that can prove nothing.
        seen = window_report(tuples, window, plan.lookback_days)
        summed = workers.sum_uses(plan.names_max)
        suggestions, proof = _suggested(plan, window, seen, summed, workers)
    finally:
        workers.free()
        tuples.unpersist()
    report = _report(plan, window, seen, summed, suggestions, proof)
    return report, _script(report, plan.acls, suggestions)


def _suggested(
    plan: UsagePlan, window: Window, seen: WindowReport, summed: Summed, workers: Workers
) -> tuple[Suggestions, Proof | None]:
    """Return the suggestions that follow from the use and contradict no recorded request."""
    judged = [
        item.acl
        for item in distinct(plan.acls)
        if age_of(item, window, assume_in_force=plan.assume_in_force) is Age.IN_FORCE
    ]
    suggestions = suggest(judged, summed.usage, names_max=plan.names_max)
    suggestions = keep_resources_closed(plan.acls, suggestions)
    evaluated = seen.tuples - sum(count.tuples for count in summed.not_evaluated.values())
    return prove(plan.acls, suggestions, workers.compare, tuples=evaluated)


def _report(
    plan: UsagePlan,
    window: Window,
    seen: WindowReport,
    summed: Summed,
    suggestions: Suggestions,
    proof: Proof | None,
) -> UsageReport:
    found = sort_acls(plan.acls, summed.usage, window, assume_in_force=plan.assume_in_force)
    return UsageReport(
        acls=JudgedBy.of(plan.acls),
        window=seen,
        assumed_in_force=plan.assume_in_force,
        not_evaluated=summed.not_evaluated,
        by_super_users=summed.by_super_users,
        disagreeing=summed.disagreeing,
        used=found.used,
        unused=found.unused,
        not_judged=found.not_judged,
        suggestions=suggestions_report(suggestions, summed.usage, proof),
    )


def _script(report: UsageReport, acl_set: AclSet, suggestions: Suggestions) -> str:
    acls = [item.acl for item in distinct(acl_set)]
    resulting = suggestions.resulting(acls)
    before, after = set(acls), set(resulting)
    return script(
        script_comments(report),
        added=[acl for acl in resulting if acl not in before],
        removed=[acl for acl in acls if acl not in after],
    )
