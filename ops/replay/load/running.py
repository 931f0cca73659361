"""Run a planned load, and write and show its results, with or without Spark.

**Invariant:** before a question may be sent, ``load.json`` says that the run is not valid. So
whatever ends the run early, there is no result that looks complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec.structs import replace

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.tally import LaneResult, Mismatch
from authorizerd.replay.load.plan.pacing import Schedule
from authorizerd.replay.load.report import (
    PERCENTILE_FIELDS,
    LoadReport,
    Percentiles,
    exit_code,
    planned_report,
    with_results,
)
from authorizerd.replay.plain_files import Storage
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.text import encode_json, format_count

_MISMATCHES_SHOWN = 3
_UNFINISHED = "the load did not end, so it is unknown how much it sent"


def run_load(
    plan: LoadPlan, schedule: Schedule, storage: Storage, run_lanes: Callable[[], list[LaneResult]]
) -> int:
    """Write ``load.json``; return 0, 3 if a threshold failed, or 1 if the run is not valid.

    Raises:
        LoadError: a lane was not ready; nothing was sent, and there is no result.
        OSError: a file cannot be written.
    """
    path = f"{plan.out}/load.json"

    def write(report: LoadReport) -> None:
        storage.replace(path, encode_json(report).encode())

    if not plan.dry_run:
        unfinished = planned_report(plan, schedule, [])
        write(replace(unfinished, valid=False, invalid_reasons=[_UNFINISHED]))
    try:
        results = run_lanes()
        for refused in (each.refused for each in results if each.refused is not None):
            raise LoadError(refused)
        if not any(result.planned.questions for result in results):
            raise LoadError("no question is due within the duration")
    except LoadError:
        storage.remove(path)
        raise
    report = planned_report(plan, schedule, results)
    if not plan.dry_run:
        report = with_results(report, results, plan)
    write(report)
    for line in summary_lines(report):
        print(line, flush=True)
    for line in fault_lines(report):
        print(line, file=sys.stderr)
    return exit_code(report)


def summary_lines(report: LoadReport) -> Iterator[str]:
    """Yield the plan and the results of a run."""
    plan = report.plan
    yield (
        f"run {report.run_id}: {format_count(plan.questions, 'question')} in "
        f"{format_count(plan.frames, 'frame')} on {format_count(len(plan.lanes), 'lane')}, "
        f"{plan.planned_s:.3f} s, plan {plan.hash}"
    )
    for reason, events in plan.not_asked.items():
        yield f"not asked: {format_count(events, 'event')}: {reason}"
    if report.latency is None:
        return
    yield (
        f"sent {report.sent:,}, answered {report.answered:,}, mismatches {report.mismatches:,}, "
        f"errors {sum(report.errors.values()):,}, unanswered {report.unanswered:,}, "
        f"dropped {report.dropped:,}, late {report.late:,}, not sent {report.not_sent:,}"
    )
    for error, count in report.errors.items():
        yield f"error {error}: {format_count(count, 'question')}"
    yield f"offered {_rate(report.offered_per_s)}, served {_rate(report.served_per_s)}"
    yield f"latency   {_latency(report.latency.corrected)}"
    yield f"service   {_latency(report.latency.service)}"
    yield f"send lag  {_latency(report.latency.send_lag)}"
    if report.settings.reconnect_s is not None:
        yield (
            f"reconnects {report.reconnects:,}, longest outage {report.longest_outage_s:.3f} s, "
            f"answers lost and asked again {report.lost:,}"
        )
    shown = dict.fromkeys(map(_mismatch, report.first_mismatches))  # a loop repeats questions
    yield from islice(shown, _MISMATCHES_SHOWN)


def fault_lines(report: LoadReport) -> Iterator[str]:
    """Yield why a run is not valid, and which thresholds failed."""
    if report.death is not None:
        yield f"target {report.target} was lost at {report.death.at}: {report.death.reason}"
    for reason in report.invalid_reasons:
        yield f"not valid: {reason}"
    for verdict in report.thresholds:
        if not verdict.passed:
            yield f"threshold {verdict.threshold} failed: measured {verdict.measured_text}"


def _mismatch(one: Mismatch) -> str:
    principal, host, operation, kind, name = one.question
    if isinstance(operation, int) and isinstance(kind, int):  # over HTTP, they are names
        operation, kind = Operation(operation).name, ResourceType(kind).name
    recorded, answered = (
        "allowed" if is_allowed else "denied" for is_allowed in (one.recorded, one.answered)
    )
    return escape_unprintable(
        f"mismatch: {principal} {operation} {kind} {name} from "
        f"{'an unknown host' if host is None else host}: recorded {recorded}, answered {answered}"
    )


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.0f}/s"


def _latency(of: Percentiles) -> str:
    figures = {name: getattr(of, field) for name, field in PERCENTILE_FIELDS.items()}
    shown = (f"{name} {'-' if ms is None else f'{ms:.3f}'}" for name, ms in figures.items())
    return f"{', '.join(shown)} ms"
