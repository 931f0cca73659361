"""The audit line. (The recorded texts of Kafka stand in test_standard_authorizer_answers.)"""

from __future__ import annotations

import pytest

from authorizerd.acl.audit import AuditLevel, audit_level, audit_message
from authorizerd.acl.decision import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Decision, MatchingAcl
from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)


@pytest.mark.parametrize(
    ("allowed", "log_if_allowed", "log_if_denied", "level"),
    [
        (True, True, True, AuditLevel.DEBUG),
        (True, False, True, AuditLevel.TRACE),
        (False, True, True, AuditLevel.INFO),
        (False, True, False, AuditLevel.TRACE),
    ],
)
def test_denials_are_louder_than_allows(
    allowed: bool, log_if_allowed: bool, log_if_denied: bool, level: AuditLevel
) -> None:
    """KIP-504: a question that is only a filter is not worth more than TRACE."""
    assert audit_level(allowed, log_if_allowed, log_if_denied) is level


def test_the_line_of_a_real_broker_is_written_to_the_letter() -> None:
    """The example in a broker's own log."""
    everyone = Acl(
        ResourceType.TOPIC,
        "*",
        PatternType.LITERAL,
        "User:*",
        "*",
        Operation.ALL,
        PermissionType.DENY,
    )
    question = Question("User:alice", "127.0.0.1", Operation.DESCRIBE, ResourceType.TOPIC, "demo")
    assert audit_message(question, Decision(False, MatchingAcl(everyone)), "Metadata") == (
        "Principal = User:alice is Denied operation = DESCRIBE from host = 127.0.0.1 on resource ="
        " Topic:LITERAL:demo for request = Metadata with resourceRefCount = 1 based on rule"
        " MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=*, patternType=LITERAL,"
        " principal=User:*, host=*, operation=ALL, permissionType=DENY])"
    )


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        (ResourceType.TRANSACTIONAL_ID, "TransactionalId"),
        (ResourceType.DELEGATION_TOKEN, "DelegationToken"),
        (ResourceType.CLUSTER, "Cluster"),
        (ResourceType.USER, "User"),
    ],
)
@pytest.mark.parametrize("decision", [SUPER_USER, DEFAULT_ALLOW, DEFAULT_DENY])
def test_every_resource_type_and_default_has_its_name(
    resource_type: ResourceType, name: str, decision: Decision
) -> None:
    """Counts and pattern types are what the caller says."""
    question = Question("User:a", None, Operation.READ, resource_type, "x")
    line = audit_message(question, decision, "Fetch", 7, PatternType.PREFIXED)
    assert f"from host = unknown on resource = {name}:PREFIXED:x for request = Fetch" in line
    assert line.endswith(f"with resourceRefCount = 7 based on rule {decision.rule}")
