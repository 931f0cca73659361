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
from authorizerd.replay.text import format_time
from authorizerd.replay.topics import BEFORE_OFFSET
from authorizerd.replay.verify.causes import Difference
from authorizerd.replay.verify.history import ALWAYS, History
from authorizerd.replay.verify.judging import Case, Judge, Match

LISTED_MAX: Final = 1_000

_Key: TypeAlias = tuple[str | bool | None, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of one cause: the most frequent, and how many others there are."""

    cause: Cause
    events: int
    listed: Sequence[Listed]
    left_out: int


class Sums(msgspec.Struct, frozen=True):
    """Numbers of events; see ``Verified``."""

    agreed: int = 0
    other_rule: int = 0
    not_judged: dict[str, int] = {}
    only_by_release: dict[str, int] = {}
    differences: Sequence[Group] = ()


def sum_cases(judge: Judge, cases: Iterable[Case], differences: Iterable[Difference]) -> Sums:
    """Return the sums of judged cases, of which some are ``differences``."""
    agreed = Counter[Match]()
    not_judged, by_release = Counter[str](), Counter[str]()
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
        dict(not_judged),
        dict(by_release),
        group_differences(judge.history, differences),
    )


def merge_sums(parts: Iterable[Sums]) -> Sums:
    """Return the sums of several parts."""
    agreed = other_rule = 0
    not_judged, by_release = Counter[str](), Counter[str]()
    groups: dict[Cause, Group] = {}
    for part in parts:
        agreed += part.agreed
        other_rule += part.other_rule
        not_judged.update(part.not_judged)
        by_release.update(part.only_by_release)
        for group in part.differences:
            before = groups.get(group.cause)
            groups[group.cause] = group if before is None else _merge_groups(before, group)
    differences = [groups[cause] for cause in Cause if cause in groups]
    return Sums(agreed, other_rule, dict(not_judged), dict(by_release), differences)


def _merge_groups(one: Group, other: Group) -> Group:
    return _make_group(
        one.cause,
        one.events + other.events,
        [*one.listed, *other.listed],
        one.left_out + other.left_out,
    )


def _make_group(cause: Cause, events: int, listed: Sequence[Listed], left_out: int = 0) -> Group:
    most = sorted(listed, key=lambda one: (-one.events, one.line))[:LISTED_MAX]
    return Group(
        cause=cause, events=events, listed=most, left_out=left_out + len(listed) - len(most)
    )


def find_moment(history: History, number: int) -> Moment:
    """Return the place of a state."""
    state = history.states[number]
    return Moment(state.offset, None if state.time_ms == ALWAYS else format_time(state.time_ms))


def group_differences(history: History, differences: Iterable[Difference]) -> list[Group]:
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
