"""The differential test: every recorded answer of Kafka's own classes, case by case.

Where an answer differs from the recording on purpose, the test names the case.
"""

from __future__ import annotations

from itertools import chain

import pytest

from authorizerd.acl.audit import audit_level, audit_message
from authorizerd.acl.builder import build
from authorizerd.acl.decision import Decision, authorize, explain
from authorizerd.acl.errors import InvalidAclError, InvalidQuestionError, NotReadyError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved, Question
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset, contains
from authorizerd.acl.steps import finish
from authorizerd.acl.validation import validate_filter, validate_new_acl
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.decider import DecisionContext, DecisionCounts
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from tests.oracles.standard_authorizer import (
    Case,
    acl_of,
    control_cases,
    decision_cases,
    filter_of,
    question_of,
)
from tests.support.authorizers import read_only_authorizer

NOT_READY = "!AuthorizerNotReadyException: null"
WILDCARD_PRINCIPAL = "!IllegalArgumentException: duplicate element: User:*"
REQUEST = "Metadata"


def acl_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def configs_of(case: Case) -> dict[str, str]:
    return {
        "super.users": case.get("superUsers", ""),
        "allow.everyone.if.no.acl.found": str(bool(case.get("allowEveryone"))),
    }


def numbered(case: Case) -> dict[Acl, int]:
    """Return Kafka's id of each ACL: its first position in the list, counted from 1."""
    acls: dict[Acl, int] = {}
    for number, row in enumerate(case["acls"], 1):
        acls.setdefault(acl_of(row), number)
    return acls


def snapshot_of(case: Case) -> AclSnapshot:
    """Load as the recording did: in bulk, or one by one, then remove."""
    added = [AclAdded(acl_id(number), acl) for acl, number in numbered(case).items()]
    if case.get("load") != "add":
        return build(added)
    snapshot = apply_changes(EMPTY_SNAPSHOT, added)
    removed = tuple(AclRemoved(acl_id(number)) for number in case.get("removeIds", ()))
    return at_offset(apply_changes(snapshot, removed), 0)


CONTEXT = DecisionContext(REQUEST, DecisionCounts())


def authorizer_of(case: Case) -> StandardAuthorizer:
    snapshot = None if case.get("loading") else snapshot_of(case)
    authorizer = read_only_authorizer(Published(snapshot))
    authorizer.configure(configs_of(case))
    return authorizer


def answer(authorizer: StandardAuthorizer, question: Question) -> str | Decision:
    try:
        return authorizer.decide(authorizer.current_state(), question, CONTEXT)
    except NotReadyError:
        return NOT_READY
    except InvalidQuestionError:
        return WILDCARD_PRINCIPAL


def letter(answered: str | Decision) -> str:
    return answered if isinstance(answered, str) else "AD"[not answered.allowed]


def test_the_recording_is_complete() -> None:
    """2,625 cases of decisions, and 375 of creations and deletions."""
    decisions = decision_cases()
    assert (len(decisions), len(control_cases())) == (2625, 375)
    assert sum(len(case["requests"]) for case in decisions) == 26_601


def test_every_decision_equals_kafkas() -> None:
    """This includes exceptions, and both ways to load the ACLs."""
    for case in decision_cases():
        authorizer = authorizer_of(case)
        answers = [letter(answer(authorizer, question_of(row))) for row in case["requests"]]
        assert answers == case["expect"]["decisions"], case["id"]


def test_authorize_and_explain_agree() -> None:
    for case in decision_cases():
        snapshot, settings = snapshot_of(case), authorizer_of(case).current_state().settings
        for row in case["requests"]:
            asked = question_of(row)
            fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
            try:
                fast = authorize(snapshot, settings, *fields, asked.resource_name)
            except InvalidQuestionError:
                with pytest.raises(InvalidQuestionError):
                    explain(snapshot, settings, asked)
            else:
                assert fast == explain(snapshot, settings, asked).allowed, case["id"]


def test_every_audit_line_equals_kafkas() -> None:
    """Level, text and the named rule are equal."""
    compared = 0
    for case in decision_cases():
        if not case.get("audit"):
            continue
        authorizer = authorizer_of(case)
        for row, expected in zip(case["requests"], case["expect"]["audit"], strict=True):
            question = question_of(row)
            answered = answer(authorizer, question)
            if isinstance(answered, str):
                assert expected is None, case["id"]
                continue
            level = audit_level(answered.allowed)
            assert [level.name, audit_message(question, answered, REQUEST)] == expected, case["id"]
            compared += 1
    assert compared > 1800


