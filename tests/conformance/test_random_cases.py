"""Kafka's own classes and ours decide random cases."""

from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from authorizerd.acl.audit.line import audit_level, audit_message
from authorizerd.acl.by_resource_type import authorize_by_resource_type
from authorizerd.acl.decision import AuthorizerSettings, Decision, authorize, explain
from authorizerd.acl.errors import AclError, InvalidAclError, InvalidQuestionError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl, Question
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, with_rules
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import AclTail, plan_creations, plan_deletions
from tests.conformance.random_cases import (
    ODD_RANGES,
    Case,
    ends_early,
    leads_astray,
    random_cases,
)
from tests.kafka_rig.oracle import kafka_answers
from tests.kafka_rig.rig import Rig
from tests.oracles import scan
from tests.oracles.standard_authorizer import (
    acl_id,
    acl_of,
    filter_of,
    load_acls,
    number_acls,
    question_of,
)

COUNT = 2000
REQUEST = "Metadata"
INVALID_REQUEST = 42
# The error of Kafka's set of principals for a duplicate.
EVERYONE_REFUSED = "!IllegalArgumentException: duplicate element: User:*"


@dataclass(frozen=True)
class Kafka:
    """A release of Kafka, and the rules by which ours answers as it does."""

    rig: Rig
    rules: ReleaseRules


@dataclass(frozen=True)
class World:
    """A loaded case of decisions; ``numbers`` has the id of each ACL: its row number, from 1."""

    place: str
    case: Case
    kafka: Any
    settings: AuthorizerSettings
    numbers: dict[Acl, int]
    snapshot: AclSnapshot


def world_of(release: Kafka, place: str, case: Case, kafka: object) -> World:
    named = (name.strip() for name in case.get("superUsers", "").split(";"))
    settings = AuthorizerSettings(frozenset(filter(None, named)), case["allowEveryone"])
    numbers = number_acls(case)
    snapshot = load_acls(case, numbers, release.rules)
    return World(place, case, kafka, settings, numbers, snapshot)


@pytest.fixture(scope="session", params=["rig", "newest_rig"])
def release(request: pytest.FixtureRequest) -> Kafka:
    rules = {"rig": RULES_4_3, "newest_rig": RULES_4_4}
    return Kafka(request.getfixturevalue(request.param), rules[request.param])


@pytest.fixture(scope="session")
def answered(release: Kafka, seed: int) -> list[tuple[str, Case, Any]]:
    """Return cases with Kafka's answers, each under a name from which it can be repeated."""
    cases = list(random_cases(seed, COUNT))
    answers = enumerate(zip(cases, kafka_answers(release.rig, cases), strict=True))
    return [(f"seed {seed}, case {number}", case, kafka) for number, (case, kafka) in answers]


@pytest.fixture(scope="session")
def worlds(release: Kafka, answered: list[tuple[str, Case, Any]]) -> list[World]:
    return [world_of(release, *each) for each in answered if "steps" not in each[1]]


def decide(world: World, question: Question) -> Decision | None:
    """Return the decision, or None if the question is invalid, as for ``User:*``."""
    try:
        return explain(world.snapshot, world.settings, question)
    except InvalidQuestionError:
        return None


def letter(decision: Decision | None) -> str:
    return EVERYONE_REFUSED if decision is None else "AD"[not decision.allowed]


def audited(question: Question, decision: Decision | None) -> list[str] | None:
    if decision is None:
        return None
    return [audit_level(decision.allowed).name, audit_message(question, decision, REQUEST)]


def without_rule(line: list[str] | None) -> list[str] | None:
    return line and [line[0], line[1].partition(" based on rule ")[0]]


def test_every_decision_and_audit_line_equals_kafkas(worlds: list[World]) -> None:
    """Rules are not compared where Kafka's scan ends early."""
    met: Counter[str] = Counter()
    for world in worlds:
        for row, expected, text in zip(
            world.case["requests"], world.kafka["decisions"], world.kafka["audit"], strict=True
        ):
            question = question_of(row)
            decision = decide(world, question)
            assert letter(decision) == expected, f"{world.place}: {row}"
            ours = audited(question, decision)
            if not ends_early(world.case["acls"], row):
                assert ours == text, f"{world.place}: {row}"
                met["rule"] += 1
            assert without_rule(ours) == without_rule(text), f"{world.place}: {row}"
            met[expected[0]] += 1
            met["begins with *"] += question.resource_name[:1] == "*" != question.resource_name
            met["sorts below *"] += "" < question.resource_name < "*"
    assert min(met["A"], met["D"]) > 3000, met
    assert met["rule"] > 15000, met
    assert min(met["!"], met["begins with *"], met["sorts below *"]) > 100, met


def test_authorize_decides_as_kafka(worlds: list[World]) -> None:
    """The test above uses ``explain``."""
    for world in worlds:
        for row, expected in zip(world.case["requests"], world.kafka["decisions"], strict=True):
            if expected == EVERYONE_REFUSED:
                continue
            asked = question_of(row)
            fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
            allowed = authorize(world.snapshot, world.settings, *fields, asked.resource_name)
            assert "AD"[not allowed] == expected, f"{world.place}: {row}"


