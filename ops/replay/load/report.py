"""``load.json``: what one run of the load did, for people and for programs.

**Invariant:** planned = sent + dropped + not sent, and sent = answered + errors + unanswered. A run
whose generator was late, or that ended before its time, is not valid, whatever else it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from authorizerd.replay.load.frames import LaneDigest
from authorizerd.replay.load.histogram import Histogram, merged
from authorizerd.replay.load.settings import LoadSettings
from authorizerd.replay.load.tally import LaneResult, Mismatch
from authorizerd.replay.load.thresholds import PERCENTILES, RATE, Threshold, Verdict, judge
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_FAULT


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be asked. ``hash`` is of every frame and its time: equal plans have equal ones.

    ``not_asked`` counts events that cannot be asked, by reason; ``rounds`` is how often the events
    are asked, ``planned_s`` when the last frame is due.
    """

    hash: str
    events: int
    not_asked: dict[str, int]
    rounds: int
    questions: int
    frames: int
    lanes: list[int]
    """Questions, by lane."""
    planned_s: float


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds, at most 1/128 too large; None where there are no samples.

    ``buckets`` are (bucket, questions): see ``ops/replay/load/histogram.py``.
    """

    samples: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p99_9_ms: float | None
    max_ms: float | None
    buckets: list[tuple[int, int]]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """``corrected`` runs from when a question was due, ``service`` from when it was sent.

    ``corrected`` has what was dropped or never answered too, with the time that it had waited.
    ``send_lag`` is how long after its time the generator itself sent a question.
    """

    corrected: Percentiles
    service: Percentiles
    send_lag: Percentiles


class SecondReport(msgspec.Struct, frozen=True):
    """A second since the start; the latency is the corrected one of what was due in it."""

    second: int
    offered: int
    served: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """When the target was lost, on which lane first, and how that showed."""

    at: str
    after_s: float
    lane: int
    reason: str


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """``valid`` is None for a dry run, which asks nothing."""

    run_id: str
    target: str
    surface: str
    mode: str
    dry_run: bool
    settings: LoadSettings
    plan: PlanReport
    valid: bool | None = None
    invalid_reasons: list[str] = []
    started_at: str | None = None
    start_skew_ms: list[float] = []
    """By lane: how long after the agreed start it began."""
    sent: int = 0
    answered: int = 0
    not_ready: int = 0
    errors: dict[str, int] = {}
    unanswered: int = 0
    dropped: int = 0
    not_sent: int = 0
    late: int = 0
    warm_up: int = 0
    """Questions whose times count in no figure."""
    mismatches: int = 0
    first_mismatches: list[Mismatch] = []
    offered_per_s: float | None = None
    served_per_s: float | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    latency: Latencies | None = None
    timeline: list[SecondReport] = []
    thresholds: list[Verdict] = []
    death: Death | None = None


class LoadTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is judged by."""

    warm_up_s: float
    send_lag_max_ms: float
    thresholds: tuple[Threshold, ...]
    listed_max: int


def exit_code(report: LoadReport) -> int:
    """Return the command's exit code: an invalid run is a fault, whatever its thresholds say."""
    if report.valid is False:
        return EXIT_FAULT
    return EXIT_DONE if all(verdict.passed for verdict in report.thresholds) else EXIT_DENIED


def plan_report(
    lanes: Sequence[LaneDigest], *, hash: str, events: int, not_asked: dict[str, int], rounds: int
) -> PlanReport:
    """Return what a plan of these lanes holds."""
    ordered = sorted(lanes, key=lambda lane: lane.lane)
    return PlanReport(
        hash=hash,
        events=events,
        not_asked=dict(sorted(not_asked.items())),
        rounds=rounds,
        questions=sum(lane.questions for lane in ordered),
        frames=sum(lane.frames for lane in ordered),
        lanes=[lane.questions for lane in ordered],
        planned_s=max((lane.last_due_us for lane in ordered), default=0) / 1e6,
    )


