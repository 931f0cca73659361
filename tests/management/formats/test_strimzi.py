import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.management.formats.model import AclTextError, Loss
from authorizerd.management.formats.parsing import parse_documents
from authorizerd.management.formats.strimzi import read, write
from tests.management.formats.faults import check_fault
from tests.support.acls import acl

TEXT = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata:
  name: invoicing
  namespace: kafka
  labels: {strimzi.io/cluster: production}
spec:
  authentication: {type: tls}
  authorization:
    type: simple
    acls:
      - resource: {type: topic, name: invoices, patternType: literal}
        operations: [Read, DescribeConfigs]
        host: "*"
      - resource: {type: group, name: invoicing-, patternType: prefix}
        operation: Read
      - type: deny
        resource: {type: transactionalId, name: payments}
        host: "0:0:0:0:0:0:0:1"
        operations: [All]
  quotas: {producerByteRate: 1048576}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: bridge.eu-1
  labels: {strimzi.io/cluster: production}
spec:
  authentication:
    type: scram-sha-512
    password: {valueFrom: {secretKeyRef: {name: bridge, key: password}}}
  authorization:
    type: simple
    acls:
      - resource: {type: cluster}
        operations: [IdempotentWrite]
---
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: no-rules}
spec: {}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: invoices}
spec: {partitions: 3}
"""
INVOICING = "User:CN=invoicing"
ACLS = (
    acl(INVOICING, "READ", topic="invoices"),
    acl(INVOICING, "DESCRIBE_CONFIGS", topic="invoices"),
    acl(INVOICING, "READ", group="invoicing-", pattern="PREFIXED"),
    acl(INVOICING, "ALL", transactional_id="payments", deny=True, host="0:0:0:0:0:0:0:1"),
    acl("User:bridge.eu-1", "IDEMPOTENT_WRITE", cluster=True),
)


def user(place: str = "", value: object = ..., **metadata: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a KafkaUser with one rule, whose field at ``place`` has another value, or none."""
    rule: dict[str, Any] = {"resource": {"type": "topic", "name": "t"}, "operations": ["Read"]}
    resource: dict[str, Any] = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": "a", **metadata},
        "spec": {"authorization": {"type": "simple", "acls": [rule]}},
    }
    *folders, last = place.split(".")
    target: Any = resource
    for folder in folders:
        target = target[int(folder) if folder.isdigit() else folder]
    if value is not ...:
        target[last] = value
    elif place:
        del target[last]
    return json.dumps(resource)


def test_users_of_all_documents_are_read() -> None:
    found = read(TEXT)
    assert found.acls == ACLS
    assert found.losses == ()


def test_lists_of_kubernetes_and_json_are_read() -> None:
    items = [value for _, value in parse_documents(TEXT)]
    for kind in ("List", "KafkaUserList"):
        assert read(json.dumps({"apiVersion": "v1", "kind": kind, "items": items})) == read(TEXT)


def test_scope_has_both_principals_of_each_user() -> None:
    scope = read(TEXT).scope
    assert scope is not None
    assert scope.principals == {
        "User:invoicing", "User:CN=invoicing", "User:bridge.eu-1", "User:CN=bridge.eu-1",
        "User:no-rules", "User:CN=no-rules",
    }  # fmt: skip


@pytest.mark.parametrize(("authentication", "principal"), [
    ({"type": "tls"}, "User:CN=a"),
    ({"type": "tls-external"}, "User:CN=a"),
    ({"type": "scram-sha-512"}, "User:a"),
    (None, "User:a"),
])  # fmt: skip
def test_authentication_decides_the_principal(
    authentication: dict[str, str] | None, principal: str
) -> None:
    assert read(user("spec.authentication", authentication)).acls == (acl(principal),)


