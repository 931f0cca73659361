"""Every recorded answer of Kafka's own classes equals ours by the rules of the same release.

Where an answer differs from a recording on purpose, the test names the case.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path

import pytest

from authorizerd.acl.audit.line import audit_level, audit_message
from authorizerd.acl.decision import Decision, authorize, explain
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, with_rules
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import AclTail, plan_creations, plan_deletions
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionCounts
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from tests.oracles.standard_authorizer import (
    FILE,
    FILE_4_4,
    Case,
    acl_id,
    acl_of,
    control_cases,
    decision_cases,
    filter_of,
    load_acls,
    number_acls,
    question_of,
)

NOT_READY = "!AuthorizerNotReadyException: null"
WILDCARD_PRINCIPAL = "!IllegalArgumentException: duplicate element: User:*"
REQUEST = "Metadata"
CONTEXT = DecisionContext(REQUEST, DecisionCounts())


@dataclass(frozen=True)
class World:
    """A case of decisions, with ours loaded as Kafka's were.

    ``numbers`` has Kafka's id of each ACL: its first position in the list, counted from 1.
    """

    case: Case
    numbers: dict[Acl, int]
    snapshot: AclSnapshot
    authorizer: StandardAuthorizer

    def expected(self, rows: str, answers: str) -> Iterator[tuple[list[str], object]]:
        """Yield each row of the case with Kafka's answer."""
        if "failure" not in self.case["expect"]:
            yield from zip(self.case[rows], self.case["expect"][answers], strict=True)


@dataclass(frozen=True)
class Recording:
    """A recording in ``file``; the rules are those of its release."""

    file: Path
    rules: ReleaseRules

    @cached_property
    def worlds(self) -> list[World]:
        return [self._load(case) for case in decision_cases(self.file)]

    def _load(self, case: Case) -> World:
        numbers = number_acls(case)
        snapshot = load_acls(case, numbers, self.rules)
        published = None if case.get("loading") else snapshot
        authorizer = StandardAuthorizer(Published(published))
        configs = {
            "super.users": case.get("superUsers", ""),
            "allow.everyone.if.no.acl.found": str(bool(case.get("allowEveryone"))),
        }
        if "failure" in case["expect"]:
            with pytest.raises(ValueError, match="super"):
                authorizer.configure(configs)
        else:
            authorizer.configure(configs)
        return World(case, numbers, snapshot, authorizer)


@pytest.fixture(
    scope="module", params=[(FILE, RULES_4_3), (FILE_4_4, RULES_4_4)], ids=["4.3", "4.4"]
)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(*request.param)


def test_the_recording_is_complete() -> None:
    """2,625 cases of decisions, and 375 of creations and deletions."""
    decisions = decision_cases()
    assert (len(decisions), len(control_cases())) == (2625, 375)
    assert sum(len(case["requests"]) for case in decisions) == 26_601
    audited = [line for case in decisions for line in case["expect"].get("audit", ())]
    assert sum(line is not None for line in audited) > 1800


def answer(world: World, question: Question) -> str | Decision:
    authorizer = world.authorizer
    try:
        return authorizer.decide(authorizer.current_state(), question, CONTEXT)
    except NotReadyError:
        return NOT_READY
    except InvalidQuestionError:
        return WILDCARD_PRINCIPAL


def letter(answered: str | Decision) -> str:
    return answered if isinstance(answered, str) else "AD"[not answered.allowed]


def test_every_decision_equals_kafkas(recording: Recording) -> None:
    """This includes exceptions, and both ways to load the ACLs."""
    for world in recording.worlds:
        for row, expected in world.expected("requests", "decisions"):
            assert letter(answer(world, question_of(row))) == expected, (world.case["id"], row)


def test_authorize_and_explain_agree(recording: Recording) -> None:
    for world in recording.worlds:
        snapshot, settings = world.snapshot, world.authorizer.current_state().settings
        for row in world.case["requests"]:
            asked = question_of(row)
            fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
            try:
                fast = authorize(snapshot, settings, *fields, asked.resource_name)
            except InvalidQuestionError:
                with pytest.raises(InvalidQuestionError):
                    explain(snapshot, settings, asked)
            else:
                assert fast == explain(snapshot, settings, asked).allowed, (world.case["id"], row)


def test_every_audit_line_equals_kafkas(recording: Recording) -> None:
    """Level, text and the named rule are equal."""
    for world in recording.worlds:
        if not world.case.get("audit"):
            continue
        for row, expected in world.expected("requests", "audit"):
            question = question_of(row)
            answered = answer(world, question)
            line = None
            if not isinstance(answered, str):
                level = audit_level(answered.allowed)
                line = [level.name, audit_message(question, answered, REQUEST)]
            assert line == expected, (world.case["id"], row)