def with_results(
    planned: LoadReport, results: Sequence[LaneResult], terms: LoadTerms
) -> LoadReport:
    """Return the report of a run that was begun, from what its lanes gave back."""
    histograms = {
        name: merged(getattr(result, name).histogram() for result in results)
        for name in ("corrected", "service", "send_lag")
    }
    timeline = _timeline(results)
    offered, served = _rates(planned.plan, results, terms, timeline)
    errors = _errors(results)
    sent, dropped = sum(each.sent for each in results), sum(each.dropped for each in results)
    mismatches = sum(each.mismatches for each in results)
    unanswered = sum(each.unanswered for each in results)
    measured: dict[str, float | None] = {
        name: histograms["corrected"].percentile_ns(percent)
        for name, percent in PERCENTILES.items()
    }
    measured |= {"mismatch": mismatches, "errors": sum(errors.values()) + unanswered}
    measured |= {"dropped": dropped, RATE: served}
    reasons = _invalid_reasons(results, histograms["send_lag"], terms)
    return msgspec.structs.replace(
        planned,
        valid=not reasons,
        invalid_reasons=reasons,
        started_at=_iso(results[0].start_s),
        start_skew_ms=[round(each.start_skew_ms, 3) for each in _by_lane(results)],
        sent=sent,
        answered=sum(each.answered for each in results),
        not_ready=sum(each.not_ready for each in results),
        errors=errors,
        unanswered=unanswered,
        dropped=dropped,
        not_sent=planned.plan.questions - sent - dropped,
        late=sum(each.late for each in results),
        warm_up=sum(each.warm_up for each in results),
        mismatches=mismatches,
        first_mismatches=_first_mismatches(results, terms.listed_max),
        offered_per_s=offered,
        served_per_s=served,
        first_offset=min(_known(each.first_offset for each in results), default=None),
        last_offset=max(_known(each.last_offset for each in results), default=None),
        latency=Latencies(**{name: percentiles(each) for name, each in histograms.items()}),
        timeline=timeline,
        thresholds=[judge(each, measured[each.figure]) for each in terms.thresholds],
        death=_death(results),
    )


def percentiles(histogram: Histogram) -> Percentiles:
    """Return the figures of a histogram, in milliseconds."""
    p50, p90, p99, p99_9, highest = (
        _milliseconds(histogram.percentile_ns(percent)) for percent in PERCENTILES.values()
    )
    return Percentiles(
        samples=histogram.samples,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        p99_9_ms=p99_9,
        max_ms=highest,
        buckets=histogram.rows(),
    )


def _timeline(results: Sequence[LaneResult]) -> list[SecondReport]:
    offered: dict[int, int] = {}
    served: dict[int, int] = {}
    latencies: dict[int, Histogram] = {}
    for second in (second for result in results for second in result.timeline):
        number = second.second
        offered[number] = offered.get(number, 0) + second.offered
        served[number] = served.get(number, 0) + second.served
        latency = Histogram(dict(second.latency), second.max_ns)
        latencies.setdefault(number, Histogram()).merge(latency)
    return [
        SecondReport(
            number,
            offered[number],
            served[number],
            *(_milliseconds(latencies[number].percentile_ns(each)) for each in (50, 99, 100)),
        )
        for number in sorted(offered)
    ]


def _rates(
    plan: PlanReport,
    results: Sequence[LaneResult],
    terms: LoadTerms,
    timeline: Sequence[SecondReport],
) -> tuple[float | None, float | None]:
    """Return questions a second, offered until the last was due, served until the last answer."""
    finished_s = max(each.finished_ns for each in results) / 1e9
    due_s = min(plan.planned_s, finished_s) or finished_s
    return (
        _rate(sum(second.offered for second in timeline), due_s - terms.warm_up_s),
        _rate(sum(second.served for second in timeline), finished_s - terms.warm_up_s),
    )


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _errors(results: Sequence[LaneResult]) -> dict[str, int]:
    errors: dict[str, int] = {}
    for error, count in (item for result in results for item in result.errors.items()):
        errors[error] = errors.get(error, 0) + count
    return dict(sorted(errors.items()))


def _first_mismatches(results: Sequence[LaneResult], listed_max: int) -> list[Mismatch]:
    listed = [each for result in results for each in result.first_mismatches]
    return sorted(listed, key=lambda each: each.at_ms)[:listed_max]


def _invalid_reasons(
    results: Sequence[LaneResult], send_lag: Histogram, terms: LoadTerms
) -> list[str]:
    reasons = [
        f"lane {each.lane} ended after {_seconds(each.ended_ns):.3f} s: {each.ended}"
        for each in _by_lane(results)
        if each.ended is not None
    ]
    lag_ns = send_lag.percentile_ns(99)
    if lag_ns is not None and lag_ns > terms.send_lag_max_ms * 1e6:
        reasons.append(
            f"the generator was late itself: p99 of the send lag is {lag_ns / 1e6:.3f} ms,"
            f" above {terms.send_lag_max_ms:g} ms"
        )
    return reasons


def _death(results: Sequence[LaneResult]) -> Death | None:
    ended = [each for each in results if each.ended is not None]
    if not ended:
        return None
    first = min(ended, key=lambda each: (each.ended_ns or 0, each.lane))
    after_s = _seconds(first.ended_ns)
    return Death(
        at=_iso(first.start_s + after_s),
        after_s=after_s,
        lane=first.lane,
        reason=first.ended or "",
    )


def _known(offsets: Iterable[int]) -> list[int]:
    return [offset for offset in offsets if offset >= 0]


def _by_lane(results: Sequence[LaneResult]) -> list[LaneResult]:
    return sorted(results, key=lambda each: each.lane)


def _seconds(value_ns: int | None) -> float:
    return (value_ns or 0) / 1e9


def _milliseconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def encode_report(report: LoadReport) -> str:
    """Return the text of ``load.json``."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
