import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.gitops import read, write
from authorizerd.management.formats.model import AclTextError, Loss
from authorizerd.management.formats.parsing import parse_yaml
from tests.management.formats.faults import check_fault
from tests.support.acls import acl

TEXT = """
settings:
  topics: {defaults: {replication: 3}, blacklist: {prefixed: [_confluent]}}
topics:
  orders: {partitions: 6}
services:
  shop:
    type: application
    principal: User:shop
    produces: [orders]
    consumes: [prices]
  audit:
    type: application
    principal: User:audit
    group-id: audit-readers
    consumes: [orders]
users:
  ops:
    principal: User:ops
    roles: [reader, Writer]
  watcher:
    principal: User:watcher
    roles: [operator]
customServiceAcls:
  shop:
    no-deletions: {name: orders, type: TOPIC, pattern: LITERAL, host: 10.0.0.7,
                   principal: User:shop, operation: DELETE, permission: DENY}
customUserAcls:
  ops:
    inherited: {name: kafka., type: TOPIC, pattern: PREFIXED, operation: ALTER}
    other: {name: kafka-cluster, type: CLUSTER, pattern: LITERAL, operation: CREATE,
            principal: Group:ops}
"""
ACLS = (
    acl("User:shop", "WRITE", topic="orders"), acl("User:shop", "READ", topic="prices"),
    acl("User:shop", "READ", group="shop"),
    acl("User:shop", "DELETE", topic="orders", deny=True, host="10.0.0.7"),
    acl("User:audit", "READ", topic="orders"), acl("User:audit", "READ", group="audit-readers"),
    acl("User:ops", "READ", topic="*"), acl("User:ops", "READ", group="*"),
    acl("User:ops", "WRITE", topic="*"),
    acl("User:ops", "ALTER", topic="kafka.", pattern="PREFIXED"),
    acl("Group:ops", "CREATE", cluster=True), acl("User:watcher", "DESCRIBE", cluster=True),
    acl("User:watcher", "DESCRIBE", topic="*"), acl("User:watcher", "DESCRIBE_CONFIGS", topic="*"),
    acl("User:watcher", "READ", group="*"), acl("User:watcher", "DESCRIBE", group="*"),
)  # fmt: skip