def test_questions_on_which_kafkas_scan_fails_follow_the_rules(worlds: list[World]) -> None:
    """The oracle is a plain scan, which treats names below ``*`` as any others."""
    met = 0
    for world in worlds:
        for row in world.case["astray"]:
            question = question_of(row)
            decision = decide(world, question)
            if decision is None or question.principal in world.settings.super_users:
                continue
            acls = list(world.snapshot.acls.values())
            # The oracle cannot read odd forms of ranges.
            if any(acl.host in ODD_RANGES and scan.meets(acl, question) for acl in acls):
                continue
            everyone = world.settings.allow_everyone_if_no_acl_found
            allowed, _ = scan.decide(acls, everyone, question, world.snapshot.rules)
            assert decision.allowed == allowed, f"{world.place}: {row}"
            met += 1
    assert met > 10


def test_kafkas_scan_still_fails(release: Kafka) -> None:
    """If this fails, Kafka has fixed its scan, and ``leads_astray`` can go."""
    acl = ["GROUP", "!!a", "LITERAL", "User:alice", "*", "READ", "ALLOW"]
    question = ["User:alice", "127.0.0.1", "READ", "GROUP", "!!x"]
    case = {"acls": [acl], "requests": [question], "filters": [], "byResourceType": []}
    assert leads_astray([acl], question)
    (kafka,) = kafka_answers(release.rig, [case])
    assert kafka["decisions"][0].startswith("!StringIndexOutOfBoundsException")


def test_every_filter_matches_the_same_acls_as_in_kafka(worlds: list[World]) -> None:
    met = 0
    for world in worlds:
        for row, expected in zip(world.case["filters"], world.kafka["filters"], strict=True):
            found = [
                world.numbers[acl] - 1
                for some in scan_acls(world.snapshot, filter_of(row))
                for _, acl in some
            ]
            assert sorted(found) == expected, f"{world.place}: {row}"
            met += bool(found)
        assert len(world.snapshot.acls) == world.kafka["aclCount"], world.place
    assert met > 500


def by_resource_type(world: World, question: Question) -> str:
    fields = (question.principal, question.host, question.operation, question.resource_type)
    try:
        allowed = finish(authorize_by_resource_type(world.snapshot, world.settings, *fields))
    except InvalidQuestionError as error:
        is_everyone = str(error).startswith(f"principal {WILDCARD_PRINCIPAL}")
        return EVERYONE_REFUSED if is_everyone else f"!IllegalArgumentException: {error}"
    return "AD"[not allowed]


def test_every_answer_by_resource_type_equals_kafkas(worlds: list[World]) -> None:
    """Errors have Kafka's texts, except the one for ``User:*``."""
    met: Counter[str] = Counter()
    for world in worlds:
        for row, expected in zip(
            world.case["byResourceType"], world.kafka["byResourceType"], strict=True
        ):
            found = by_resource_type(world, question_of([*row, ""]))
            assert found == expected, f"{world.place}: {row}"
            met[expected[0]] += 1
    assert min(met["A"], met["D"]) > 500, met


def as_kafkas(error: AclError | None) -> object:
    """Return an error in the form of Kafka's answers."""
    if error is None:
        return None
    assert isinstance(error, InvalidAclError)
    return {"code": INVALID_REQUEST, "message": str(error)}


def test_every_creation_and_deletion_equals_kafkas(
    release: Kafka, answered: list[tuple[str, Case, Any]]
) -> None:
    """Errors, written records and removals are equal after each step."""
    met: Counter[str] = Counter()
    for place, case, kafka in answered:
        if "steps" not in case:
            continue
        snapshot, created = with_rules(EMPTY_SNAPSHOT, release.rules), 0
        for step, expected in zip(case["steps"], kafka["steps"], strict=True):
            if "create" in step:
                snapshot = check_creations(place, step, expected, snapshot, created)
                created += len(expected["written"])
            else:
                snapshot = check_deletions(place, step, expected, snapshot)
                met["removed"] += len(expected["removed"])
        assert len(snapshot.acls) == kafka["aclCount"], place
        met["created"] += created
    assert min(met["created"], met["removed"]) > 50, met


def check_creations(
    place: str, step: Case, expected: Case, snapshot: AclSnapshot, created: int
) -> AclSnapshot:
    """Compare one request after ``created`` ACLs; return the next state."""
    numbers = count(created + 1)
    acls = [acl_of(row) for row in step["create"]]
    plan = finish(plan_creations(AclTail(snapshot), acls, lambda: acl_id(next(numbers))))
    assert [as_kafkas(error) for error in plan.result] == expected["errors"], place
    written = [change.acl for change in plan.changes]
    assert written == [acl_of(row) for row in expected["written"]], place
    return apply_changes(snapshot, plan.changes)


def check_deletions(place: str, step: Case, expected: Case, snapshot: AclSnapshot) -> AclSnapshot:
    """Compare one request; return the next state."""
    plan = finish(plan_deletions(AclTail(snapshot), [filter_of(row) for row in step["delete"]]))
    for ours, theirs in zip(plan.result, expected["results"], strict=True):
        assert as_kafkas(ours.error) == theirs["error"], place
        assert set(ours.acls) == {acl_of(row) for row in theirs["acls"]}, place
    removed = sorted(change.id for change in plan.changes)
    assert removed == [acl_id(number) for number in expected["removed"]], place
    return apply_changes(snapshot, plan.changes)
