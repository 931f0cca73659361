"""The content of ``load.json``: one run of a load, summed up from the results of its lanes.

**Invariant:** planned = sent + dropped + not sent, and sent = answered + errors + unanswered. A run
is invalid if its generator was late or if it ended early, whatever its other figures say.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec

from authorizerd.replay.load.lanes.tally import (
    OUTAGES_LISTED_MAX,
    Counts,
    Histogram,
    LaneResult,
    Mismatch,
    Outage,
    Second,
    bucket_of,
    merge_all,
)
from authorizerd.replay.load.plan.frames import plan_hash
from authorizerd.replay.load.plan.pacing import Schedule
from authorizerd.replay.load.thresholds import (
    OUTAGE,
    PERCENTILES,
    RATE,
    Verdict,
    judge,
    parse_thresholds,
)
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import LoadPlan, LoadSettings
from authorizerd.replay.text import format_time

PERCENTILE_FIELDS: Final = {name: f"{name.replace('.', '_')}_ms" for name in PERCENTILES}
"""The fields of ``Percentiles``, by their names in thresholds."""


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """The planned questions.

    ``hash`` covers every frame and its time, so equal plans have equal hashes. In a run that did
    not end, it is empty, and the sizes are 0. ``not_asked`` counts events that cannot
    be asked, by reason. ``rounds`` is the number of times that the events are asked. ``planned_s``
    is when the last frame is due.
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
    """Percentiles in milliseconds, at most 1/128 too large; None without samples.

    ``buckets`` are pairs of (bucket, questions): see ``ops/replay/load/lanes/tally.py``.
    """

    samples: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p99_9_ms: float | None
    max_ms: float | None
    buckets: list[tuple[Annotated[int, msgspec.Meta(le=bucket_of(2**63))], int]]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """``corrected`` is measured from the time a question was due, ``service`` from its sending.

    ``corrected`` includes dropped and unanswered questions, with the time that they had waited.
    ``send_lag`` is the delay that the generator itself caused.
    """

    corrected: Percentiles
    service: Percentiles
    send_lag: Percentiles


class SecondReport(msgspec.Struct, frozen=True):
    """One second of the run. Latencies are the corrected ones of the questions due in it."""

    second: int
    offered: int
    served: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """When the connection to the target was lost, on which lane first, and why."""

    at: str
    after_s: float
    lane: int
    reason: str


class LoadReport(Counts, msgspec.Struct, kw_only=True):
    """The content of ``load.json``. ``valid`` is None for a dry run, which asks nothing.

    ``start_skew_ms`` is the delay between the agreed start and each lane's own start.
    """

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
    errors: dict[str, int] = {}
    not_sent: int = 0
    first_mismatches: list[Mismatch] = []
    offered_per_s: float | None = None
    served_per_s: float | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    latency: Latencies | None = None
    timeline: list[SecondReport] = []
    thresholds: list[Verdict] = []
    death: Death | None = None
    longest_outage_s: float = 0.0
    outages: list[Outage] = []


def exit_code(report: LoadReport) -> int:
    """Return the command's exit code: an invalid run is a fault, whatever its thresholds say."""
    if report.valid is False:
        return EXIT_FAULT
    return EXIT_DONE if all(verdict.passed for verdict in report.thresholds) else EXIT_DENIED


def planned_report(plan: LoadPlan, schedule: Schedule, results: Iterable[LaneResult]) -> LoadReport:
    """Return the report of the plan whose lanes have these ``results``, which may be empty."""
    lanes = sorted((result.planned for result in results), key=lambda lane: lane.lane)
    return LoadReport(
        run_id=plan.run_id,
        target=plan.target,
        surface=plan.surface,
        mode=plan.mode,
        dry_run=plan.dry_run,
        settings=plan.settings,
        plan=PlanReport(
            hash=plan_hash(lanes) if lanes else "",
            events=schedule.events,
            not_asked=dict(sorted(schedule.not_asked.items())),
            rounds=schedule.rounds,
            questions=sum(lane.questions for lane in lanes),
            frames=sum(lane.frames for lane in lanes),
            lanes=[lane.questions for lane in lanes],
            planned_s=max((lane.last_due_us for lane in lanes), default=0) / 1e6,
        ),
    )