def service(**fields: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a state file with one service of the principal User:a, named a."""
    return json.dumps({"services": {"a": {"principal": "User:a", **fields}}})


def test_services_users_and_their_own_acls_are_read() -> None:
    found = read(TEXT)
    assert found.acls == ACLS
    assert found.losses == ()
    assert found.scope is None
    assert read(json.dumps(parse_yaml(TEXT))) == found


def topic(operation: str, name: str, pattern: str = "LITERAL") -> Acl:
    return acl("User:a", operation, topic=name, pattern=pattern)


def test_connect_service_has_its_topics_its_group_and_those_of_its_connectors() -> None:
    connectors = {"sink": {"consumes": ["orders"]}, "source": {"produces": ["prices"]}}
    found = read(service(type="kafka-connect", produces=["dlq"], connectors=connectors))
    assert set(found.acls) == {
        topic("WRITE", "dlq"),
        *(
            topic(operation, f"connect-{kind}-a")
            for kind in ("configs", "offsets", "status")
            for operation in ("READ", "WRITE")
        ),
        acl("User:a", "READ", group="a"),
        topic("READ", "orders"),
        acl("User:a", "READ", group="connect-sink"),
        topic("WRITE", "prices"),
    }
    storage = {"config": "c", "offset": "o", "status": "s"}
    named = read(service(type="kafka-connect", **{"storage-topics": storage, "group-id": "g"}))
    assert set(named.acls) == {
        *(topic(operation, name) for name in "cos" for operation in ("READ", "WRITE")),
        acl("User:a", "READ", group="g"),
    }


@pytest.mark.parametrize(("fields", "prefix"), [({}, "a"), ({"application-id": "app"}, "app")])
def test_streams_service_has_its_topics_and_group(fields: dict[str, str], prefix: str) -> None:
    found = read(service(type="kafka-streams", produces=["out"], consumes=["in"], **fields))
    internal = (
        "READ", "WRITE", "DESCRIBE", "DELETE", "CREATE", "ALTER", "ALTER_CONFIGS",
        "DESCRIBE_CONFIGS",
    )  # fmt: skip
    assert set(found.acls) == {
        topic("WRITE", "out"),
        topic("READ", "in"),
        *(topic(operation, prefix, "PREFIXED") for operation in internal),
        *(acl("User:a", operation, group=prefix) for operation in ("READ", "DESCRIBE", "DELETE")),
        acl("User:a", "DESCRIBE_CONFIGS", cluster=True),
    }


@pytest.mark.parametrize("kind", ["application", "kafka-connect", "kafka-streams"])
def test_setting_adds_describe_to_every_topic(kind: str) -> None:
    document = json.loads(service(type=kind, produces=["orders"]))
    plain = read(json.dumps(document)).acls
    document["settings"] = {"services": {"acls": {"describeTopicEnabled": True}}}
    assert {*read(json.dumps(document)).acls} == {*plain, topic("DESCRIBE", "orders")}


def test_own_acls_of_unlisted_owners_are_losses() -> None:
    details = {"name": "t", "type": "TOPIC", "pattern": "LITERAL", "operation": "READ"}
    text = json.dumps({"customServiceAcls": {"x": {"y": details}}, "customUserAcls": {"z": {}}})
    assert read(text).acls == ()
    assert read(text).losses == (
        Loss(None, "customServiceAcls.x: kafka-gitops ignores these ACLs, because services does "
                   "not list x"),
        Loss(None, "customUserAcls.z: kafka-gitops ignores these ACLs, because users does not "
                   "list z"),
    )  # fmt: skip


def test_confluent_cloud_knows_other_principals() -> None:
    document = json.loads(service(type="application", produces=["t"]))
    document["services"]["b"] = {"type": "application", "produces": ["t"]}
    document["settings"] = {"ccloud": {"enabled": True}}
    found = read(json.dumps(document))
    assert found.acls == (topic("WRITE", "t"),)
    assert found.scope is not None
    assert found.scope.principals == {"User:a"}
    assert [loss.reason.partition(":")[0] for loss in found.losses] == [
        "settings.ccloud",
        "services.b",
    ]
    document["settings"] = {"ccloud": {"enabled": False}}
    with pytest.raises(AclTextError, match="missing key 'principal'"):
        read(json.dumps(document))


def custom(section: str = "customUserAcls", **fields: Any) -> str:  # noqa: ANN401 - any JSON
    details = {"name": "t", "type": "TOPIC", "pattern": "LITERAL", "operation": "READ", **fields}
    details = {key: value for key, value in details.items() if value is not ...}
    owners = "users" if section == "customUserAcls" else "services"
    owner = {"principal": "User:a"} if owners == "users" else {
        "principal": "User:a", "type": "application"
    }  # fmt: skip
    return json.dumps({owners: {"a": owner}, section: {"a": {"x": details}}})


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("", "document", "expected a mapping, found nothing"),
    ("users: [\n", "line 2", ""),
    ("1: 2\n", "document: a key", "expected text in quotes, found int '1'"),
    ("roles: {}\n", "document", "unknown key 'roles': expected one of settings, services"),
    ("services:\nusers: [a]\n", "users", "expected a mapping, found list"),
    ("users: []\n", "users", "expected a mapping, found list"),
    ("customUserAcls: false\n", "customUserAcls", "expected a mapping, found bool"),
    ("settings: {acls: {}}\n", "settings", "unknown key 'acls'"),
    ("settings: {ccloud: {}}\n", "settings.ccloud", "missing key 'enabled'"),
    ("settings: {ccloud: {enabled: 1}}\n", "settings.ccloud.enabled", "expected true or false"),
    ("settings: {files: {services: s.yaml}}\n", "settings.files.services", "copy those of s.yaml"),
    ("settings: {files: {users: u.yaml}}\n", "settings.files.users", "all users in one file"),
    (service(), "services.a.type", "found nothing"),
    (service(type="other"), "services.a.type", "expected one of application, kafka-connect"),
    (service(type="application", connectors={}), "services.a", "unknown key 'connectors'"),
    (service(type="application", consumes="t"), "services.a.consumes", "a list of topics"),
    (service(type="application", produces=[1]), "services.a.produces[0]", "found int '1'"),
    (service(type="application", principal="a", produces=["t"]), "services.a", "no colon"),
    (service(type="kafka-connect", connectors={"c": {"x": 1}}), "services.a.connectors.c", "'x'"),
    ("users: {a: {principal: User:a, roles: [admin]}}\n", "users.a.roles[0]", "found 'admin'"),
    ("users: {a: {roles: [reader]}}\n", "users.a", "missing key 'principal'"),
    ("users: {a: {principal: User:a, quotas: {}}}\n", "users.a", "unknown key 'quotas'"),
    ("users: {a: {principal: U:a}}\nservices: {a: {}}\n", "users.a", "expected another name"),
    (custom(type="topic"), "customUserAcls.a.x.type", "expected one of TOPIC, GROUP"),
    (custom(type="USER"), "customUserAcls.a.x.type", "found 'USER'"),
    (custom(pattern="MATCH"), "customUserAcls.a.x.pattern", "expected one of LITERAL, PREFIXED"),
    (custom(operation="Read"), "customUserAcls.a.x.operation", "found 'Read'"),
    (custom(permission="ANY"), "customUserAcls.a.x.permission", "found 'ANY'"),
    (custom(name=...), "customUserAcls.a.x", "missing key 'name'"),
    (custom(resource="t"), "customUserAcls.a.x", "unknown key 'resource'"),
    (custom(host=None), "customUserAcls.a.x.host", "found nothing"),
    (custom(name=""), "customUserAcls.a.x", "Invalid empty resource name"),
    (custom("customServiceAcls"), "customServiceAcls.a.x", "missing key 'principal'"),
])  # fmt: skip
def test_fault_is_named_with_its_place(text: str, place: str, reason: str) -> None:
    check_fault(read, text, place, reason)


def test_written_users_have_their_own_acls() -> None:
    some = [
        acl("User:b", "WRITE", deny=True, host="10.0.0.1"),
        acl("Group:a", "READ", pattern="PREFIXED"),
    ]
    expected = """
users:
  Group:a:
    principal: Group:a
  User:b:
    principal: User:b
customUserAcls:
  Group:a:
    "ALLOW READ TOPIC t (PREFIXED)":
      name: t
      type: TOPIC
      pattern: PREFIXED
      host: "*"
      operation: READ
      permission: ALLOW
  User:b:
    "DENY WRITE TOPIC t (LITERAL) from 10.0.0.1":
      name: t
      type: TOPIC
      pattern: LITERAL
      host: 10.0.0.1
      operation: WRITE
      permission: DENY
"""
    assert write(some).text == expected.removeprefix("\n")


def test_long_names_stay_apart() -> None:
    names = ["x" * 2000 + end for end in "ab"]
    some = [acl(f"User:{name}", topic=name) for name in names]
    written = write(some)
    assert set(read(written.text).acls) == set(some)
    assert max(map(len, written.text.splitlines())) < 2100


@given(st.integers(0, len(TEXT)))
def test_unfinished_file_gives_no_other_acls(end: int) -> None:
    with contextlib.suppress(AclTextError):
        assert {each.principal for each in read(TEXT[:end]).acls} <= {
            each.principal for each in ACLS
        } | {"User:s", "User:sh", "User:sho"}


@pytest.mark.parametrize("principal", ["", "      principal:\n", "      principal: null\n"])
def test_own_acl_without_a_principal_is_for_its_user(principal: str) -> None:
    text = (
        "users:\n  a:\n    principal: User:a\ncustomUserAcls:\n  a:\n    b:\n      name: t\n"
        f"      type: TOPIC\n      pattern: LITERAL\n      operation: READ\n{principal}"
    )
    assert read(text).acls == (acl("User:a", "READ"),)


def test_file_with_topics_only_manages_nothing() -> None:
    assert read("topics:\n  a:\n    partitions: 1\n").is_empty
    assert read("topics: {}\nusers: {}\n").scope is None