@pytest.mark.parametrize(("version", "kind", "is_lost"), [
    ("kafka.strimzi.io/v1", "Kafka", False),
    ("kafka.strimzi.io/v1beta2", "KafkaTopic", False),
    ("core.strimzi.io/v1beta2", "StrimziPodSet", False),
    ("v1", "Secret", False),
    ("apps/v1", "Deployment", False),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", False),
    ("monitoring.coreos.com/v1", "PodMonitor", True),
    ("strimzi.io.example.com/v1", "Widget", True),
])  # fmt: skip
def test_resources_that_are_not_read_are_losses_unless_they_hold_no_acls(
    version: str, kind: str, is_lost: bool
) -> None:
    other = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})
    loss = Loss(None, f"document[0]: a resource of kind {kind} is not read", is_document=True)
    found = read(f"---\n{other}\n---\n{user()}\n")
    assert found.losses == (loss,) * is_lost
    assert found.acls == read(user()).acls
    assert read(other).is_empty


@pytest.mark.parametrize(("other", "reason"), [
    ({"kind": "KafkaPrincipalAuthorization"}, "KafkaPrincipalAuthorization and apiVersion x.y/v1"),
    ({"kind": "KafkaAcl"}, "may have ACLs"),
    ({"kind": "RoleBinding"}, "may have ACLs"),
    ({"kind": "Access", "apiVersion": "notk8s.io/v1"}, "may have ACLs"),
    ({"kind": "Thing", "spec": {"authorization": {"ACLs": []}}}, "may have ACLs"),
    ({"kind": "Thing", "spec": [{"topicGrants": 1}]}, "may have ACLs"),
    ({"kind": "Thing", "spec": {"principal": "a"}}, "may have ACLs"),
    ({"kind": "Kustomization", "apiVersion": "kustomize.config.k8s.io/v1"}, "kubectl kustomize"),
])  # fmt: skip
def test_resource_that_may_hold_acls_is_rejected(other: dict[str, Any], reason: str) -> None:
    text = f"---\n{user()}\n---\n{json.dumps({'apiVersion': 'x.y/v1', **other})}\n"
    check_fault(read, text, "document[1]", reason)


@pytest.mark.parametrize("others", [{}, {"name": "*"}, {"name": "mine", "patternType": "prefix"}])
def test_rule_for_the_cluster_ignores_its_name(others: dict[str, str]) -> None:
    text = user(f"{RULE}.resource", {"type": "cluster", **others})
    assert read(text).acls == (acl("User:a", "READ", cluster=True),)


def test_merge_key_stands_for_the_keys_of_a_rule() -> None:
    text = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: a}
spec:
  authorization:
    type: simple
    acls:
      - &first {resource: {type: topic, name: t}, operations: [Read]}
      - <<: *first
        operations: [Write]
