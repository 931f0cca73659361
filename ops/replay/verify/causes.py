"""Find the likely cause of each difference: tests in a fixed order, of which the first one counts.

A state outside the window is a cause only if the record shows that the broker came to it, or left
it: there is a later, or an earlier, event of the same request with the answer of the state in
force. Otherwise any state that happens to give the recorded answer would do.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

import msgspec

from authorizerd.acl.decision import DefaultRule, Rule, get_acl
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import Release
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.verification import Cause
from authorizerd.replay.verify.history import describe_state
from authorizerd.replay.verify.judging import NEWEST, Case, Judge

CLOCK_CHANGES_MIN: Final = 2
"""A broker that is late by the same time after this many changes has another clock."""

SUPER_USER: Final = DefaultRule.SUPER_USER
_SECOND_MS: Final = 1000
_Request: TypeAlias = tuple[str | None, ...]
"""The log of a broker, and the fields of a request in it."""


_NEED_STATE: Final = frozenset((Cause.HISTORY_LACKS, Cause.BROKER_LACKED, Cause.UNKNOWN))
"""The causes that a state which is not known yet would rule out."""
_OF_STATES: Final = _NEED_STATE | {Cause.OTHER_TIME}
"""The causes that another clock of the broker may explain."""

_find_rotation: Final = re.compile(
    r"(?s)(?P<log>.+\.log)(?:[.-]\d[\dT_:-]*(?:\.\d+)?)?(?:\.(?:gz|bz2|xz|zstd?))?"
).fullmatch
"""``log`` is the name that a file had before it was rotated and packed."""


class Difference(msgspec.Struct):
    """A case that no possible state explains.

    Attributes:
        detail: what the cause is in this case, for people.
        release: another release that explains it.
        earlier: the last state before the window that explains it; ``later`` is the first after it.
        delay_ms: the least and the greatest time by which the broker was behind the state
            ``change``; it was ahead if they are negative. One may be infinite. None if the record
            does not show it.
    """

    case: Case
    cause: Cause = Cause.UNKNOWN
    detail: str = ""
    release: Release | None = None
    earlier: int | None = None
    later: int | None = None
    delay_ms: tuple[float, float] | None = None
    change: int = 0


class Delay(NamedTuple):
    """By how many milliseconds the broker of a log was behind a change; see ``Difference``."""

    log: str
    change: int
    least: float
    greatest: float


FindClocks: TypeAlias = Callable[[list[Delay]], Mapping[str, int]]


def find_clocks(delays: Iterable[Delay]) -> dict[str, int]:
    """Return the logs whose brokers were late by one time after most changes, and that time."""
    by_log: defaultdict[str, list[Delay]] = defaultdict(list)
    for each in delays:
        by_log[each.log].append(each)
    found = ((log, find_common_delay(some)) for log, some in by_log.items())
    return {log: delay_ms for log, delay_ms in found if delay_ms is not None}


def find_differences(
    judge: Judge,
    cases: Sequence[Case],
    find: FindClocks,
) -> list[Difference]:
    """Return what no possible state explains, with the causes.

    What a change after the newest known state may explain becomes a case that is not judged.

    Args:
        cases: all cases of each request.
        find: returns what ``find_clocks`` finds; a part of the cases does not show it.

    Raises:
        ChangeError: as ``Judge.judge``.
    """
    found = [Difference(case) for case in cases if case.not_judged is None and case.is_different]
    _search(judge, found)
    requests = {_same_request(each.case) for each in found}
    grouped = _group_by_request(case for case in cases if _same_request(case) in requests)
    for each in found:
        _find_delay(judge, each, grouped[_same_request(each.case)])
        each.cause, each.detail = _find_cause(judge, each)
    delays = [
        Delay(name_log(each.case.part.file), each.change, *each.delay_ms)
        for each in found
        if each.cause in _OF_STATES and each.delay_ms is not None
    ]
    _set_clocks(judge, found, find(delays))
    for each in found:
        if each.cause in _NEED_STATE and judge.may_be_newer(each.case):
            each.case.not_judged = NEWEST
    return [each for each in found if each.case.not_judged is None]


def name_log(file: str) -> str:
    """Return the name of the log that a file is a part of: brokers rotate their logs."""
    rotation = _find_rotation(file)
    return file if rotation is None else rotation["log"]


def _search(judge: Judge, found: Sequence[Difference]) -> None:
    """Find the states that concern each difference, within the window and outside it."""
    # Only ranges of addresses make releases differ.
    known = judge.releases if judge.history.depends_on_release else tuple(Release)
    others = [each for each in Release if each not in known]

    def look(difference: Difference, number: int, snapshot: AclSnapshot) -> bool:
        """Note whether a state explains a difference; return True if no later one matters."""
        case = difference.case
        is_possible = case.possible[0] <= number <= case.possible[-1]
        releases = others if is_possible else judge.releases
        explained = judge.find_explaining(case, number, snapshot, releases)
        if explained and is_possible:
            difference.release = explained[0]
        elif explained and number < case.possible[0]:
            difference.earlier = number
        elif explained:
            difference.later = number
        return difference.later is not None

    judge.visit(((each, each.case.states) for each in found), look)


def _same_request(case: Case) -> _Request:
    return name_log(case.part.file), *case.summand[:6]


def _group_by_request(cases: Iterable[Case]) -> dict[_Request, list[Case]]:
    grouped: defaultdict[_Request, list[Case]] = defaultdict(list)
    for case in cases:
        grouped[_same_request(case)].append(case)
    return grouped


def _find_delay(judge: Judge, difference: Difference, others: Iterable[Case]) -> None:
    """Find by how much the broker was behind the change that led to the state in force, or before.

    Args:
        others: the events of the same request in the log of the same broker.
    """
    case, states = difference.case, judge.history.states
    assert case.ruling is not None, "a difference was judged"
    decision = case.ruling.decision
    parts = [
        other.part
        for other in others
        if other.summand.allowed == decision.allowed
        and other.summand.rule in (None, str(decision.rule))
        and other.summand[6:8] != case.summand[6:8]
    ]
    first_ms, last_ms = case.part.first_ms, case.part.last_ms
    if difference.earlier is not None:
        change = case.states[case.states.index(difference.earlier) + 1]
        # A part that began before shows only that some event of it came after.
        after = [
            part.first_ms if part.first_ms > last_ms else math.inf
            for part in parts
            if part.last_ms > last_ms
        ]
        if after:
            begin_ms = states[change].time_ms
            difference.change = change
            difference.delay_ms = last_ms - begin_ms, min(after) - begin_ms
            return
    if difference.later is not None:
        before = [
            part.last_ms if part.last_ms < first_ms else -math.inf
            for part in parts
            if part.first_ms < first_ms
        ]
        begin_ms = states[difference.later].time_ms
        # A line that names an ACL proves that the broker had it.
        if before or case.recorded_acl is not None:
            difference.change = difference.later
            difference.delay_ms = (
                max(before, default=-math.inf) - begin_ms,
                first_ms - begin_ms,
            )


def _find_cause(judge: Judge, difference: Difference) -> tuple[Cause, str]:
    """Return the cause of a difference, and what it is in this case."""
    case = difference.case
    assert case.ruling is not None, "a difference was judged"
    rule, ours = case.summand.rule, case.ruling.decision.rule
    if rule is not None and not case.names_kafkas_rule:
        return Cause.PLUG_IN, rule
    if str(SUPER_USER) in (rule, str(ours)):
        where = "here" if ours is SUPER_USER else "at the broker"
        return Cause.SUPER_USERS, f"{case.summand.principal} is a super user only {where}"
    if _is_of_default(rule, ours, is_open=judge.known.allow_everyone_if_no_acl_found):
        return Cause.DEFAULT, f"the broker has {'true' if case.summand.allowed else 'false'}"
    if difference.release is not None:
        return Cause.RELEASE, f"Kafka {difference.release}"
    return _find_cause_in_states(judge, difference, get_acl(ours))


def _find_cause_in_states(
    judge: Judge, difference: Difference, own_acl: Acl | None
) -> tuple[Cause, str]:
    """Return the cause if the states of the broker and of the history differ."""
    case, history, acl = difference.case, judge.history, difference.case.recorded_acl
    if difference.delay_ms is not None:
        least, greatest = difference.delay_ms
        seconds, when = (greatest, "before") if greatest < 0 else (least, "after")
        return Cause.OTHER_TIME, (
            f"the broker decided so {abs(seconds) / _SECOND_MS:.1f} s {when} the change at "
            f"{describe_state(history, difference.change)}"
        )
    if acl is not None and acl not in history.texts:
        return Cause.HISTORY_LACKS, "the recorded ACL is in no state"
    if own_acl is not None:
        return Cause.BROKER_LACKED, "the ACL that decides here"
    if acl is not None:
        return Cause.HISTORY_LACKS, "the recorded ACL is only in states of other times"
    if case.summand.rule == str(DefaultRule.DEFAULT_ALLOW):
        return Cause.BROKER_LACKED, "an ACL whose pattern matches the resource"
    return Cause.UNKNOWN, ""


def _is_of_default(rule: str | None, ours: Rule, *, is_open: bool | None) -> bool:
    """Return True if the broker has another value of allow.everyone.if.no.acl.found."""
    if rule == str(DefaultRule.DEFAULT_ALLOW):
        return is_open is False
    is_default_deny = rule in (None, str(DefaultRule.DEFAULT_DENY))
    return is_default_deny and ours is DefaultRule.DEFAULT_ALLOW


def _set_clocks(judge: Judge, differences: Iterable[Difference], clocks: Mapping[str, int]) -> None:
    """Replace the causes in the logs of brokers with other clocks.

    Raises:
        ChangeError: as ``Judge.judge``.
    """
    wanted: list[tuple[tuple[Difference, str], list[int]]] = []
    for each in differences:
        log = name_log(each.case.part.file)
        if each.cause not in _OF_STATES or log not in clocks:
            continue
        delay_ms = clocks[log]
        where = "ahead of" if delay_ms > 0 else "behind"
        text = f"the broker of {log} is about {abs(delay_ms) / _SECOND_MS:.0f} s {where} the log"
        part, states = each.case.part, each.case.states
        shifted = {
            number
            for at_ms in (part.first_ms - delay_ms, part.last_ms - delay_ms)
            for number in judge.history.find_possible(states, at_ms, judge.window_ms)
        }
        wanted.append(((each, text), sorted(shifted)))

    def look(found: tuple[Difference, str], number: int, snapshot: AclSnapshot) -> bool:
        difference, text = found
        if not judge.find_explaining(difference.case, number, snapshot, judge.releases):
            return False
        difference.cause, difference.detail = Cause.CLOCK, text
        return True

    judge.visit(wanted, look)


def find_common_delay(delays: Sequence[Delay]) -> int | None:
    """Return the delay that fits most of those of a log, and several changes; else None."""
    lows = sorted(each.least for each in delays)
    highs = sorted(each.greatest for each in delays)
    best = max(
        filter(math.isfinite, (*lows, *highs)),
        key=lambda ms: bisect_right(lows, ms) - bisect_left(highs, ms),
        default=0,
    )
    fitting = [each for each in delays if each.least <= best <= each.greatest]
    are_most = 2 * len(fitting) > len(delays)
    if not are_most or len({each.change for each in fitting}) < CLOCK_CHANGES_MIN:
        return None
    bounds = max(each.least for each in fitting), min(each.greatest for each in fitting)
    return round(fmean(filter(math.isfinite, bounds)))
