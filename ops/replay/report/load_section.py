"""What a load measured, on the page: its terms, its figures, and what was answered otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from authorizerd.acl.model import Code, Operation, ResourceType
from authorizerd.replay.load.report import Latencies, LoadReport
from authorizerd.replay.load.tally import Mismatch
from authorizerd.replay.report.findings import measured_text
from authorizerd.replay.report.load_plots import (
    latency_over_time,
    percentile_curves,
    rates_over_time,
    timeline_of,
)
from authorizerd.replay.report.markup import NOTHING, Markup, element, joined
from authorizerd.replay.report.tables import Column, Listing, facts, listing, plain_table
from authorizerd.replay.report.wording import (
    NONE,
    code,
    count,
    counted,
    milliseconds,
    name,
    per_second,
    significant,
    time_text,
)

_MISMATCH_COLUMNS: Final = (
    Column("At, s", "number"),
    Column("Principal"),
    Column("Host", "short"),
    Column("Operation", "short"),
    Column("Type", "short"),
    Column("Resource"),
    Column("Recorded", "short"),
    Column("Answered", "short"),
    Column("Log offset", "number"),
)
_QUESTION_FIELDS: Final = 5


def load_section(load: LoadReport) -> Markup:
    return element(
        "section",
        element("h2", "Load: a live target"),
        facts("The run", _terms(load)),
        _planned_only(load) if load.dry_run else _measured(load),
        id="load",
    )


def _terms(load: LoadReport) -> Iterator[tuple[str, str | None]]:
    yield "Run", name(load.run_id)
    yield "Target", name(load.target)
    yield "Surface", joined([name(load.surface), ", ", name(load.mode)])
    yield "Started (UTC)", load.started_at and time_text(load.started_at)
    yield (
        "Planned",
        f"{counted(load.plan.questions, 'question')} in {significant(load.plan.planned_s)} s",
    )
    yield "Lanes", count(len(load.plan.lanes))
    yield "Frames", count(load.plan.frames)
    yield "Rounds", count(load.plan.rounds)
    yield "Plan", code(load.plan.hash)
    if load.first_offset is not None:
        yield "Log offsets that answered", f"{load.first_offset} to {load.last_offset}"


def _planned_only(load: LoadReport) -> Markup:
    return joined([element("p", "A dry run: nothing was asked."), _not_asked(load)])


def _measured(load: LoadReport) -> Markup:
    return joined(
        [
            _thresholds(load),
            facts("What came of the questions", _outcome(load)),
            _latencies(load.latency) if load.latency is not None else NOTHING,
            latency_over_time(load),
            rates_over_time(load),
            percentile_curves(load.latency) if load.latency is not None else NOTHING,
            _timeline(load),
            _mismatches(load),
            _counts("Errors", "Error", load.errors),
            _not_asked(load),
        ]
    )


def _outcome(load: LoadReport) -> Iterator[tuple[str, str | None]]:
    yield "Offered", per_second(load.offered_per_s)
    yield "Served", per_second(load.served_per_s)
    yield "Sent", count(load.sent)
    yield "Answered", count(load.answered)
    yield "Otherwise than recorded", count(load.mismatches)
    yield "Errors", count(sum(load.errors.values()))
    yield "Not ready", count(load.not_ready)
    yield "Unanswered", count(load.unanswered)
    yield "Dropped", count(load.dropped)
    yield "Not sent", count(load.not_sent)
    yield "Sent late, held up by the target", count(load.late)
    yield "Warm-up, in no time below", count(load.warm_up)
    if load.start_skew_ms:
        yield "Start skew of the lanes, at most", milliseconds(max(load.start_skew_ms))
    if load.death is not None:
        said = f"after {significant(load.death.after_s)} s, lane {load.death.lane}: "
        yield "Target lost", joined([said, name(load.death.reason)])


def _thresholds(load: LoadReport) -> Markup:
    if not load.thresholds:
        return NOTHING
    columns = [Column("Threshold"), Column("Measured", "number"), Column("")]
    rows = (
        [
            code(each.threshold),
            measured_text(each),
            element("b", "✓ held", class_="good")
            if each.passed
            else element("b", "✗ failed", class_="bad"),
        ]
        for each in load.thresholds
    )
    return plain_table("Thresholds", columns, rows)


def _latencies(latency: Latencies) -> Markup:
    titles = ("p50", "p90", "p99", "p99.9", "max")
    columns = [
        Column("ms"),
        *(Column(title, "number") for title in titles),
        Column("Questions", "number"),
    ]
    rows = (
        [
            said,
            *map(significant, (of.p50_ms, of.p90_ms, of.p99_ms, of.p99_9_ms, of.max_ms)),
            count(of.samples),
        ]
        for said, of in (
            ("Corrected: since it was due", latency.corrected),
            ("Service: since it was sent", latency.service),
            ("Send lag: the generator's own", latency.send_lag),
        )
    )
    return plain_table("Latency", columns, rows)


def _timeline(load: LoadReport) -> Markup:
    """Return the figures of the plots, for whoever reads them as text."""
    width, groups = timeline_of(load.timeline)
    if not groups:
        return NOTHING
    columns = [
        Column(title, "number")
        for title in ("From, s", "Offered", "Served", "p50, ms", "p99, ms", "Max, ms")
    ]
    rows = (
        [
            count(each.second),
            count(each.offered),
            count(each.served),
            *map(significant, (each.p50_ms, each.p99_ms, each.max_ms)),
        ]
        for each in groups
    )
    return element(
        "details",
        element("summary", f"The figures of the plots over time, by {counted(width, 'second')}"),
        plain_table("Figures over time", columns, rows),
    )


def _mismatches(load: LoadReport) -> Markup:
    return listing(
        Listing(
            title="Answered otherwise than recorded",
            columns=_MISMATCH_COLUMNS,
            rows=map(_mismatch_row, load.first_mismatches),
            total=load.mismatches,
            elsewhere="load.json, which lists the first of them",
        )
    )


def _mismatch_row(each: Mismatch) -> list[str]:
    return [
        f"{each.at_ms / 1000:,.3f}",
        *_asked(each.question),
        _decision(each.recorded),
        _decision(each.answered),
        str(each.offset),
    ]


def _asked(question: list[object]) -> list[str]:
    """Return the five fields of a question; what has others is shown whole."""
    if len(question) != _QUESTION_FIELDS:
        return [name(msgspec.json.encode(question).decode()), *[NONE] * (_QUESTION_FIELDS - 1)]
    principal, host, operation, resource_type, resource_name = question
    return [
        name(str(principal)),
        name(None if host is None else str(host)),
        name(_named(Operation, operation)),
        name(_named(ResourceType, resource_type)),
        name(str(resource_name)),
    ]


def _named(codes: type[Code], code: object) -> str:
    if not isinstance(code, int):
        return str(code)
    member = codes.read(code)
    return member.name if member == code else str(code)


def _decision(allowed: bool) -> str:
    return "allowed" if allowed else "denied"


def _not_asked(load: LoadReport) -> Markup:
    return _counts("Events that cannot be asked", "Reason", load.plan.not_asked)


def _counts(title: str, what: str, counts: dict[str, int]) -> Markup:
    return listing(
        Listing(
            title=title,
            columns=[Column(what), Column("Count", "number")],
            rows=([name(said), count(number)] for said, number in counts.items()),
            total=len(counts),
            elsewhere="load.json",
        )
    )
