"""The audit line. (test_standard_authorizer_answers compares it with Kafka's recorded lines.)"""

import pytest

from authorizerd.acl.audit.line import AuditLevel, audit_level, audit_message
from authorizerd.acl.decision import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Decision, MatchingAcl
from authorizerd.acl.model import Operation, PatternType, Question, ResourceType
from tests.support.acls import acl, question


@pytest.mark.parametrize(
    ("allowed", "log_if_allowed", "log_if_denied", "level"),
    [
        (True, True, True, AuditLevel.DEBUG),
        (True, False, True, AuditLevel.TRACE),
        (False, True, True, AuditLevel.INFO),
        (False, True, False, AuditLevel.TRACE),
    ],
)
def test_denials_are_logged_at_a_higher_level(
    allowed: bool, log_if_allowed: bool, log_if_denied: bool, level: AuditLevel
) -> None:
    """KIP-504: an action that only filters results is logged at TRACE."""
    assert audit_level(allowed, log_if_allowed, log_if_denied) is level


def test_the_line_equals_that_of_a_real_broker() -> None:
    everyone = acl("User:*", "ALL", topic="*", deny=True)
    asked = question("User:alice", "DESCRIBE", host="127.0.0.1", topic="demo")
    assert audit_message(asked, Decision(False, MatchingAcl(everyone)), "Metadata") == (
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
def test_resource_types_and_defaults_have_kafkas_names(
    resource_type: ResourceType, name: str, decision: Decision
) -> None:
    """The line has the count and the pattern type that the caller passes."""
    asked = Question("User:a", None, Operation.READ, resource_type, "x")
    line = audit_message(asked, decision, "Fetch", 7, PatternType.PREFIXED)
    assert f"from host = unknown on resource = {name}:PREFIXED:x for request = Fetch" in line
    assert line.endswith(f"with resourceRefCount = 7 based on rule {decision.rule}")
