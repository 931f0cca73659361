"""Sum up the results of the lanes in a ``LoadReport``.

**Invariant:** a run is invalid if its generator was late or if it ended early, whatever its other
figures say.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from authorizerd.replay.load.lanes.histogram import Histogram, merge_all
from authorizerd.replay.load.lanes.tally import COUNTS, LaneResult, Second
from authorizerd.replay.load.plan.frames import LaneDigest, plan_hash
from authorizerd.replay.load.report import (
    Death,
    Latencies,
    LoadReport,
    Percentiles,
    PlanReport,
    SecondReport,
)
from authorizerd.replay.load.thresholds import PERCENTILES, RATE, judge, parse_thresholds
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.text import format_time


def plan_report(
    lanes: Iterable[LaneDigest], *, events: int, not_asked: dict[str, int], rounds: int
) -> PlanReport:
    """Return the report of a plan with these lanes; none if they are not known."""
    ordered = sorted(lanes, key=lambda lane: lane.lane)
    return PlanReport(
        hash=plan_hash(ordered) if ordered else "",
        events=events,
        not_asked=dict(sorted(not_asked.items())),
        rounds=rounds,
        questions=sum(lane.questions for lane in ordered),
        frames=sum(lane.frames for lane in ordered),
        lanes=[lane.questions for lane in ordered],
        planned_s=max((lane.last_due_us for lane in ordered), default=0) / 1e6,
    )


def with_results(planned: LoadReport, results: Iterable[LaneResult], plan: LoadPlan) -> LoadReport:
    """Return the report of a run, from the results of its lanes."""
    lanes = sorted(results, key=lambda each: each.planned.lane)
    counts = {name: sum(getattr(each, name) for each in lanes) for name in COUNTS}
    errors = sum((Counter(each.errors) for each in lanes), Counter[str]())
    histograms = {
        name: merge_all(getattr(each, name) for each in lanes)
        for name in ("corrected", "service", "send_lag")
    }
    timeline = merge_timelines(each.timeline for each in lanes)
    # Questions are offered until the last one is due, and served until the last lane finishes.
    finished_s = max(each.finished_ns for each in lanes) / 1e9
    due_s = min(planned.plan.planned_s, finished_s) or finished_s
    served_per_s = _rate(sum(each.served for each in timeline), finished_s - plan.warm_up_s)
    measured: dict[str, float | None] = {
        name: histograms["corrected"].percentile_ns(percent)
        for name, percent in PERCENTILES.items()
    }
    measured |= {"mismatch": counts["mismatches"], "dropped": counts["dropped"]}
    measured |= {"errors": errors.total() + counts["unanswered"], RATE: served_per_s}
    reasons = _invalid_reasons(lanes, histograms["send_lag"], plan.max_send_lag_ms)
    offsets = [each.first_offset for each in lanes], [each.last_offset for each in lanes]
    return msgspec.structs.replace(
        planned,
        **counts,
        valid=not reasons,
        invalid_reasons=reasons,
        started_at=_format_seconds(lanes[0].start_s),
        start_skew_ms=[round(each.start_skew_ms, 3) for each in lanes],
        errors=dict(sorted(errors.items())),
        not_sent=planned.plan.questions - counts["sent"] - counts["dropped"],
        first_mismatches=heapq.nsmallest(
            plan.mismatches_listed_max,
            (each for lane in lanes for each in lane.first_mismatches),
            key=lambda each: each.at_ms,
        ),
        offered_per_s=_rate(sum(each.offered for each in timeline), due_s - plan.warm_up_s),
        served_per_s=served_per_s,
        first_offset=min(filter(_is_known, offsets[0]), default=None),
        last_offset=max(filter(_is_known, offsets[1]), default=None),
        latency=Latencies(**{name: percentiles(each) for name, each in histograms.items()}),
        timeline=[
            SecondReport(
                each.second,
                each.offered,
                each.served,
                *(_milliseconds(each.latency.percentile_ns(percent)) for percent in (50, 99, 100)),
            )
            for each in timeline
        ],
        thresholds=[judge(each, measured[each.figure]) for each in parse_thresholds(plan.fail_on)],
        death=_death(lanes),
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


def merge_timelines(timelines: Iterable[Iterable[Second]]) -> list[Second]:
    """Return the sums of the lanes' seconds, in order."""
    merged: dict[int, Second] = {}
    for second in (second for timeline in timelines for second in timeline):
        total = merged.setdefault(second.second, Second(second.second))
        total.offered += second.offered
        total.served += second.served
        total.latency.merge(second.latency)
    return [merged[number] for number in sorted(merged)]


def _invalid_reasons(
    lanes: Sequence[LaneResult], send_lag: Histogram, send_lag_max_ms: float
) -> list[str]:
    reasons = [
        f"lane {each.planned.lane} ended after {(each.ended_ns or 0) / 1e9:.3f} s: {each.ended}"
        for each in lanes
        if each.ended is not None
    ]
    lag_ns = send_lag.percentile_ns(99)
    if lag_ns is not None and lag_ns > send_lag_max_ms * 1e6:
        reasons.append(
            f"the generator itself was late: p99 of the send lag is {lag_ns / 1e6:.3f} ms, above"
            f" the limit of {send_lag_max_ms:g} ms"
        )
    return reasons


def _death(lanes: Sequence[LaneResult]) -> Death | None:
    ended = [each for each in lanes if each.ended is not None]
    if not ended:
        return None
    first = min(ended, key=lambda each: each.ended_ns or 0)
    after_s = (first.ended_ns or 0) / 1e9
    return Death(
        at=_format_seconds(first.start_s + after_s),
        after_s=after_s,
        lane=first.planned.lane,
        reason=first.ended or "",
    )


def _is_known(offset: int) -> bool:
    return offset >= 0


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _milliseconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _format_seconds(seconds: float) -> str:
    return format_time(int(seconds * 1000))