def with_results(planned: LoadReport, results: Iterable[LaneResult], plan: LoadPlan) -> LoadReport:
    """Return the report of a run, from the results of its lanes."""
    lanes = sorted(results, key=lambda each: each.planned.lane)
    counts = {name: sum(getattr(each, name) for each in lanes) for name in Counts.__struct_fields__}
    errors = sum((Counter(each.errors) for each in lanes), Counter[str]())
    histograms = {
        name: merge_all(getattr(each, name) for each in lanes)
        for name in Latencies.__struct_fields__
    }
    timeline = _merge_timelines(each.timeline for each in lanes)
    # Questions are offered until the last one is due, and served until the last lane finishes.
    finished_s = max(each.finished_ns for each in lanes) / 1e9
    due_s = min(planned.plan.planned_s, finished_s) or finished_s
    served = sum(each.served for each in timeline.values())
    served_per_s = _rate(served, finished_s - plan.warm_up_s)
    measured: dict[str, float | None] = {
        name: histograms["corrected"].percentile_ns(percent)
        for name, percent in PERCENTILES.items()
    }
    measured |= {"mismatch": counts["mismatches"], "dropped": counts["dropped"]}
    measured |= {"errors": errors.total() + counts["unanswered"], RATE: served_per_s}
    longest_s = max(each.longest_outage_s for each in lanes)
    measured |= {"lost": counts["lost"], OUTAGE: longest_s * 1e9}
    reasons = list(_invalid_reasons(lanes, histograms["send_lag"], plan.max_send_lag_ms))
    offered = sum(each.offered for each in timeline.values())
    mismatches = (mismatch for lane in lanes for mismatch in lane.first_mismatches)
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
            plan.mismatches_listed_max, mismatches, key=lambda each: each.at_ms
        ),
        offered_per_s=_rate(offered, due_s - plan.warm_up_s),
        served_per_s=served_per_s,
        first_offset=min((e.first_offset for e in lanes if e.first_offset >= 0), default=None),
        last_offset=max((e.last_offset for e in lanes if e.last_offset >= 0), default=None),
        latency=Latencies(**{name: percentiles(each) for name, each in histograms.items()}),
        timeline=[_second_report(number, each) for number, each in timeline.items()],
        thresholds=[
            judge(threshold, measured[threshold.figure])
            for threshold in parse_thresholds(plan.fail_on)
        ],
        death=_death(lanes),
        longest_outage_s=longest_s,
        outages=sorted(
            (outage for lane in lanes for outage in lane.outages),
            key=lambda each: (each.begin_s, each.lane),
        )[:OUTAGES_LISTED_MAX],
    )


def percentiles(histogram: Histogram) -> Percentiles:
    """Return the percentiles of a histogram, in milliseconds."""
    figures = {
        field: _milliseconds(histogram.percentile_ns(PERCENTILES[name]))
        for name, field in PERCENTILE_FIELDS.items()
    }
    buckets = sorted(histogram.counts.items())
    return Percentiles(samples=histogram.samples, buckets=buckets, **figures)


def _merge_timelines(timelines: Iterable[dict[int, Second]]) -> dict[int, Second]:
    merged: dict[int, Second] = {}
    for number, second in (each for timeline in timelines for each in timeline.items()):
        total = merged.setdefault(number, Second())
        total.offered += second.offered
        total.served += second.served
        total.latency.merge(second.latency)
    return dict(sorted(merged.items()))


def _second_report(number: int, second: Second) -> SecondReport:
    figures = (_milliseconds(second.latency.percentile_ns(percent)) for percent in (50, 99, 100))
    return SecondReport(number, second.offered, second.served, *figures)


def _invalid_reasons(
    lanes: Sequence[LaneResult], send_lag: Histogram, send_lag_max_ms: float
) -> Iterator[str]:
    for lane in lanes:
        if lane.ended is not None:
            ended_s = lane.finished_ns / 1e9
            yield f"lane {lane.planned.lane} ended after {ended_s:.3f} s: {lane.ended}"
    if not any(lane.answered for lane in lanes):
        yield "no question was answered"
    lag_ns = send_lag.percentile_ns(99)
    if lag_ns is not None and lag_ns > send_lag_max_ms * 1e6:
        yield (
            f"the generator itself was late: p99 of the send lag is {lag_ns / 1e6:.3f} ms, above"
            f" --max-send-lag {send_lag_max_ms:g}"
        )


def _death(lanes: Sequence[LaneResult]) -> Death | None:
    ended = [lane for lane in lanes if lane.ended is not None]
    if not ended:
        return None
    first = min(ended, key=lambda each: each.finished_ns)
    after_s, at = first.finished_ns / 1e9, _format_seconds(first.start_s + first.finished_ns / 1e9)
    return Death(at=at, after_s=after_s, lane=first.planned.lane, reason=first.ended or "")


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def _milliseconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _format_seconds(seconds: float) -> str:
    return format_time(int(seconds * 1000))
