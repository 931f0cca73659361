"""Run policy tests, keep their results as values, and report them to people.

**Invariant:** a test passes only if its assertion holds for all possible values of the unknown
settings. All forms of a report are made from these values, so they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.decision import (
    AuthorizerSettings,
    DefaultRule,
    MatchingAcl,
    Rule,
    UnjudgeableAcl,
)
from authorizerd.acl.explanation.description import ANY_SERVER, describe_command
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS, KnownSettings, doubt_denial
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.policy.document import PolicyTest
from authorizerd.management.policy.judging import Finding, Verdict, judge, judged_by
from authorizerd.management.policy.remedy import find_remedy
from authorizerd.management.policy.wording import write_assertion, write_finding
from authorizerd.management.policy.words import Assertion, AtMost, Each

NEAR_MISSES_MAX: Final = 2


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A contradiction to a test, in words, and the rule that causes it.

    Attributes:
        near_misses: sentences about what would almost allow it, closest first. unknown: the unknown
            settings that may make the finding false; ``text`` says so.
    """

    finding: Finding
    text: str
    rule: Rule
    near_misses: tuple[str, ...]
    unknown: tuple[str, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test.

    Attributes:
        expected: the assertion in words, as ``write_assertion`` writes it.
        notes: sentences about why the test may prove less than it seems to.
        changes: ACLs to add or to remove, after which the assertion holds. Empty if it holds, or if
            a few changes do not suffice.
        unknown: the settings that are unknown, and on which the result depends. Then the test
            fails.
        seconds: how long the test took.
    """

    test: PolicyTest
    expected: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]
    changes: tuple[AclChange, ...]
    unknown: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the assertion certainly holds."""
        return self.verdict.passed and not self.unknown

    @property
    def left_out(self) -> int:
        return self.verdict.count - len(self.reasons)


def run_tests(
    tests: Iterable[PolicyTest],
    snapshot: AclSnapshot,
    known: KnownSettings,
    *,
    clock: Callable[[], float],
) -> Iterator[Result]:
    for test in tests:
        begun = clock()
        assertion = test.assertion
        verdict, settings = _judge(snapshot, known, assertion)
        reasons = tuple(
            _explain_finding(snapshot, known, settings, finding) for finding in verdict.findings
        )
        # After the changes, the assertion must hold for all possible super users.
        changes: tuple[AclChange, ...] = ()
        if not _may_super_users_break(known, assertion):
            worst = known.most if _is_denial(assertion) else known.least
            changes = find_remedy(snapshot, worst, assertion, verdict)
        yield Result(
            test=test,
            expected=write_assertion(assertion),
            verdict=verdict,
            reasons=reasons,
            notes=tuple(_find_notes(snapshot, known, assertion)),
            changes=changes,
            unknown=tuple(_find_unknown(known, assertion, verdict, reasons)),
            seconds=clock() - begun,
        )


def _judge(
    snapshot: AclSnapshot, known: KnownSettings, assertion: Assertion
) -> tuple[Verdict, AuthorizerSettings]:
    """Return the worst verdict for an unknown default, and the settings that lead to it.

    Certain contradictions come first.
    """
    verdict = judge(snapshot, known.least, assertion)
    if verdict.passed and _is_denial(assertion) and known.least != known.most:
        return judge(snapshot, known.most, assertion), known.most
    return verdict, known.least


def _is_denial(assertion: Assertion) -> bool:
    return isinstance(assertion.who, AtMost) or not assertion.is_allowed


def _find_unknown(
    known: KnownSettings, assertion: Assertion, verdict: Verdict, reasons: tuple[Reason, ...]
) -> Iterator[str]:
    """Yield the unknown settings whose values may decide whether the assertion holds."""
    is_doubtful = all(reason.unknown for reason in reasons)
    doubts = {key for reason in reasons for key in reason.unknown}
    if _may_super_users_break(known, assertion) and is_doubtful:
        doubts.add(SUPER_USERS)
    who = assertion.who
    if isinstance(who, AtMost) and who.besides_super_users and not verdict.passed:
        # A found principal may be a super user; super users do not count.
        doubts.add(SUPER_USERS)
    yield from (key for key in known.unknown if key in doubts)


def _may_super_users_break(known: KnownSettings, assertion: Assertion) -> bool:
    """Return True if the super users are unknown, and the assertion would be wrong for some."""
    if known.super_users is not None or not _is_denial(assertion):
        return False
    who = assertion.who
    return not (isinstance(who, AtMost) and who.besides_super_users)


def _find_notes(snapshot: AclSnapshot, known: KnownSettings, assertion: Assertion) -> Iterator[str]:
    """Yield notes on principals that may be misspelt: a denial for them proves little."""
    who = assertion.who
    if isinstance(who, Each) and not assertion.is_allowed:
        for principal in who.principals:
            is_named = any(principal in index.principals for index in snapshot.types)
            if not (is_named or known.is_super_user(principal)):
                yield f"no ACL names {principal}"


def _explain_finding(
    snapshot: AclSnapshot, known: KnownSettings, settings: AuthorizerSettings, finding: Finding
) -> Reason:
    question = finding.question
    explanation = explain_fully(judged_by(snapshot, finding), settings, question)
    decision = explanation.decision
    assert decision.allowed == finding.is_allowed, "both decide by the same rules"
    text = write_finding(finding)
    unknown: tuple[str, ...] = ()
    if not finding.is_allowed:
        doubt = doubt_denial(
            snapshot, known, finding.principal, question.resource_type, question.resource_name
        )
        text, unknown = f"{text}{doubt}", doubt.keys
    elif decision.rule is DefaultRule.DEFAULT_ALLOW and ALLOW_EVERYONE in known.unknown:
        text, unknown = f"{text}, if {ALLOW_EVERYONE} is true, which is unknown", (ALLOW_EVERYONE,)
    # Near misses of a made-up principal would concern nobody.
    misses = () if finding.principal is None else explanation.near_misses
    return Reason(
        finding=finding,
        text=text,
        rule=decision.rule,
        near_misses=tuple(miss.text for miss in misses[:NEAR_MISSES_MAX]),
        unknown=unknown,
    )


def describe_reason(reason: Reason) -> str:
    match reason.rule:
        case MatchingAcl(acl):
            return str(acl)
        case UnjudgeableAcl(acl):
            return f"{acl}, on which Kafka fails: its principal has no colon"
        case DefaultRule.SUPER_USER:
            return "super.users names this principal"
        case DefaultRule.DEFAULT_ALLOW:
            value = "unknown" if ALLOW_EVERYONE in reason.unknown else "true"
            return f"no ACL matches, and {ALLOW_EVERYONE} is {value}"
        case DefaultRule.DEFAULT_DENY:
            return "no ACL allows it"
        case rule:
            return str(rule)


def describe_unknown_key(key: str) -> str:
    """Return why a test that depends on an unknown setting fails, and how to settle it."""
    if key == SUPER_USERS:
        return (
            "super users may do everything, and super.users is unknown: pass --super-users LIST"
            " (an empty list if there are none)"
        )
    return f"{key} is unknown: pass --allow-everyone-if-no-acl-found true or false"


def count_principals(result: Result) -> str | None:
    """Return how many principals exceed an assertion's limit, in words; None without a limit."""
    who = result.test.assertion.who
    if not isinstance(who, AtMost) or who.count == 0:
        return None
    if any(reason.finding.principal is None for reason in result.reasons):
        return "every principal"
    return f"{result.verdict.count} principals"


DescribeChange: TypeAlias = Callable[[AclChange], str]
"""Return the line that proposes a change of ACLs."""


def propose_command(change: AclChange, server: str = ANY_SERVER) -> str:
    return f"change:   {describe_command(change, server)}"


def describe_result(result: Result, propose: DescribeChange) -> Iterator[str]:
    """Yield the line of a test, and for a failed one what was expected and found."""
    test = result.test
    if result.passed:
        yield escape_unprintable(f"ok    {test.title}")
        for note in result.notes:
            yield escape_unprintable(f"      note:     {note}")
        return
    yield escape_unprintable(f"FAIL  {test.title}")
    for line in describe_failure(result, propose):
        yield f"      {line}"


def describe_failure(result: Result, propose: DescribeChange = propose_command) -> Iterator[str]:
    test = result.test
    for line in _describe_failure(result):
        yield escape_unprintable(line)
    for note in result.notes:
        yield escape_unprintable(f"note:     {note}")
    for change in result.changes:
        yield escape_unprintable(propose(change))
    yield escape_unprintable(f"at {test.source}:{test.line}")


def _describe_failure(result: Result) -> Iterator[str]:
    yield f"expected: {result.expected}"
    counted = count_principals(result)
    if counted is not None:
        yield f"found:    {counted}"
    for reason in result.reasons:
        yield from _describe_reason(reason)
    if result.left_out:
        yield f"found:    {result.left_out} more"
    for key in result.unknown:
        yield f"unknown:  {describe_unknown_key(key)}"


def _describe_reason(reason: Reason) -> Iterator[str]:
    yield f"found:    {reason.text}"
    yield f"because:  {describe_reason(reason)}"
    for text in reason.near_misses:
        yield f"near:     {text}"


def summarize(results: Sequence[Result]) -> str:
    failed = sum(not result.passed for result in results)
    counted = f"{count_of(len(results), 'test')}: {len(results) - failed} passed, {failed} failed"
    return f"{counted}{describe_undecided(results)}"


def describe_undecided(results: Sequence[Result]) -> str:
    """Return the number of failed tests that depend on unknown settings, or an empty text."""
    undecided = sum(bool(result.unknown) for result in results)
    verb = "depends" if undecided == 1 else "depend"
    return f", {undecided} of which {verb} on unknown settings" if undecided else ""
