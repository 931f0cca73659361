"""Judge each recorded request by the states that may have decided it, until one explains it.

**Invariant:** every state is made once, in order, and only one is kept. A state explains a line if
it gives the recorded answer, and the recorded rule is its own, or an ACL of it that matches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, Decision, DefaultRule, explain, get_acl
from authorizerd.acl.known_settings import SUPER_USERS, KnownSettings, doubt_answer
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import Question
from authorizerd.acl.releases import RULES, Release
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.replay.judging.asking import question_of, unasked_reason
from authorizerd.replay.local.tallies import Part, Summand
from authorizerd.replay.verify.history import History

T = TypeVar("T")

OLDEST: Final = "before the oldest known state"
NEWEST: Final = "after the newest known state"
AHEAD: Final = "the time of the line is in the future"
DEPENDS: Final = "depends on {}, which is not given"

_ACL: Final = re.compile(r"(?s)MatchingAcl\(acl=StandardAcl[\[(](.*)[\])]\)")
_DEFAULTS: Final = frozenset(map(str, DefaultRule))
_unpack: Final = msgspec.msgpack.Decoder(
    tuple[History, KnownSettings, tuple[Release, ...], int]
).decode


class Match(IntEnum):
    """How a state agrees with a line, worst first."""

    DIFFERENT = 0
    OTHER_RULE = 1
    SAME = 2


class Ruling(msgspec.Struct, frozen=True):
    """The decision of one state by one release's rules."""

    match: Match
    decision: Decision
    state: int
    release: Release


def _weigh(ruling: Ruling) -> tuple[Match, bool]:
    """Return the order of rulings: of those that differ, a default shows another setting."""
    return ruling.match, isinstance(ruling.decision.rule, DefaultRule)


class Case(msgspec.Struct):
    """Equal events in one file, for which the same states may have been in force.

    Attributes:
        question: None if ACLs cannot decide the request.
        states: those that concern the request, in order; ``possible`` are some of them.
        ruling: the best of the possible states and releases, None if nothing was judged.
        releases: those by which the state of ``ruling`` agrees.
        doubt: why a state that gives another answer does not prove a difference.
        not_judged: why the events cannot be judged.
    """

    summand: Summand
    part: Part
    question: Question | None = None
    states: Sequence[int] = ()
    possible: Sequence[int] = ()
    ruling: Ruling | None = None
    releases: tuple[Release, ...] = ()
    doubt: str | None = None
    not_judged: str | None = None

    @property
    def is_different(self) -> bool:
        """Whether no possible state explains the events."""
        return self.ruling is None or self.ruling.match is Match.DIFFERENT

    @property
    def recorded_acl(self) -> str | None:
        """The text of the ACL that the line names, in the form of Kafka 4; None without one."""
        found = _ACL.fullmatch(self.summand.rule or "")
        return None if found is None else f"StandardAcl[{found[1]}]"

    @property
    def names_kafkas_rule(self) -> bool:
        """Whether the line has a rule, and Kafka's authorizer decided."""
        return self.summand.rule in _DEFAULTS or self.recorded_acl is not None


@lru_cache(1)  # a worker process gets the same judge several times
def unpack_judge(packed: bytes) -> Judge:
    """Return the judge of ``Judge.packed``."""
    return Judge(*_unpack(packed))