def test_every_filter_matches_the_same_acls_as_in_kafka(recording: Recording) -> None:
    """The filters use ANY, MATCH, null names and UNKNOWN, also while Kafka is loading."""
    for world in recording.worlds:
        for row, expected in world.expected("filters", "filters"):
            found = chain.from_iterable(scan_acls(world.snapshot, filter_of(row)))
            places = sorted(world.numbers[acl] - 1 for _, acl in found)
            assert places == expected, (world.case["id"], row)
        assert len(world.snapshot.acls) == world.case["expect"].get(
            "aclCount", len(world.snapshot.acls)
        ), world.case["id"]


def by_resource_type(world: World, question: Question) -> str:
    context = RequestContext(principal=question.principal, host=question.host, request_name=REQUEST)
    try:
        steps = world.authorizer.authorize_by_resource_type(
            context, question.operation, question.resource_type
        )
        return "AD"[not finish(steps)]
    except NotReadyError:
        return NOT_READY
    except InvalidQuestionError as error:
        if question.principal == "User:*" and str(error).startswith("principal User:*"):
            return WILDCARD_PRINCIPAL
        return f"!IllegalArgumentException: {error}"


def test_every_answer_by_resource_type_equals_kafkas(recording: Recording) -> None:
    """Texts of refusals agree, too, except for our own text about ``User:*``."""
    for world in recording.worlds:
        for row, expected in world.expected("byResourceType", "byResourceType"):
            answered = by_resource_type(world, question_of([*row, ""]))
            assert answered == expected, (world.case["id"], row)


# The classes of Kafka's client refuse ANY and MATCH in a creation, but a request on the wire can
# contain them. Such an item gets INVALID_REQUEST with this text instead of the client's.
CONSTRUCTION_TEXTS = {
    "resourceType must not be ANY": "Invalid resourceType ANY",
    "patternType must not be ANY": "Invalid patternType ANY",
    "patternType must not be MATCH": "Invalid patternType MATCH",
    "operation must not be ANY": "Invalid operation ANY",
    "permissionType must not be ANY": "Invalid permissionType ANY",
}


def check_creation(
    place: str, step: Case, expected: Case, snapshot: AclSnapshot, created: int
) -> AclSnapshot:
    """Create as AclControlManager does: item by item. A duplicate succeeds without a record."""
    acls, ids = [acl_of(row) for row in step["create"]], count(created + 1)
    plan = finish(plan_creations(AclTail(snapshot), acls, lambda: acl_id(next(ids))))
    errors = [error and str(error) for error in plan.result]
    if expected.get("skipped"):
        for error, refused in zip(errors, expected["construct"], strict=True):
            text = refused and refused.removeprefix("ERROR IllegalArgumentException: ")
            assert error == CONSTRUCTION_TEXTS.get(text), place
        return snapshot
    for texts in (expected["validate"], expected["results"]):
        assert errors == [text and text["message"] for text in texts], place
    written = [(change.id, change.acl.resource_name) for change in plan.changes]
    records = [record["data"] for record in expected["records"]]
    assert written == [(acl_id(each["idOrdinal"]), each["resourceName"]) for each in records], place
    return apply_changes(snapshot, plan.changes)


def check_deletion(place: str, step: Case, expected: Case, snapshot: AclSnapshot) -> AclSnapshot:
    """Delete as AclControlManager does: each filter sees the state before the request."""
    plan = finish(plan_deletions(AclTail(snapshot), [filter_of(row) for row in step["delete"]]))
    for validated, result, ours in zip(
        expected["validate"], expected["results"], plan.result, strict=True
    ):
        error = ours.error and str(ours.error)
        assert error == (validated and validated["message"]), place
        assert error == (result["error"] and result["error"]["message"]), place
        assert set(ours.acls) == {acl_of(binding) for binding in result["deleted"]}, place
    removed = [acl_id(number) for number in expected["removedIdOrdinals"]]
    assert sorted(change.id for change in plan.changes) == removed, place
    return apply_changes(snapshot, plan.changes)


def test_every_creation_and_deletion_equals_kafkas(recording: Recording) -> None:
    """Texts, records and the remaining ACLs, step by step."""
    for case in control_cases(recording.file):
        snapshot, created = with_rules(EMPTY_SNAPSHOT, recording.rules), 0
        for step, expected in zip(case["steps"], case["expect"]["steps"], strict=True):
            place = f"case {case['id']}: {step}"
            if "create" in step:
                snapshot = check_creation(place, step, expected, snapshot, created)
                created += len(expected.get("records", ()))
            else:
                snapshot = check_deletion(place, step, expected, snapshot)
        assert len(snapshot.acls) == case["expect"]["aclCount"], case["id"]
