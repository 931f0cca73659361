"""The JSON of an explanation."""

import json

from hypothesis import given

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.protocol.decisions.explanations import encode_explanation
from tests.acl.explanation.cases import Case, cases
from tests.support.acls import acl, question, snapshot_of

A, T = "User:alice", "orders"


def acl_object(operation: str, topic: str, host: str) -> dict[str, str]:
    """Return the JSON object of an ACL that allows A an operation."""
    return {
        "resource_type": "TOPIC", "resource_name": topic, "pattern_type": "LITERAL",
        "principal": A, "host": host, "operation": operation, "permission_type": "ALLOW",
    }  # fmt: skip


def question_object(topic: str) -> dict[str, str]:
    return {
        "principal": A, "host": "10.0.0.1", "operation": "DESCRIBE",
        "resource_type": "TOPIC", "resource_name": topic,
    }  # fmt: skip


CHANGE = {
    "change": "add",
    "acl": acl_object("DESCRIBE", "Orders", "10.0.0.1"),
    "kafka_acls": "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:alice"
    " --allow-host 10.0.0.1 --operation Describe --topic Orders --resource-pattern-type literal",
}


def test_every_field_of_a_denial() -> None:
    snapshot = snapshot_of(acl(A, topic=T), acl("User:*", topic=T, host="10.0.0.7", deny=True))
    explanation = explain_fully(
        snapshot, AuthorizerSettings(), question(A, "DESCRIBE", topic="Orders")
    )
    assert json.loads(encode_explanation(explanation)) == {
        "decision": False,
        "offset": 0,
        "rule": "DefaultDeny",
        "question": question_object("Orders"),
        "acls": [],
        "acls_left_out": 0,
        "settings": {
            "super_user": False,
            "allow_everyone_if_no_acl_found": False,
            "applies": False,
            "acl_count": 0,
            "patterns": [],
            "text": "allow.everyone.if.no.acl.found is false, and no ACL of any principal matches"
            " topic `Orders`",
        },
        "near_misses": [
            {
                "kind": "resource_name",
                "text": "User:alice is allowed DESCRIBE on topic `orders`, but the question names"
                " `Orders`: the letter case differs.",
                "acl": acl_object("READ", T, "*"),
                "instead": question_object(T),
                "rewritten": None,
            }
        ],
        "unsearched": [],
        "smallest_change": CHANGE,
        "changes": [CHANGE],
        "changes_left_out": 0,
        "no_change": None,
        "effects": [],
        "depends_on_host": False,
        "releases": ["4.3", "4.4"],
    }


@given(cases(unknown_codes=False))
def test_json_says_what_the_explanation_says(case: Case) -> None:
    explanation = case.explain()
    answer = json.loads(encode_explanation(explanation))
    assert answer["decision"] == explanation.decision.allowed
    audited = audit_message(case.question, explanation.decision, "explain")
    assert audited.endswith(f"based on rule {answer['rule']}")
    assert [read(each["acl"]) for each in answer["acls"]] == [each.acl for each in explanation.acls]
    changes = [(each["change"] == "add", read(each["acl"])) for each in answer["changes"]]
    assert changes == [(each.adds, each.acl) for each in explanation.changes.listed]
    assert answer["smallest_change"] == (answer["changes"][0] if len(changes) == 1 else None)
    assert (answer["no_change"] is None) == bool(changes)
    assert answer["settings"]["applies"] == (
        str(explanation.decision.rule) == "DefaultAllow"
        or (explanation.default.applies and not explanation.is_super_user)
    )


def read(acl: dict[str, str]) -> Acl:
    """Return the ACL of a JSON object."""
    return Acl(
        ResourceType[acl["resource_type"]], acl["resource_name"],
        PatternType[acl["pattern_type"]], acl["principal"], acl["host"],
        Operation[acl["operation"]], PermissionType[acl["permission_type"]],
    )  # fmt: skip