class Judge:
    """Judges requests by the states of a history, with the settings as far as they are known.

    Events after ``until_ms`` are not judged. Pickled, it is packed, and a process that unpickles it
    again has it already.
    """

    def __init__(
        self,
        history: History,
        known: KnownSettings,
        releases: Sequence[Release],
        window_ms: int,
        until_ms: int | None = None,
    ) -> None:
        self.history = history
        self.known = known
        self.releases = tuple(releases) if history.depends_on_release else tuple(releases[:1])
        self.window_ms = window_ms
        self.until_ms = until_ms

    def __reduce__(self) -> tuple[Callable[[bytes], Judge], tuple[bytes]]:
        return unpack_judge, (self.packed,)

    @cached_property
    def packed(self) -> bytes:
        """The judge as bytes, for ``unpack_judge``."""
        return msgspec.msgpack.encode((self.history, self.known, self.releases, self.window_ms))

    def find_breaks(self, summand: Summand) -> Sequence[int]:
        """Return the times at which other states may have decided a request, for ``Tallies``."""
        if unasked_reason(summand) is not None:
            return ()
        found = self.history.find_breaks(self._find_states(summand), self.window_ms)
        return found if self.until_ms is None else sorted((*found, self.until_ms + 1))

    def _find_states(self, summand: Summand) -> list[int]:
        is_closed = self.known.allow_everyone_if_no_acl_found is False
        return self.history.find_states(summand, any_principal=not is_closed)

    def judge(self, counted: Iterable[tuple[Summand, Part]]) -> list[Case]:
        """Return all that was counted, judged, or with the reason why it is not.

        Raises:
            ChangeError: a change of the history contradicts an earlier one.
        """
        cases = [self._make_case(*each) for each in counted]
        self.visit(((case, case.possible) for case in cases), self._rule_on_case)
        for case in cases:
            if case.not_judged is None and case.is_different:
                case.not_judged = OLDEST if self._may_be_older(case) else case.doubt
        return cases

    def _make_case(self, summand: Summand, part: Part) -> Case:
        reason: str | None = unasked_reason(summand)
        if reason is not None:
            return Case(summand, part, not_judged=reason)
        if summand.rule == str(DefaultRule.SUPER_USER) and self.known.super_users is None:
            return Case(summand, part, not_judged=DEPENDS.format(SUPER_USERS))
        if self.until_ms is not None and part.first_ms > self.until_ms:
            return Case(summand, part, not_judged=AHEAD)
        states = self._find_states(summand)
        possible = self.history.find_possible(states, part.first_ms, self.window_ms)
        return Case(summand, part, question_of(summand), states, possible)

    def _may_be_older(self, case: Case) -> bool:
        """Return True if a state before the oldest known one may have been in force."""
        return self.history.states[0].time_ms > case.part.first_ms - self.window_ms

    def may_be_newer(self, case: Case) -> bool:
        """Return True if a state after the newest known one may have been in force."""
        end_ms = self.history.end_ms
        return end_ms is not None and end_ms <= case.part.last_ms + self.window_ms

    def visit(
        self,
        wanted: Iterable[tuple[T, Iterable[int]]],
        look: Callable[[T, int, AclSnapshot], bool],
    ) -> None:
        """Call ``look`` for the states that each item wants, in order, until it returns True.

        Raises:
            ChangeError: as ``History.snapshots``.
        """
        waiting: defaultdict[int, list[tuple[T, Iterator[int]]]] = defaultdict(list)

        def wait_for_next(item: T, numbers: Iterator[int]) -> None:
            number = next(numbers, None)
            if number is not None:
                waiting[number].append((item, numbers))

        for item, wanted_numbers in wanted:
            wait_for_next(item, iter(wanted_numbers))
        for number, snapshot in enumerate(self.history.snapshots()):
            for item, numbers in waiting.pop(number, ()):
                if not look(item, number, snapshot):
                    wait_for_next(item, numbers)
            if not waiting:
                return

    def _rule_on_case(self, case: Case, number: int, snapshot: AclSnapshot) -> bool:
        """Judge a case by one more state, and return True if that explains it wholly."""
        rulings = [self.rule(case, number, snapshot, release) for release in self.releases]
        best = max(rulings, key=_weigh)
        if case.ruling is None or _weigh(best) > _weigh(case.ruling):
            case.ruling = best
            case.releases = tuple(each.release for each in rulings if each.match)
        case.doubt = case.doubt or self._find_doubt(case, best, snapshot)
        return best.match is Match.SAME

    def _find_doubt(self, case: Case, ruling: Ruling, snapshot: AclSnapshot) -> str | None:
        """Return the unknown settings that may be why a request was allowed."""
        assert case.question is not None, "ACLs can decide the request"
        if not case.summand.allowed or case.names_kafkas_rule or ruling.decision.allowed:
            return None
        keys = doubt_answer(snapshot, self.known, case.question).keys
        return DEPENDS.format(" and ".join(keys)) if keys else None

    def find_explaining(
        self, case: Case, number: int, snapshot: AclSnapshot, releases: Iterable[Release]
    ) -> list[Release]:
        """Return the releases by whose rules a state explains a case."""
        return [
            release
            for release in releases
            if self.rule(case, number, snapshot, release).match is not Match.DIFFERENT
        ]

    def rule(self, case: Case, number: int, snapshot: AclSnapshot, release: Release) -> Ruling:
        """Return the decision of a state by the rules of one release."""
        assert case.question is not None, "ACLs can decide the request"
        recorded = case.summand
        judged = with_rules(snapshot, RULES[release])
        # The line itself may say what an unknown setting was.
        users, is_open = self.known.super_users, self.known.allow_everyone_if_no_acl_found
        if is_open is None:
            is_open = recorded.rule == str(DefaultRule.DEFAULT_ALLOW)
        decision = explain(judged, AuthorizerSettings(users or frozenset(), is_open), case.question)
        match = Match.DIFFERENT
        if decision.allowed == recorded.allowed:
            acl = case.recorded_acl
            own = get_acl(decision.rule)
            if not case.names_kafkas_rule or recorded.rule == str(decision.rule):
                match = Match.SAME
            elif acl is not None and own is not None:
                if acl == str(own):  # in the brackets of an earlier release
                    match = Match.SAME
                elif acl in list(map(str, matching_acls(judged, case.question))):
                    match = Match.OTHER_RULE
        return Ruling(match, decision, number, release)
