"""Check a plan against recorded traffic: what it newly denies or allows, and because of which ACLs.

**Invariant:** a plan breaks if it newly denies a recorded request. It also breaks if the recorded
traffic proves nothing, such as one that the present ACLs contradict. The local engine is loaded
only if a flag asks for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from authorizerd.acl.explanation.words import name_pattern, name_resource, name_type
from authorizerd.acl.known_settings import ALLOW_EVERYONE, KnownSettings, describe_unknown
from authorizerd.acl.model import ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import parse_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_source import AclSource
from authorizerd.cli.change.report import Checked, describe_entry
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import Refuse, add_text
from authorizerd.cli.program.flag_values import parse_count, parse_duration, parse_ratio
from authorizerd.management.plan import traffic as plan_traffic
from authorizerd.management.plan.document import PlanCheck
from authorizerd.management.plan.traffic import TrafficCause, TrafficChange, TrafficEvidence


class TrafficRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded requests to judge: in logs, or in a report of ``authorizerd replay``."""

    refuse: Refuse
    traffic: tuple[str, ...]
    traffic_format: Literal["auto", "json", "kafka"]
    traffic_tz: str
    traffic_line_field: str | None
    traffic_max_bad_ratio: float
    traffic_min_allowed: int
    traffic_newest_within: int | None
    traffic_report: Path | None = None


