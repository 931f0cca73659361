"""What differs between Kafka's answers to a case and ours, by the rules of the release."""

import re
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.audit.line import audit_level, audit_message
from authorizerd.acl.by_resource_type import authorize_by_resource_type
from authorizerd.acl.decision import AuthorizerSettings, authorize, explain
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.steps import finish
from tests.conformance.random_cases import Case, Row, ends_early
from tests.kafka_rig.oracle import Answer
from tests.oracles.standard_authorizer import filter_of, load_acls, number_acls, question_of
from tests.releases.hosts import depends_on_broker
from tests.releases.versions import Compared

_REQUEST: Final = "Metadata"
_EVERYONE: Final = "!IllegalArgumentException: duplicate element: User:*"
"""The error of Kafka's set of principals for a question by ``User:*``."""
_ROUND_ACL: Final = re.compile(r"acl=StandardAcl\((.*)\)\)$", re.DOTALL)
"""How Kafka 4.0 and 4.1 write the ACL of a rule. Later releases use square brackets."""


class Comparison:
    """Our answers to one case, beside Kafka's.

    If the range of an ACL names a network interface, only a broker knows whether it matches. Then
    Kafka must allow what is allowed here, and nothing else is compared. A question by ``User:*`` is
    not compared with a release that decides it.
    """

    def __init__(self, case: Case, kafka: Answer, release: Compared) -> None:
        self._case: Final = case
        self._kafka: Final = kafka
        named = (name.strip() for name in case.get("superUsers", "").split(";"))
        self._settings: Final = AuthorizerSettings(
            frozenset(filter(None, named)), case["allowEveryone"]
        )
        self._numbers: Final = number_acls(case)
        self._snapshot: Final = load_acls(case, self._numbers, release.rules)
        self._judges_everyone: Final = release.judges_everyone
        self._is_uncertain: Final = any(depends_on_broker(row[4]) for row in case["acls"])

    def find_differences(self) -> Iterator[str]:
        """Yield each difference: what was asked, Kafka's answer, and ours."""
        case, kafka = self._case, self._kafka
        answers = zip(case["requests"], kafka["decisions"], kafka["audit"], strict=True)
        for row, decision, audited in answers:
            yield from self._compare_decision(row, decision, audited)
        for row, expected in zip(case["byResourceType"], kafka["byResourceType"], strict=True):
            found = self._by_resource_type(row)
            is_only_here = self._judges_everyone and found == _EVERYONE
            if not (is_only_here or (self._is_uncertain and found == "D")):
                yield from _differ(f"by resource type {row}", expected, found)
        for row, expected in zip(case["filters"], kafka["filters"], strict=True):
            yield from _differ(f"filter {row}", expected, self._list(row))
        yield from _differ("ACLs", kafka["aclCount"], len(self._snapshot.acls))

    def _compare_decision(
        self, row: Row, expected: str, audited: list[str] | None
    ) -> Iterator[str]:
        asked = question_of(row)
        fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
        snapshot, settings = self._snapshot, self._settings
        try:
            decision = explain(snapshot, settings, asked)
            allowed = authorize(snapshot, settings, *fields, asked.resource_name)
        except InvalidQuestionError:
            if not self._judges_everyone:
                yield from _differ(f"question {row}", expected, _EVERYONE)
            return
        for name, is_allowed in (("decided", allowed), ("explained", decision.allowed)):
            if is_allowed or not self._is_uncertain:
                yield from _differ(f"question {row}, {name}", expected, "DA"[is_allowed])
        if self._is_uncertain:
            return
        line = [audit_level(decision.allowed).name, audit_message(asked, decision, _REQUEST)]
        if audited is not None:
            audited = [audited[0], _ROUND_ACL.sub(r"acl=StandardAcl[\1])", audited[1])]
            if ends_early(self._case["acls"], row):
                audited, line = _without_rule(audited), _without_rule(line)
        yield from _differ(f"question {row}, audited", audited, line)

    def _by_resource_type(self, row: Row) -> str:
        asked = question_of([*row, ""])
        fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
        try:
            allowed = finish(authorize_by_resource_type(self._snapshot, self._settings, *fields))
        except InvalidQuestionError as error:
            is_everyone = str(error).startswith(f"principal {WILDCARD_PRINCIPAL}")
            return _EVERYONE if is_everyone else f"!IllegalArgumentException: {error}"
        return "DA"[allowed]

    def _list(self, row: Row) -> list[int]:
        """Return the places of the ACLs that a filter matches."""
        return sorted(
            self._numbers[acl] - 1
            for some in scan_acls(self._snapshot, filter_of(row))
            for _, acl in some
        )


def _differ(what: str, expected: object, found: object) -> Iterator[str]:
    if found != expected:
        yield f"{what}: Kafka {expected!r}, here {found!r}"


def _without_rule(line: list[str]) -> list[str]:
    return [line[0], line[1].partition(" based on rule ")[0]]
