"""Find the likely cause of each difference, by tests of which the first one counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from authorizerd.acl.decision import DefaultRule
from authorizerd.acl.model import WILDCARD
from authorizerd.acl.releases import RULES, Release
from authorizerd.cli.probe.brokers import CLUSTER
from authorizerd.cli.probe.comparing import Compared, Judged
from authorizerd.cli.probe.deciding import AclDecider, Decider, Other
from authorizerd.cli.question_words import Resource

_KAFKAS: Final = ("MatchingAcl(", "UnjudgeableAcl(", *DefaultRule)
"""How the rules of Kafka's authorizer begin."""


class Cause(StrEnum):
    """Why an answer differs, as the page names it. Tests are in this order."""

    PLUG_IN = "another authorizer decides here"
    SUPER_USERS = "super.users differ"
    RELEASE = "another Kafka release decides there"
    HOST = "another host"
    DEFAULT = "allow.everyone.if.no.acl.found differs"
    OTHER = "another principal, cluster or authorizer"
    BROKERS_LACK = "an ACL that the brokers lack"
    HERE_LACKS = "an ACL that is lacking here"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that differs. ``is_visible`` is what the brokers show of the resource."""

    cause: Cause
    detail: str
    resource_type: str
    resource_name: str
    operation: str
    is_visible: bool
    brokers_allowed: bool
    allowed: bool
    rule: str


def find_differences(
    compared: Mapping[Resource, Compared], decider: Decider, principal: str
) -> list[Difference]:
    """Return all differences with their likely causes, in the order of causes."""
    judged = [each for one in compared.values() for each in one.judged]
    search = _Search(decider, principal, judged)
    found = [_describe(each, *search.find(each)) for each in judged if each.is_different]
    order = list(Cause)
    return sorted(found, key=lambda each: order.index(each.cause))


def _describe(judged: Judged, cause: Cause, detail: str) -> Difference:
    return Difference(
        cause=cause,
        detail=detail,
        resource_type=judged.resource[0].name,
        resource_name=judged.resource[1],
        operation=judged.operation.name,
        is_visible=judged.is_visible,
        brokers_allowed=judged.allowed,
        allowed=judged.ours.allowed,
        rule=judged.ours.rule,
    )


class _Search:
    """What all answers together say, so that each difference can be explained."""

    def __init__(self, decider: Decider, principal: str, judged: Sequence[Judged]) -> None:
        self._principal = principal
        self._allows_all = all(each.allowed for each in judged)
        differences = [each for each in judged if each.is_different]
        self._is_other = 2 * len(differences) > len(judged)
        self._otherwise: tuple[Cause, str] | None = None
        self._open: list[Judged] = []
        if isinstance(decider, AclDecider) and differences:
            self._is_other = self._is_other or not decider.own_acls
            explaining = (
                (cause, detail)
                for cause, detail, other in _try_others(decider)
                # Most fail with the differences, which are few.
                if _explains(decider, differences, other) and _explains(decider, judged, other)
            )
            self._otherwise = next(explaining, None)
            unmatched = [each for each in judged if each.resource != CLUSTER]
            unmatched = [each for each in unmatched if not decider.has_acls(each.resource)]
            if all(each.allowed for each in unmatched):
                self._open = unmatched

    def find(self, judged: Judged) -> tuple[Cause, str]:
        """Return the cause of a difference, and what it is in this case."""
        rule, host = judged.ours.rule, judged.ours.acl_host
        if not rule.startswith(_KAFKAS):
            return Cause.PLUG_IN, rule
        if rule == DefaultRule.SUPER_USER:
            return Cause.SUPER_USERS, f"{self._principal} is one only here"
        if self._allows_all:
            return Cause.SUPER_USERS, f"the brokers allow {self._principal} all that was asked"
        if self._otherwise is not None:
            return self._otherwise
        if rule == DefaultRule.DEFAULT_ALLOW or judged in self._open:
            theirs = "true" if judged.allowed else "false"
            return Cause.DEFAULT, f"the brokers have {theirs}"
        if host not in (None, WILDCARD):
            return Cause.HOST, f"the ACL that decides here is for {host}, or the brokers lack it"
        if self._is_other:
            return Cause.OTHER, "the brokers' audit log names the principal"
        if host is not None:
            return Cause.BROKERS_LACK, "the one that decides here: it was added or removed later"
        what = "an ALLOW" if judged.allowed else "a DENY"
        return Cause.HERE_LACKS, f"{what} that was added or removed later, or is for another host"


def _try_others(decider: AclDecider) -> Iterator[tuple[Cause, str, Other]]:
    """Yield other ways to ask, with the causes that they would prove."""
    for release in Release:
        yield Cause.RELEASE, f"Kafka {release}: --kafka-release", Other(rules=RULES[release])
    for host in decider.list_hosts():
        detail = f"from {host}, all answers are those of the brokers: --host"
        yield Cause.HOST, detail, Other(host=host)


def _explains(decider: AclDecider, judged: Sequence[Judged], other: Other) -> bool:
    """Return True if the brokers' answers are those of another way to ask."""
    answers = decider.decide([(each.operation, each.resource) for each in judged], other)
    return [each.allowed for each in answers] == [each.allowed for each in judged]