def add_traffic_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags that ``check_traffic`` reads."""
    add_traffic_logs(
        group, "audit logs, or directories of them: no recorded request may be newly denied"
    )
    text = (
        "for logs of many millions of lines, instead of --traffic: the whatif.json of "
        "authorizerd replay whatif --plan"
    )
    add_text(group, "--traffic-report", "FILE", text, type=Path)


def add_traffic_logs(group: argparse._ArgumentGroup, help: str) -> None:
    """Add ``--traffic``, with this help, and the flags for reading its files."""
    group.add_argument(
        "--traffic", action="extend", nargs="+", default=[], metavar="FILE", help=help
    )
    text = "format of --traffic; auto detects it for each line (default: %(default)s)"
    add_text(
        group, "--traffic-format", None, text, default="auto", choices=("auto", "json", "kafka")
    )
    text = "time zone of times in --traffic without one (default: %(default)s)"
    add_text(group, "--traffic-tz", "ZONE", text, default="UTC")
    group.add_argument(
        "--traffic-line-field",
        metavar="NAME",
        help="for --traffic in JSON: the field that holds each line, such as event.original; "
        "default: the fields of known log shippers",
    )
    text = "maximum share of lines in --traffic that cannot be read (default: %(default)s)"
    add_text(group, "--traffic-max-bad-ratio", "R", text, default=0.01, type=parse_ratio)
    text = "minimum number of allowed requests: fewer prove nothing (default: %(default)s)"
    add_text(group, "--traffic-min-allowed", "N", text, default=1, type=parse_count)
    text = "maximum age of the newest request, also of each log, such as 2d; none by default"
    add_text(group, "--traffic-newest-within", "TIME", text, type=parse_duration)


SHOWN_MAX: Final = 20
"""The maximum number of ACLs and requests of each kind on the console. The document has more."""


_IF_OPEN: Final = f"if {ALLOW_EVERYONE} is true, which is unknown"


class _Words(NamedTuple):
    """The words for requests that are newly denied, or newly allowed."""

    verb: str
    participle: str
    of_created: str
    of_deleted: str


_DENIED: Final = _Words(
    "denies", "denied", "by which recorded requests are denied", "that recorded requests rely on"
)
_ALLOWED: Final = _Words(
    "allows",
    "allowed",
    "by which recorded requests are allowed",
    "by which recorded requests are denied",
)


_PLAN: Final = "the plan"


def check_traffic(request: TrafficRequest, source: AclSource, after: AclSnapshot) -> Checked | None:
    """Judge the recorded requests before and after the plan. It breaks if one is newly denied.

    It also breaks if the record proves nothing: because the present ACLs decide too many requests
    differently than recorded, or because no allowed request was recorded.
    """
    if not request.traffic and request.traffic_report is None:
        return None
    if request.traffic and request.traffic_report is not None:
        request.refuse("--traffic-report: expected either --traffic or --traffic-report")
    evidence, if_open = compare_traffic(request, source, after)
    denied, denied_if_open = evidence.newly_denied, if_open.newly_denied
    summary = _summarize(evidence)
    broken = [*map(_describe_cause, denied.causes)]
    lines = [*_describe(evidence, _PLAN)]
    changes = evidence.newly_denied, evidence.newly_allowed
    if (if_open.newly_denied, if_open.newly_allowed) != changes:
        summary += f"; {_IF_OPEN}: {_summarize_changes(if_open)}"
        others = (cause for cause in denied_if_open.causes if cause not in denied.causes)
        broken += [f"{_IF_OPEN}: {_describe_cause(other)}" for other in others]
        lines += [f"{_IF_OPEN}:", *_describe_changes(if_open, _PLAN)]
    # Either value of an unknown setting may be that of the brokers, so both must agree.
    contradictions = dict.fromkeys(
        each for each in (evidence.contradiction, if_open.contradiction) if each is not None
    )
    broken += contradictions
    lines += [
        f"this proves nothing {_IF_OPEN}: {each}"
        for each in contradictions
        if each != evidence.contradiction
    ]
    if contradictions:
        summary += "; this proves nothing"
    result = PlanCheck(
        name="traffic",
        breaks=denied.events > 0 or denied_if_open.events > 0 or bool(contradictions),
        summary=summary,
        counts=_counts(evidence),
        broken=tuple(broken),
        evidence=evidence,
    )
    return Checked(result, tuple(lines))


def compare_traffic(
    request: TrafficRequest, source: AclSource, after: AclSnapshot
) -> tuple[TrafficEvidence, TrafficEvidence]:
    """Judge the recorded requests by the source's ACLs, and by other ACLs or other rules.

    Return the evidence with the known settings; if the default is unknown, also with an open one.
    Unknown super users are judged by the ACLs alone, so that no change is missed.
    """
    # Imported here, because plans without recorded traffic do not need it.
    from authorizerd.replay.errors import TrafficError
    from authorizerd.replay.local.evidence import judge_traffic, read_report
    from authorizerd.replay.local.traffic import read_traffic
    from authorizerd.replay.plans import IngestPlan, LineLayout

    before, known = source.snapshot, source.settings
    within_s = request.traffic_newest_within
    newest_after_ms = None if within_s is None else round((time.time() - within_s) * 1000)
    wanted = request.traffic_min_allowed, newest_after_ms
    try:
        if request.traffic_report is not None:
            evidence = if_open = read_report(request.traffic_report, before, after, known, *wanted)
            return _warn_of_unknown(evidence, known), if_open
        logs = IngestPlan(
            inputs=request.traffic,
            out="",
            layout=LineLayout(
                format=request.traffic_format,
                time_zone=request.traffic_tz,
                field=request.traffic_line_field,
            ),
            bad_ratio_max=request.traffic_max_bad_ratio,
        )
        traffic = read_traffic(logs)
        evidence = if_open = judge_traffic(traffic, before, after, known.least, *wanted)
        if known.most != known.least:
            if_open = judge_traffic(traffic, before, after, known.most, *wanted)
        return _warn_of_unknown(evidence, known), if_open
    except TrafficError as error:
        flag = "--traffic" if request.traffic else "--traffic-report"
        raise CommandError(f"{flag}: {error}") from error


def _warn_of_unknown(evidence: TrafficEvidence, known: KnownSettings) -> TrafficEvidence:
    """Return the evidence with a warning if the super users are unknown."""
    users = KnownSettings(known.super_users, False)  # both values of the default are judged
    return replace(evidence, warnings=(*evidence.warnings, *describe_unknown(users)))


def _summarize(evidence: TrafficEvidence) -> str:
    return f"recorded traffic: {_summarize_changes(evidence)}"


def _summarize_changes(evidence: TrafficEvidence) -> str:
    return (
        f"{_count(evidence.newly_denied)} newly denied, "
        f"{_count(evidence.newly_allowed)} newly allowed"
    )


def _counts(evidence: TrafficEvidence) -> dict[str, int]:
    return {
        "events": evidence.events,
        "judged_events": evidence.judged_events,
        "newly_denied_events": evidence.newly_denied.events,
        "newly_denied_requests": evidence.newly_denied.tuples,
        "newly_allowed_events": evidence.newly_allowed.events,
        "newly_allowed_requests": evidence.newly_allowed.tuples,
    }


def _count(change: TrafficChange) -> str:
    return _count_events(change.events, change.tuples) if change.events else "nothing"


def _count_events(events: int, tuples: int) -> str:
    return f"{_number(events, 'event')} of {_number(tuples, 'request')}"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_traffic(evidence: TrafficEvidence) -> Iterator[str]:
    """Yield the recorded requests that another release decides differently, and their number."""
    yield from _describe(evidence, "the other release")
    yield _summarize(evidence)


def _describe(evidence: TrafficEvidence, actor: str) -> Iterator[str]:
    is_all = evidence.judged_events == evidence.events
    judged = "all" if is_all else f"{evidence.judged_events / evidence.events:.2%}"
    yield (
        f"{_count_events(evidence.events, evidence.tuples)}, recorded from {evidence.first_at} to "
        f"{evidence.last_at}{_describe_lines(evidence)}; {judged} judged"
    )
    if evidence.contradiction is not None:
        yield f"this proves nothing: {evidence.contradiction}"
    for warning in evidence.warnings:
        yield f"warning: {escape_unprintable(warning)}"
    yield from _describe_changes(evidence, actor)


def _describe_changes(evidence: TrafficEvidence, actor: str) -> Iterator[str]:
    yield from _describe_change(_DENIED, evidence.newly_denied, actor)
    yield from _describe_change(_ALLOWED, evidence.newly_allowed, actor)


def _describe_lines(evidence: TrafficEvidence) -> str:
    lines = evidence.lines
    if lines is None:
        return " (read by Spark)"
    if not lines.set_aside:
        return f" in {_number(lines.all, 'line')}"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in lines.reasons.items())
    return (
        f" in {_number(lines.all, 'line')}, of which {lines.set_aside:,} cannot be read ({reasons})"
    )


def _describe_change(words: _Words, change: TrafficChange, actor: str) -> Iterator[str]:
    if not change.events:
        return
    yield f"{actor} newly {words.verb} {_count(change)}"
    for kind, effect in (("create", words.of_created), ("delete", words.of_deleted)):
        causes = [cause for cause in change.causes if cause.change == kind]
        if causes:
            yield f"used: the plan {kind}s {_number(len(causes), 'ACL')} {effect}:"
            yield from _shorten(list(map(_describe_cause, causes)), 0)
    if change.causes_left_out:
        yield f"and {_number(change.causes_left_out, 'other ACL')}"
    yield f"newly {words.participle}, most frequent first:"
    requests = list(map(_describe_request, change.requests))
    yield from _shorten(requests, change.requests_left_out)


def _shorten(lines: list[str], left_out: int) -> Iterator[str]:
    for line in lines[:SHOWN_MAX]:
        yield f"  {line}"
    more = max(len(lines) - SHOWN_MAX, 0) + left_out
    if more:
        yield f"  and {more:,} more"


def _describe_cause(cause: TrafficCause) -> str:
    """Return one line for ``PlanCheck.broken``: the ACL, and the number of its events."""
    acl = parse_acl(cause.acl)
    return escape_unprintable(
        f"{cause.change} {describe_entry(acl)} on {name_type(acl.resource_type)} "
        f"{name_pattern(acl.pattern_type, acl.resource_name)}: "
        f"{_count_events(cause.events, cause.tuples)}, last at {cause.last_at}"
    )


def _describe_request(request: plan_traffic.TrafficRequest) -> str:
    resource_type = int(ResourceType[request.resource_type])
    host = "an unknown host" if request.host is None else request.host
    return escape_unprintable(
        f"{request.principal} {request.operation} "
        f"{name_resource(resource_type, request.resource_name)} from {host}: "
        f"{_number(request.events, 'event')}, last at {request.last_at}"
    )
