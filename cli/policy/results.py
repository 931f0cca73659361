"""Run policy tests, and keep their results as values.

**Invariant:** every form of a report is made from these values, so all of them say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from authorizerd.acl.decision import (
    AuthorizerSettings,
    DefaultRule,
    MatchingAcl,
    Rule,
    UnjudgeableAcl,
)
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.policy.assertions import Assertion, AtMost, Each
from authorizerd.acl.policy.judging import Finding, Verdict, judge
from authorizerd.acl.policy.remedy import find_remedy
from authorizerd.acl.policy.wording import write_assertion, write_finding
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.cli.policy.document import PolicyTest

NEAR_MISSES_MAX: Final = 2


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """What contradicts a test, in words, and the rule that leads to it.

    ``near_misses`` are sentences about what almost allows it, the closest first.
    """

    finding: Finding
    text: str
    rule: Rule
    near_misses: tuple[str, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test.

    Attributes:
        expected: the assertion in words, as ``write_assertion`` writes it.
        notes: sentences about why the test may prove less than it seems.
        changes: ACLs to add or to remove, after which the assertion holds. Empty if it holds, or if
            no few changes suffice.
        seconds: how long the test took.
    """

    test: PolicyTest
    expected: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]
    changes: tuple[AclChange, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the assertion holds."""
        return self.verdict.passed

    @property
    def left_out(self) -> int:
        """The number of findings without a reason here."""
        return self.verdict.count - len(self.reasons)


def run_tests(
    tests: Iterable[PolicyTest],
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    *,
    clock: Callable[[], float],
) -> Iterator[Result]:
    """Yield the result of each test, in order.

    Args:
        clock: the current time in seconds, from any beginning.
    """
    for test in tests:
        begun = clock()
        verdict = judge(snapshot, settings, test.assertion)
        yield Result(
            test=test,
            expected=write_assertion(test.assertion),
            verdict=verdict,
            reasons=tuple(_explain_finding(snapshot, settings, each) for each in verdict.findings),
            notes=tuple(_find_notes(snapshot, settings, test.assertion)),
            changes=find_remedy(snapshot, settings, test.assertion, verdict),
            seconds=clock() - begun,
        )


def _find_notes(
    snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion
) -> Iterator[str]:
    """Yield the principals that may be misspelt: that they may not do something proves little."""
    who = assertion.who
    if isinstance(who, Each) and not assertion.is_allowed:
        for principal in who.principals:
            is_named = any(principal in index.principals for index in snapshot.types)
            if not (is_named or principal in settings.super_users):
                yield f"no ACL names {principal}"


def _explain_finding(
    snapshot: AclSnapshot, settings: AuthorizerSettings, finding: Finding
) -> Reason:
    explanation = finish(explain_fully(snapshot, settings, finding.question))
    decision = explanation.decision
    assert decision.allowed == finding.is_allowed, "both decide by the same rules"
    # The near misses of an invented principal would concern nobody.
    misses = () if finding.principal is None else explanation.near_misses
    return Reason(
        finding=finding,
        text=write_finding(finding),
        rule=decision.rule,
        near_misses=tuple(miss.text for miss in misses[:NEAR_MISSES_MAX]),
    )


def describe_rule(rule: Rule) -> str:
    """Return why a rule leads to its decision."""
    match rule:
        case MatchingAcl(acl):
            return str(acl)
        case UnjudgeableAcl(acl):
            return f"{acl}, on which Kafka fails: its principal has no colon"
        case DefaultRule.SUPER_USER:
            return "super.users names this principal"
        case DefaultRule.DEFAULT_ALLOW:
            return "no ACL matches, and allow.everyone.if.no.acl.found is true"
        case DefaultRule.DEFAULT_DENY:
            return "no ACL allows it"
        case _:
            return str(rule)


def count_principals(result: Result) -> str | None:
    """Return how many principals there are too many of, for an assertion that counts them."""
    who = result.test.assertion.who
    if not isinstance(who, AtMost) or who.count == 0:
        return None
    if any(each.finding.principal is None for each in result.reasons):
        return "every principal"
    return f"{result.verdict.count} principals"
