"""Questions by resource type, compared with Kafka's own scan, restated."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from authorizerd.acl import by_resource_type, patterns
from authorizerd.acl.by_resource_type import (
    PROBE_NAME,
    authorize_by_resource_type,
    scan_by_resource_type,
)
from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.releases import RULES_4_4
from authorizerd.acl.snapshot import with_rules
from authorizerd.acl.steps import finish
from tests.oracles import scan
from tests.support.acls import acl, snapshot_of
from tests.support.strategies import acls

OPERATIONS = [Operation.READ, Operation.DESCRIBE, Operation.ALL]
TOPIC = ResourceType.TOPIC


def by_scan(held: set[Acl], allow_everyone: bool, asked: Question) -> bool:
    """Restate Kafka's Authorizer.authorizeByResourceType."""
    if scan.decide(held, allow_everyone, asked)[0]:
        return True
    mine = [
        each
        for each in held
        if each.resource_type == asked.resource_type
        and each.host in ("*", asked.host)
        and each.principal in ("User:*", asked.principal)
        and each.operation in (Operation.ALL, asked.operation)
    ]
    denies = {
        (each.pattern_type, each.resource_name)
        for each in mine
        if each.permission_type == PermissionType.DENY
    }
    allows = {
        (each.pattern_type, each.resource_name)
        for each in mine
        if each.permission_type == PermissionType.ALLOW
    }
    if (PatternType.LITERAL, "*") in denies:
        return False
    return (PatternType.LITERAL, "*") in allows or any(
        (pattern, name) not in {d for d in denies if d[0] == PatternType.LITERAL}
        and not any((PatternType.PREFIXED, name[:n]) in denies for n in range(1, len(name) + 1))
        for pattern, name in allows
    )


@given(
    st.sets(acls(), max_size=8),
    st.sampled_from(["User:a", "User:b", "Group:a"]),
    st.sampled_from(["10.0.0.1", "10.9.9.9"]),
    st.sampled_from(OPERATIONS),
    st.booleans(),
)
def test_index_agrees_with_kafkas_scan(
    held: set[Acl], principal: str, host: str, operation: Operation, allow_everyone: bool
) -> None:
    """A DENY that covers an ALLOW's pattern counts. Implications do not."""
    held = {each for each in held if each.resource_name}  # Kafka refuses to create an empty name
    snapshot = snapshot_of(*held)
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=allow_everyone)
    found = finish(
        authorize_by_resource_type(snapshot, settings, principal, host, operation, TOPIC)
    )
    asked = Question(principal, host, operation, TOPIC, PROBE_NAME)
    assert found == by_scan(held, allow_everyone, asked)


@given(
    st.sets(acls(unknown_codes=True), max_size=8),
    st.sampled_from(["User:a", "User:b"]),
    st.sampled_from(["10.0.0.1", "10.9.9.9", None]),
    st.sampled_from(OPERATIONS),
)
def test_index_and_scan_of_slices_agree(
    held: set[Acl], principal: str, host: str | None, operation: Operation
) -> None:
    """This includes denied probes, unknown hosts, and codes of later versions."""
    held = {each for each in held if each.resource_name}
    snapshot = snapshot_of(*held)
    nobody = AuthorizerSettings()
    assume(not authorize(snapshot, nobody, principal, host, operation, TOPIC, PROBE_NAME))
    stored = list(held)
    slices = [stored[:3], (), stored[3:]]
    assert finish(scan_by_resource_type(slices, principal, host, operation, TOPIC)) == finish(
        authorize_by_resource_type(snapshot, nobody, principal, host, operation, TOPIC)
    )


