"""Sums of judged cases: what agrees, what is not judged, and the differences by cause.

**Invariant:** the sums of parts, merged, are those of the whole, if all cases of a request are in
one part. The order of cases changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from authorizerd.protocol.verification import Cause, Listed, Moment
from authorizerd.replay.local.tallies import Counted, Part, Summand, Tally
from authorizerd.replay.text import format_time
from authorizerd.replay.topics import BEFORE_OFFSET
from authorizerd.replay.verify.causes import (
    Difference,
    FindClocks,
    find_clocks,
    find_differences,
)
from authorizerd.replay.verify.history import ALWAYS, History
from authorizerd.replay.verify.judging import Judge, Match

LISTED_MAX: Final = 1_000

_Key: TypeAlias = tuple[str | bool | None, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of one cause: the most frequent, and how many others there are."""

    cause: Cause
    events: int
    listed: Sequence[Listed]
    left_out: int


class Sums(msgspec.Struct, frozen=True):
    """Numbers of events; see ``Verified``.

    ``allowed`` of those that were judged were allowed by the broker. ``first_ms`` and ``last_ms``
    are the times of the first and the last one. ``requests`` counts distinct requests, judged or
    not.
    """

    agreed: int = 0
    other_rule: int = 0
    allowed: int = 0
    not_judged: dict[str, int] = {}
    only_by_release: dict[str, int] = {}
    differences: Sequence[Group] = ()
    first_ms: int | None = None
    last_ms: int | None = None
    requests: int = 0


def judge_counted(
    judge: Judge, counted: Iterable[tuple[Counted, Tally]], find: FindClocks = find_clocks
) -> Sums:
    """Judge all events that were counted, and return the sums.

    Args:
        counted: what ``Tallies`` yields; all cases of each request.
        find: see ``find_differences``.

    Raises:
        ChangeError: a change of the history contradicts an earlier one.
    """
    cases = judge.judge(
        (summand, part)
        for summand, part in counted
        if isinstance(summand, Summand) and isinstance(part, Part)
    )
    differences = find_differences(judge, cases, find)
    agreed = Counter[Match]()
    not_judged, by_release = Counter[str](), Counter[str]()
    judged = [case for case in cases if case.not_judged is None]
    for case in cases:
        if case.not_judged is not None:
            not_judged[case.not_judged] += case.part.lines
        elif case.ruling is not None and not case.is_different:
            agreed[case.ruling.match] += case.part.lines
            if len(case.releases) < len(judge.releases):
                by_release[str(case.releases[0])] += case.part.lines
    return Sums(
        agreed[Match.SAME],
        agreed[Match.OTHER_RULE],
        sum(case.part.lines for case in judged if case.summand.allowed),
        dict(not_judged),
        dict(by_release),
        _group_differences(judge.history, differences),
        min((case.part.first_ms for case in judged), default=None),
        max((case.part.last_ms for case in judged), default=None),
        len({case.summand[:6] for case in cases}),
    )


def merge_sums(parts: Iterable[Sums]) -> Sums:
    """Return the sums of several parts, of which no two have the same request."""
    parts = list(parts)
    not_judged, by_release = Counter[str](), Counter[str]()
    groups: defaultdict[Cause, list[Group]] = defaultdict(list)
    for part in parts:
        not_judged.update(part.not_judged)
        by_release.update(part.only_by_release)
        for group in part.differences:
            groups[group.cause].append(group)
    return Sums(
        sum(part.agreed for part in parts),
        sum(part.other_rule for part in parts),
        sum(part.allowed for part in parts),
        dict(not_judged),
        dict(by_release),
        [_merge_groups(groups[cause]) for cause in Cause if cause in groups],
        min((part.first_ms for part in parts if part.first_ms is not None), default=None),
        max((part.last_ms for part in parts if part.last_ms is not None), default=None),
        sum(part.requests for part in parts),
    )


def _merge_groups(groups: Sequence[Group]) -> Group:
    listed = [one for group in groups for one in group.listed]
    events, left_out = (sum(getattr(g, name) for g in groups) for name in ("events", "left_out"))
    return _make_group(groups[0].cause, events, listed, left_out)


def _make_group(cause: Cause, events: int, listed: Sequence[Listed], left_out: int = 0) -> Group:
    most = sorted(listed, key=lambda one: (-one.events, one.line))[:LISTED_MAX]
    return Group(
        cause=cause, events=events, listed=most, left_out=left_out + len(listed) - len(most)
    )


def find_moment(history: History, number: int) -> Moment:
    """Return the place of a state."""
    state = history.states[number]
    return Moment(state.offset, None if state.time_ms == ALWAYS else format_time(state.time_ms))


def _group_differences(history: History, differences: Iterable[Difference]) -> list[Group]:
    """Return the differences by cause, equal ones together."""
    alike: defaultdict[_Key, list[Difference]] = defaultdict(list)
    for each in differences:
        case = each.case
        assert case.ruling is not None, "a difference was judged"
        key = (each.cause, *case.summand[:8], str(case.ruling.decision.rule))
        alike[key].append(each)
    groups: defaultdict[Cause, list[Listed]] = defaultdict(list)
    for some in alike.values():
        groups[some[0].cause].append(_list(history, some))
    return [
        _make_group(cause, sum(one.events for one in groups[cause]), groups[cause])
        for cause in Cause
        if cause in groups
    ]


def _list(history: History, alike: Sequence[Difference]) -> Listed:
    first = min(alike, key=_find_place)
    part, recorded, ruling = first.case.part, first.case.summand, first.case.ruling
    assert ruling is not None, "a difference was judged"
    return Listed(
        line=f"{part.file}{'' if part.file.endswith(BEFORE_OFFSET) else ':'}{part.line}",
        first_at=format_time(part.first_ms),
        last_at=format_time(max(each.case.part.last_ms for each in alike)),
        events=sum(each.case.part.lines for each in alike),
        principal=recorded.principal,
        host=recorded.host,
        operation=recorded.operation,
        resource_type=recorded.resource_type,
        resource_name=recorded.resource_name,
        recorded_allowed=recorded.allowed,
        recorded_rule=recorded.rule,
        allowed=ruling.decision.allowed,
        rule=str(ruling.decision.rule),
        state=find_moment(history, ruling.state),
        detail=first.detail,
    )


def _find_place(difference: Difference) -> tuple[int, str, int]:
    part = difference.case.part
    return part.first_ms, part.file, part.line
