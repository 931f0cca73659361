"""The lines that the console shows after a run; ``load.json`` has all figures."""

from __future__ import annotations

from collections.abc import Iterator

from authorizerd.replay.load.report import LoadReport, Percentiles
from authorizerd.replay.text import format_count

_MISMATCHES_SHOWN = 3


def summary_lines(report: LoadReport) -> Iterator[str]:
    """Yield the plan and the results of a run."""
    plan = report.plan
    yield (
        f"run {report.run_id}: {plan.questions} questions in {plan.frames} frames on "
        f"{len(plan.lanes)} lanes, {plan.planned_s:.3f} s, plan {plan.hash}"
    )
    for reason, events in plan.not_asked.items():
        yield f"not asked: {format_count(events, 'event')}: {reason}"
    if report.latency is None:
        return
    yield (
        f"sent {report.sent}, answered {report.answered}, mismatches {report.mismatches}, "
        f"errors {sum(report.errors.values())}, unanswered {report.unanswered}, "
        f"dropped {report.dropped}, late {report.late}, not sent {report.not_sent}"
    )
    for error, count in report.errors.items():
        yield f"error {error}: {format_count(count, 'question')}"
    yield f"offered {_rate(report.offered_per_s)}, served {_rate(report.served_per_s)}"
    yield f"latency   {_latency(report.latency.corrected)}"
    yield f"service   {_latency(report.latency.service)}"
    yield f"send lag  {_latency(report.latency.send_lag)}"
    for mismatch in report.first_mismatches[:_MISMATCHES_SHOWN]:
        recorded, answered = (
            "allowed" if allowed else "denied" for allowed in (mismatch.recorded, mismatch.answered)
        )
        yield f"mismatch: {mismatch.question}: recorded {recorded}, answered {answered}"


def fault_lines(report: LoadReport) -> Iterator[str]:
    """Yield why a run is not valid, and which thresholds failed."""
    if report.death is not None:
        yield f"target {report.target} was lost at {report.death.at}: {report.death.reason}"
    for reason in report.invalid_reasons:
        yield f"not valid: {reason}"
    for verdict in report.thresholds:
        if not verdict.passed:
            yield f"threshold {verdict.threshold} failed: measured {verdict.measured_text}"


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:.0f}/s"


def _latency(of: Percentiles) -> str:
    figures = {
        "p50": of.p50_ms, "p90": of.p90_ms, "p99": of.p99_ms, "p99.9": of.p99_9_ms, "max": of.max_ms
    }  # fmt: skip
    shown = (f"{name} {'-' if ms is None else f'{ms:.3f}'}" for name, ms in figures.items())
    return f"{', '.join(shown)} ms"