OTHER = acl("User:a", topic="other")


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        ([acl("a", topic="orders"), OTHER], False),
        ([acl("", topic="o", pattern="PREFIXED", deny=True), OTHER], False),
        ([acl("a", "WRITE", topic="orders", host="10.0.0.0/8"), OTHER], False),
        ([acl("a", topic="orders", host="10.9.9.9"), OTHER], True),
        ([acl("a", group="orders"), OTHER], True),
        ([acl("a", topic="orders"), acl("User:a", topic=PROBE_NAME)], True),
    ],
)
def test_acl_that_kafka_cannot_judge_denies_by_its_host(held: list[Acl], allowed: bool) -> None:
    """These are answers of Kafka 4.4.0, which fails instead of denying. Patterns do not count."""
    asked = ("User:a", "10.0.0.1", Operation.READ, TOPIC)
    snapshot = with_rules(snapshot_of(*held), RULES_4_4)
    nobody = AuthorizerSettings()
    assert finish(authorize_by_resource_type(snapshot, nobody, *asked)) == allowed
    if PROBE_NAME not in {each.resource_name for each in held}:
        assert finish(scan_by_resource_type([held], *asked)) == allowed


def test_long_work_is_done_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 100 denied literals and 500 denied hosts, other tasks run every few lookups."""
    held = [
        *(acl(topic=f"t{n}") for n in range(100)),
        *(
            acl("User:*", topic=f"t{n % 100}", host=f"10.0.{n // 256}.{n % 256}", deny=True)
            for n in range(500)
        ),
    ]
    snapshot = snapshot_of(*held)
    lookups = 0

    def get_weight(*args: Any) -> int:  # noqa: ANN401 - the signature of the function it replaces
        nonlocal lookups
        lookups += 1
        return patterns.get_weight(*args)

    monkeypatch.setattr(by_resource_type, "get_weight", get_weight)
    steps = authorize_by_resource_type(
        snapshot, AuthorizerSettings(), "User:a", None, Operation.READ, TOPIC
    )
    each_step = []
    for _ in steps:
        each_step.append(lookups)
        lookups = 0
    assert len(each_step) > 5
    assert max(each_step) <= 16
    chunks = len(list(scan_by_resource_type([held], "User:a", None, Operation.READ, TOPIC)))
    assert chunks > 600 / 16


@pytest.mark.parametrize(
    ("operation", "resource_type", "text"),
    [
        (Operation.READ, 1, "Must specify a non-filter resource type"),
        (Operation.READ, 0, "Unknown resource type"),
        (Operation.READ, 99, "Unknown resource type"),
        (1, TOPIC, "Must specify a non-filter operation type"),
        (0, TOPIC, "Unknown operation type"),
        (99, TOPIC, "Unknown operation type"),
    ],
)
def test_codes_that_are_not_one_operation_or_type_are_rejected(
    operation: int, resource_type: int, text: str
) -> None:
    """ANY and unknown codes are invalid, for super users too."""
    settings = AuthorizerSettings(frozenset({"User:a"}))
    with pytest.raises(InvalidQuestionError, match=text):
        finish(
            authorize_by_resource_type(
                build(()), settings, "User:a", None, operation, resource_type
            )
        )


def test_an_unknown_host_is_not_allowed_by_a_rule_for_one_host() -> None:
    """Rules for single hosts can only deny a caller whose host is unknown."""

    def ask(*rules: Acl) -> bool:
        settings = AuthorizerSettings()
        return finish(
            authorize_by_resource_type(
                snapshot_of(*rules), settings, "User:a", None, Operation.READ, TOPIC
            )
        )

    assert not ask(acl(host="10.0.0.1"))
    assert ask(acl())
    assert not ask(acl(), acl(host="10.0.0.1", deny=True))
    assert not ask(acl(), acl(host="10.0.0.1", deny=True, topic="*"))


def test_denials_of_each_network_are_looked_up_in_a_step_of_their_own() -> None:
    """A host may be in hundreds of networks, each with hundreds of denied prefixes."""
    held = [acl(topic="t")]
    held += [acl(topic="x", host=f"2001:db8::/{length}", deny=True) for length in range(100)]
    snapshot = with_rules(snapshot_of(*held), RULES_4_4)
    asked = ("User:a", "2001:db8:0:0:0:0:0:1", Operation.READ, TOPIC)
    steps = authorize_by_resource_type(snapshot, AuthorizerSettings(), *asked)
    assert sum(1 for _ in steps) >= 100
