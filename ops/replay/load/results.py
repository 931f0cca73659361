"""Sum up the results of the lanes in a ``LoadReport``.

**Invariant:** a run is invalid if its generator was late or if it ended early, whatever its other
figures say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from authorizerd.replay.load.lanes.histogram import Histogram, merge_all
from authorizerd.replay.load.lanes.tally import LaneResult, Mismatch
from authorizerd.replay.load.plan.frames import LaneDigest
from authorizerd.replay.load.report import (
    Death,
    Latencies,
    LoadReport,
    Percentiles,
    PlanReport,
    SecondReport,
)
from authorizerd.replay.load.thresholds import PERCENTILES, RATE, Threshold, judge
from authorizerd.replay.text import format_time


class LoadTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and thresholds that a run is judged by."""

    warm_up_s: float
    send_lag_max_ms: float
    thresholds: tuple[Threshold, ...]
    listed_max: int


def plan_report(
    lanes: Sequence[LaneDigest], *, hash: str, events: int, not_asked: dict[str, int], rounds: int
) -> PlanReport:
    """Return the report of a plan with these lanes."""
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
    """Return the report of a run, from the results of its lanes."""
    histograms = {
        name: merge_all(getattr(result, name) for result in results)
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
        started_at=_format_seconds(results[0].start_s),
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
    """Return the percentiles of a histogram, in milliseconds."""
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
        latencies.setdefault(number, Histogram()).merge(second.latency)
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
    """Return the offered and the served rate per second.

    Questions are offered until the last one is due, and served until the last lane finishes.
    """
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
            f"the generator itself was late: p99 of the send lag is {lag_ns / 1e6:.3f} ms, above"
            f" the limit of {terms.send_lag_max_ms:g} ms"
        )
    return reasons


def _death(results: Sequence[LaneResult]) -> Death | None:
    ended = [each for each in results if each.ended is not None]
    if not ended:
        return None
    first = min(ended, key=lambda each: (each.ended_ns or 0, each.lane))
    after_s = _seconds(first.ended_ns)
    return Death(
        at=_format_seconds(first.start_s + after_s),
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


def _format_seconds(seconds: float) -> str:
    return format_time(int(seconds * 1000))
