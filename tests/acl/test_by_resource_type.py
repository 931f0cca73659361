"""By resource type: the index beside Kafka's own scan, restated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from authorizerd.acl import by_resource_type, patterns
from authorizerd.acl.builder import build
from authorizerd.acl.by_resource_type import (
    PROBE_NAME,
    authorize_by_resource_type,
    scan_by_resource_type,
)
from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.steps import finish
from tests.oracles import scan
from tests.support.strategies import acls

OPERATIONS = [Operation.READ, Operation.DESCRIBE, Operation.ALL]
TOPIC = ResourceType.TOPIC


def by_scan(held: set[Acl], allow_everyone: bool, asked: Question) -> bool:
    """Kafka's Authorizer.authorizeByResourceType, read from its text."""
    if scan.decide(held, allow_everyone, asked)[0]:
        return True
    mine = [
        acl
        for acl in held
        if acl.resource_type == asked.resource_type
        and acl.host in ("*", asked.host)
        and acl.principal in ("User:*", asked.principal)
        and acl.operation in (Operation.ALL, asked.operation)
    ]
    denies = {
        (acl.pattern_type, acl.resource_name)
        for acl in mine
        if acl.permission_type == PermissionType.DENY
    }
    allows = {
        (acl.pattern_type, acl.resource_name)
        for acl in mine
        if acl.permission_type == PermissionType.ALLOW
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
def test_the_index_agrees_with_kafkas_scan(
    held: set[Acl], principal: str, host: str, operation: Operation, allow_everyone: bool
) -> None:
    """Dominated denies count, implications do not."""
    held = {acl for acl in held if acl.resource_name}  # Kafka refuses to create an empty name
    snapshot = build(AclAdded(n.to_bytes(16, "big"), acl) for n, acl in enumerate(held))
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
    """Where the probe is denied; hosts may be unknown, and codes from the future."""
    held = {acl for acl in held if acl.resource_name}
    snapshot = build(AclAdded(n.to_bytes(16, "big"), acl) for n, acl in enumerate(held))
    nobody = AuthorizerSettings()
    assume(not authorize(snapshot, nobody, principal, host, operation, TOPIC, PROBE_NAME))
    stored = list(held)
    slices = [stored[:3], (), stored[3:]]
    assert finish(scan_by_resource_type(slices, principal, host, operation, TOPIC)) == finish(
        authorize_by_resource_type(snapshot, nobody, principal, host, operation, TOPIC)
    )


def test_the_work_is_done_in_steps_whatever_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 denied literals beside 500 denied hosts: every few lookups others have their turn."""
    monkeypatch.setattr(by_resource_type, "LOOKUPS_PER_STEP", 16)
    monkeypatch.setattr(by_resource_type, "ACLS_PER_STEP", 16)
    allow, deny, literal = PermissionType.ALLOW, PermissionType.DENY, PatternType.LITERAL
    held = [
        *(Acl(TOPIC, f"t{n}", literal, "User:a", "*", Operation.READ, allow) for n in range(100)),
        *(
            Acl(TOPIC, f"t{n % 100}", literal, "User:*", f"h{n}", Operation.READ, deny)
            for n in range(500)
        ),
    ]
    snapshot = build(AclAdded(n.to_bytes(16, "big"), acl) for n, acl in enumerate(held))
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
    assert max(each_step) <= 64
    slices = len(list(scan_by_resource_type([held], "User:a", None, Operation.READ, TOPIC)))
    assert slices > 600 / 16


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
def test_what_stands_for_several_is_refused(operation: int, resource_type: int, text: str) -> None:
    """ANY and codes from the future cannot be asked by type; not even by a super user."""
    settings = AuthorizerSettings(frozenset({"User:a"}))
    with pytest.raises(InvalidQuestionError, match=text):
        finish(
            authorize_by_resource_type(
                build(()), settings, "User:a", None, operation, resource_type
            )
        )


def test_an_unknown_host_is_not_allowed_by_a_rule_for_one_host() -> None:
    """Rules for single hosts may only deny somebody whose host is unknown."""

    def held(host: str, permission: PermissionType, name: str) -> Acl:
        return Acl(TOPIC, name, PatternType.LITERAL, "User:a", host, Operation.READ, permission)

    def ask(*rules: Acl) -> bool:
        snapshot = build(AclAdded(n.to_bytes(16, "big"), acl) for n, acl in enumerate(rules))
        settings = AuthorizerSettings()
        return finish(
            authorize_by_resource_type(snapshot, settings, "User:a", None, Operation.READ, TOPIC)
        )

    assert not ask(held("10.0.0.1", PermissionType.ALLOW, "t"))
    assert ask(held("*", PermissionType.ALLOW, "t"))
    assert not ask(held("*", PermissionType.ALLOW, "t"), held("10.0.0.1", PermissionType.DENY, "t"))
    assert not ask(held("*", PermissionType.ALLOW, "t"), held("10.0.0.1", PermissionType.DENY, "*"))
