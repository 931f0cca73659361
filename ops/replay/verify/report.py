"""The document of ``authorizerd verify``, and the page that shows it.

**Invariant:** each event is in exactly one of ``agreed``, ``other_rule``, ``not_judged`` and
``differences``. Lists are in one order: most events first, then by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.protocol.verification import Moment
from authorizerd.replay.ingest.report import Ingested, by_frequency
from authorizerd.replay.text import format_count, format_time
from authorizerd.replay.verify.judging import OLDEST, Judge
from authorizerd.replay.verify.settings import DifferentSetting
from authorizerd.replay.verify.sums import Group, Sums, find_moment

SHOWN_MAX: Final = 10


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that makes agreement a success.

    That is: at most a share of the events that are not judged, a number of allowed events that are,
    and in each log an event of this time or later.
    """

    not_judged_max: float
    allowed_min: int
    newest_after_ms: int | None


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The result. Numbers are those of events; ``only_by_release`` agree by one release only.

    ``judged_allowed`` of the judged ones were allowed. ``silent`` are the logs without an event, or
    whose newest is too old, with its time. ``lacks`` says what is missing for a success.
    ``settings`` are those that differ at the broker.
    """

    logs: Ingested
    acls: str
    states: int
    oldest: Moment
    newest: Moment
    window_s: int
    super_users: tuple[str, ...] | None
    allow_everyone_if_no_acl_found: bool | None
    kafka_releases: tuple[str, ...] | msgspec.UnsetType
    agreed: int
    other_rule: int
    not_judged: dict[str, int]
    judged_allowed: int
    silent: dict[str, str | None]
    lacks: Sequence[str]
    only_by_release: dict[str, int]
    differences: Sequence[Group]
    settings: Sequence[DifferentSetting] | msgspec.UnsetType

    @property
    def judged(self) -> int:
        return self.agreed + self.other_rule + sum(group.events for group in self.differences)


def make_report(
    judge: Judge,
    sums: Sums,
    logs: Ingested,
    newest_ms: Mapping[str, int | None],
    needed: Needed,
    settings: Sequence[DifferentSetting] | msgspec.UnsetType,
) -> Verified:
    """Return the result of sums over all judged cases.

    Args:
        newest_ms: the time of the newest event in each log, None if it has none.
    """
    history, known = judge.history, judge.known
    users = known.super_users
    releases = tuple(map(str, judge.releases))
    after_ms = needed.newest_after_ms
    silent = {
        log: None if at_ms is None else format_time(at_ms)
        for log, at_ms in sorted(newest_ms.items())
        if at_ms is None or (after_ms is not None and at_ms < after_ms)
    }
    return Verified(
        logs=logs,
        acls=history.source,
        states=len(history.states),
        oldest=find_moment(history, 0),
        newest=Moment(
            history.offset, None if history.end_ms is None else format_time(history.end_ms)
        ),
        window_s=judge.window_ms // 1000,
        super_users=None if users is None else tuple(sorted(users)),
        allow_everyone_if_no_acl_found=known.allow_everyone_if_no_acl_found,
        kafka_releases=releases if history.depends_on_release else msgspec.UNSET,
        agreed=sums.agreed,
        other_rule=sums.other_rule,
        not_judged=by_frequency(sums.not_judged),
        judged_allowed=sums.allowed,
        silent=silent,
        lacks=tuple(_find_lacks(sums, logs, silent, needed)),
        only_by_release=by_frequency(sums.only_by_release),
        differences=sums.differences,
        settings=settings,
    )


def _find_lacks(
    sums: Sums, logs: Ingested, silent: Mapping[str, str | None], needed: Needed
) -> Iterator[str]:
    """Yield why agreement proves nothing, or too little."""
    not_judged = sum(sums.not_judged.values())
    if not_judged == logs.events:
        yield "this proves nothing: no event was judged"
    elif not_judged > needed.not_judged_max * logs.events:
        share = f"{needed.not_judged_max:.0%}"
        yield f"this proves little: more than {share} of the events were not judged"
    elif sums.allowed < needed.allowed_min:
        yield (
            f"this proves little: {format_count(sums.allowed, 'allowed event')} judged, and "
            f"--min-allowed {needed.allowed_min:,}"
        )
    if logs.damaged:
        damaged = format_count(len(logs.damaged), "archive")
        yield f"this proves little: {damaged} damaged, so events are missing"
    if needed.newest_after_ms is not None and silent:
        yield f"this proves little: {format_count(len(silent), 'log')} with no event of late"


def page_lines(verified: Verified) -> Iterator[str]:
    """Yield the lines of the page, which may hold unprintable characters."""
    logs = verified.logs
    times = f", from {logs.first_at} to {logs.last_at}" if logs.events else ""
    yield f"{format_count(logs.events, 'event')} of {format_count(logs.lines, 'line')}{times}"
    yield (
        f"{format_count(verified.states, 'state')} of the ACLs ({verified.acls}), from "
        f"{_name(verified.oldest)} to {_name(verified.newest)}; window {verified.window_s} s"
        if verified.newest.offset is not None
        else f"one state of the ACLs for all times ({verified.acls}): decisions before a change of "
        "them may differ"
    )
    users = None if verified.super_users is None else frozenset(verified.super_users)
    known = KnownSettings(users, verified.allow_everyone_if_no_acl_found)
    for key in known.unknown:
        yield f"{key} is unknown: pass --{key.replace('.', '-')}"
    if logs.events and not logs.allowed_events:
        yield "the record contains no allowed request: Kafka logs them only at DEBUG"
    yield f"judged: {format_count(verified.judged, 'event')}"
    yield f"agreed: {format_count(verified.agreed, 'event')}"
    if verified.other_rule:
        yield f"agreed, by another ACL that matches: {format_count(verified.other_rule, 'event')}"
    yield from _shortfall_lines(verified)
    if not verified.differences:
        yield "differences: none"
    for group in verified.differences:
        yield from _group_lines(group)
    for one in verified.settings or ():
        yield f"{one.key} differs: {one.broker} at the broker, {one.here} here: {one.effect}"


def _shortfall_lines(verified: Verified) -> Iterator[str]:
    """Yield what limits the proof."""
    for release, events in verified.only_by_release.items():
        yield (
            f"agreed only by the rules of Kafka {release}: {format_count(events, 'event')}: "
            "pass --kafka-release"
        )
    for reason, events in verified.not_judged.items():
        yield f"not judged, {reason}: {format_count(events, 'event')}"
    for log, at in verified.silent.items():
        yield f"no event in {log}{'' if at is None else f' after {at}'}"
    yield from verified.lacks
    if not verified.judged and OLDEST in verified.not_judged:
        yield "check --tz: it names the time zone of the logs, by default UTC"


def _group_lines(group: Group) -> Iterator[str]:
    yield f"differences, {group.cause}: {format_count(group.events, 'event')}"
    for one in group.listed[:SHOWN_MAX]:
        host = "an unknown host" if one.host is None else one.host
        yield (
            f"  {one.line}: {one.principal} {one.operation} {one.resource_type} "
            f"{one.resource_name} from {host}, {format_count(one.events, 'event')}"
        )
        yield f"    recorded: {_answer(one.recorded_allowed, one.recorded_rule)}"
        since = "" if one.state.offset is None else f", since {_name(one.state)}"
        yield f"    here: {_answer(one.allowed, one.rule)}{since}"
        if one.detail:
            yield f"    likely: {one.detail}"
    others = len(group.listed) + group.left_out - SHOWN_MAX
    if others > 0:
        yield f"  and {others:,} more"


def _answer(is_allowed: bool, rule: str | None) -> str:
    return f"{'Allowed' if is_allowed else 'Denied'}, {rule or 'no rule recorded'}"


def _name(moment: Moment) -> str:
    offset = f"offset {moment.offset}"
    return offset if moment.at is None else f"{offset} at {moment.at}"