def test_every_filter_matches_the_same_acls_as_in_kafka() -> None:
    """The filters use ANY, MATCH, null names and UNKNOWN. Some ACLs were removed before."""
    for case in decision_cases():
        snapshot, numbers = authorizer_of(case).current_state().snapshot, numbered(case)
        if snapshot is None:
            snapshot = snapshot_of(case)  # while loading, Kafka lists the ACLs that it has so far
        for row, expected in zip(case["filters"], case["expect"]["filters"], strict=True):
            found = sorted(
                numbers[acl] - 1 for some in scan_acls(snapshot, filter_of(row)) for _, acl in some
            )
            assert found == expected, (case["id"], row)
        assert len(snapshot.acls) == case["expect"]["aclCount"], case["id"]


def test_every_answer_by_resource_type_equals_kafkas() -> None:
    """Texts of refusals agree, too, except for our own text about ``User:*``."""
    for case in decision_cases():
        authorizer = authorizer_of(case)
        for row, expected in zip(
            case["byResourceType"], case["expect"]["byResourceType"], strict=True
        ):
            question = question_of([*row, ""])
            try:
                steps = authorizer.authorize_by_resource_type(
                    RequestContext(
                        principal=question.principal, host=question.host, request_name=REQUEST
                    ),
                    question.operation,
                    question.resource_type,
                )
                allowed = finish(steps)
                answered = "AD"[not allowed]
            except NotReadyError:
                answered = NOT_READY
            except InvalidQuestionError as error:
                answered = f"!IllegalArgumentException: {error}"
                if question.principal == "User:*" and str(error).startswith("principal User:*"):
                    answered = WILDCARD_PRINCIPAL
            assert answered == expected, (case["id"], row)


# The classes of Kafka's client refuse ANY and MATCH in a creation, but a request on the wire can
# contain them. Such an item gets INVALID_REQUEST with this text instead of the client's.
CONSTRUCTION_TEXTS = {
    "resourceType must not be ANY": "Invalid resourceType ANY",
    "patternType must not be ANY": "Invalid patternType ANY",
    "patternType must not be MATCH": "Invalid patternType MATCH",
    "operation must not be ANY": "Invalid operation ANY",
    "permissionType must not be ANY": "Invalid permissionType ANY",
}


def creation_error(acl: Acl) -> str | None:
    try:
        validate_new_acl(acl)
    except InvalidAclError as error:
        return str(error)
    return None


def filter_error(filter: AclFilter) -> str | None:
    try:
        validate_filter(filter)
    except InvalidAclError as error:
        return str(error)
    return None


def check_creation(step: Case, expected: Case, snapshot: AclSnapshot, next_id: int) -> AclSnapshot:
    """Create as AclControlManager does: item by item. A duplicate succeeds without a record."""
    acls = [acl_of(row) for row in step["create"]]
    errors = [creation_error(acl) for acl in acls]
    if expected.get("skipped"):
        for error, refused in zip(errors, expected["construct"], strict=True):
            text = refused and refused.removeprefix("ERROR IllegalArgumentException: ")
            assert error == CONSTRUCTION_TEXTS.get(text)
        return snapshot
    for texts in (expected["validate"], expected["results"]):
        assert errors == [text and text["message"] for text in texts]
    records = []
    for acl, error in zip(acls, errors, strict=True):
        if error is None and not contains(snapshot.types[acl.resource_type], acl):
            records.append(acl)
            snapshot = apply_changes(snapshot, [AclAdded(acl_id(next_id), acl)])
            next_id += 1
    assert [acl_id(record["data"]["idOrdinal"]) for record in expected["records"]] == [
        acl_id(n) for n in range(next_id - len(records), next_id)
    ]
    assert [record["data"]["resourceName"] for record in expected["records"]] == [
        acl.resource_name for acl in records
    ]
    return snapshot


def check_deletion(step: Case, expected: Case, snapshot: AclSnapshot) -> AclSnapshot:
    """Delete as AclControlManager does: each filter sees the state before the request."""
    removed: set[bytes] = set()
    for row, validated, result in zip(
        step["delete"], expected["validate"], expected["results"], strict=True
    ):
        error = filter_error(filter_of(row))
        assert error == (validated and validated["message"])
        assert error == (result["error"] and result["error"]["message"])
        found = {} if error else dict(chain.from_iterable(scan_acls(snapshot, filter_of(row))))
        assert set(found.values()) == {acl_of(binding) for binding in result["deleted"]}
        removed |= set(found)
    assert sorted(removed) == [acl_id(number) for number in expected["removedIdOrdinals"]]
    return apply_changes(snapshot, map(AclRemoved, removed))


def test_every_creation_and_deletion_equals_kafkas() -> None:
    """Texts, records and the remaining ACLs, step by step."""
    for case in control_cases():
        snapshot, created = EMPTY_SNAPSHOT, 0
        for step, expected in zip(case["steps"], case["expect"]["steps"], strict=True):
            if "create" in step:
                snapshot = check_creation(step, expected, snapshot, created + 1)
                created += len(expected.get("records", ()))
            else:
                snapshot = check_deletion(step, expected, snapshot)
        assert len(snapshot.acls) == case["expect"]["aclCount"], case["id"]
