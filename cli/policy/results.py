"""Run policy tests, and keep their results as values.

**Invariant:** every form of a report is made from these values, so all of them say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, DefaultRule, MatchingAcl, Rule, explain
from authorizerd.acl.policy.assertions import AtMost
from authorizerd.acl.policy.judging import Finding, Verdict, judge
from authorizerd.acl.policy.wording import write_assertion, write_finding
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.policy.document import PolicyTest


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """What contradicts a test, in words, and the rule that leads to it."""

    finding: Finding
    text: str
    rule: Rule


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test.

    Attributes:
        expected: the assertion in words, as ``write_assertion`` writes it.
        seconds: how long the test took.
    """

    test: PolicyTest
    expected: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
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
            seconds=clock() - begun,
        )


def _explain_finding(
    snapshot: AclSnapshot, settings: AuthorizerSettings, finding: Finding
) -> Reason:
    decision = explain(snapshot, settings, finding.question)
    assert decision.allowed == finding.is_allowed, "both decide by the same rules"
    return Reason(finding=finding, text=write_finding(finding), rule=decision.rule)


def describe_rule(rule: Rule) -> str:
    """Return why a rule leads to its decision."""
    match rule:
        case MatchingAcl(acl):
            return str(acl)
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