"""
    assert read(text).acls == (acl("User:a", "READ"), acl("User:a", "WRITE"))


RULE = "spec.authorization.acls.0"
RULE_PLACE = "document.spec.authorization.acls[0]"


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("- a\n", "document", "expected a mapping, found list"),
    ("a: [\n", "line 2", ""),
    ('{"kind": 1}', "document.kind", "expected text in quotes, found int '1'"),
    (user("apiVersion", "kafka.strimzi.io/v2"), "document.apiVersion", "not a KafkaUser of Str"),
    (user("apiVersion", "v1"), "document.apiVersion", "found 'v1'"),
    (user("spec"), "document", "missing key 'spec'"),
    (user("rules", []), "document", "unknown key 'rules'"),
    (user("metadata.name"), "document.metadata.name", "found nothing"),
    (user("metadata.name", "*"), "document.metadata.name", "expected a name of Kubernetes"),
    (user("metadata.name", "A"), "document.metadata.name", "expected a name of Kubernetes"),
    (user("metadata.name", "a" * 254), "document.metadata.name", "expected a name of Kubernetes"),
    (user("spec.acls", []), "document.spec", "unknown key 'acls'"),
    (user("spec.authentication", {"type": "oauth"}), "document.spec.authentication.type",
     "expected one of tls, tls-external, scram-sha-512, found 'oauth'"),
    (user("spec.authentication", {"type": "tls"}, name="a" * 65), "document.spec.authentication",
     "at most 64 characters"),
    (user("spec.authorization.type", "opa"), "document.spec.authorization.type", "found 'opa'"),
    (user("spec.authorization.acls"), "document.spec.authorization", "missing key 'acls'"),
    (user("spec.authorization.acls", {}), "document.spec.authorization.acls", "a list of rules"),
    (user(f"{RULE}.operations"), RULE_PLACE, "expected either operations or operation"),
    (user(f"{RULE}.operation", "Read"), RULE_PLACE, "unknown key 'operation'"),
    (user(f"{RULE}.operations", ["READ"]), f"{RULE_PLACE}.operations[0]", "found 'READ'"),
    (user(f"{RULE}.operations", ["TwoPhaseCommit"]), f"{RULE_PLACE}.operations[0]", "expected"),
    (user(f"{RULE}.type", "permit"), f"{RULE_PLACE}.type", "expected one of allow, deny"),
    (user(f"{RULE}.host", None), f"{RULE_PLACE}.host", "found nothing"),
    (user(f"{RULE}.resource.type", "user"), f"{RULE_PLACE}.resource.type", "found 'user'"),
    (user(f"{RULE}.resource.name"), f"{RULE_PLACE}.resource.name", "found nothing"),
    (user(f"{RULE}.resource.name", ""), RULE_PLACE, "Invalid empty resource name"),
    (user(f"{RULE}.resource.patternType", "prefixed"), f"{RULE_PLACE}.resource.patternType",
     "expected one of literal, prefix, found 'prefixed'"),
    (user(f"{RULE}.principal", "User:b"), RULE_PLACE, "unknown key 'principal'"),
])  # fmt: skip
def test_fault_is_named_with_its_place(text: str, place: str, reason: str) -> None:
    check_fault(read, text, place, reason)


@pytest.mark.parametrize(("first", "second", "reason"), [
    ({}, {}, "repeats the KafkaUser a of document[0]"),
    ({"namespace": "x"}, {"name": "b", "namespace": "y"}, "namespace 'x', as before, found 'y'"),
    ({"labels": {"strimzi.io/cluster": "x"}}, {"name": "b", "labels": {"strimzi.io/cluster": "y"}},
     "use one file for each Kafka cluster"),
])  # fmt: skip
def test_users_of_two_clusters_are_rejected(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AclTextError) as refused:
        read(f"---\n{user(**first)}\n---\n{user(**second)}\n")
    assert refused.value.place.startswith("document[1]")
    assert reason in refused.value.reason


def test_old_versions_have_one_operation() -> None:
    text = user(f"{RULE}.operation", "Read").replace("io/v1", "io/v1beta2")
    with pytest.raises(AclTextError, match="either operations or operation"):
        read(text)
    assert read(text.replace('"operations": ["Read"], ', "")).acls == (acl("User:a"),)


def test_written_users_have_no_credentials() -> None:
    some = [
        acl("User:b", "WRITE"),
        acl("User:CN=a", "ALTER_CONFIGS", deny=True, host="10.0.0.1"),
        acl("User:b", "READ"),
    ]
    expected = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: a
spec:
  authentication:
    type: tls-external
  authorization:
    type: simple
    acls:
      - type: deny
        resource:
          type: topic
          name: t
          patternType: literal
        host: 10.0.0.1
        operations: [AlterConfigs]
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: b
spec:
  authorization:
    type: simple
    acls:
      - resource:
          type: topic
          name: t
          patternType: literal
        operations: [Read, Write]
"""
    assert write(some).text == expected.removeprefix("\n")
    assert read(write([]).text).acls == ()


@given(st.text(max_size=60) | st.sampled_from((TEXT, user())).flatmap(
    lambda text: st.integers(0, len(text)).map(lambda end: text[:end])
))  # fmt: skip
def test_any_text_gives_acls_or_an_error(text: str) -> None:
    with contextlib.suppress(AclTextError):
        assert {each.principal for each in read(text).acls} <= {
            "User:a",
            "User:CN=invoicing",
            "User:bridge.eu-1",
        }
