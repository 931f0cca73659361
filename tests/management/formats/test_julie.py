import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats import julie, julie_roles
from authorizerd.management.formats.julie import read
from authorizerd.management.formats.julie_writing import write
from authorizerd.management.formats.model import AclTextError, Scope
from authorizerd.management.formats.parsing import parse_yaml
from authorizerd.management.plan.selector import Managed
from tests.management.formats.faults import check_fault
from tests.support.acls import acl

TEXT = """
context: shop
company: acme
env: prod
projects:
  - name: orders
    consumers:
      - principal: User:reports
    producers:
      - principal: User:web
        transactionId: web-*
    topics:
      - name: placed
        dataType: avro
        config: {num.partitions: "3"}
        consumers:
          - {principal: "User:billing", group: billing}
      - name: paid
        producers:
          - {principal: "User:web", idempotence: "false"}
          - principal: User:pos
    schemas:
      - {principal: "User:web", subjects: [placed-value]}
    rbac:
      - ResourceOwner:
          - principal: User:web
  - name: analysis
    streams:
      - principal: User:totals
        applicationId: totals-app
        exactlyOnce: true
        topics: {read: [in], write: [out]}
      - principal: User:plain
        topics: {read: ["*"]}
special_topics:
  - name: legacy
    consumers:
      - {principal: "User:reports", group: old-*}
"""
PLACED, PAID = "shop.acme.prod.orders.placed.avro", "shop.acme.prod.orders.paid"
ANALYSIS = "shop.acme.prod.analysis."
ACLS = {
    *(
        acl("User:reports", operation, topic=topic)
        for topic in (PLACED, PAID, "legacy")
        for operation in ("DESCRIBE", "READ")
    ),
    acl("User:reports", "READ", group="*"),
    acl("User:reports", "READ", group="old-", pattern="PREFIXED"),
    acl("User:billing", "DESCRIBE", topic=PLACED),
    acl("User:billing", "READ", topic=PLACED),
    acl("User:billing", "READ", group="billing"),
    *(
        acl("User:web", operation, topic=topic)
        for topic in (PLACED, PAID)
        for operation in ("DESCRIBE", "WRITE")
    ),
    acl("User:web", "DESCRIBE", transactional_id="web-", pattern="PREFIXED"),
    acl("User:web", "WRITE", transactional_id="web-", pattern="PREFIXED"),
    acl("User:web", "IDEMPOTENT_WRITE", cluster=True),
    acl("User:pos", "DESCRIBE", topic=PAID),
    acl("User:pos", "WRITE", topic=PAID),
    acl("User:totals", "READ", topic="in"),
    acl("User:totals", "WRITE", topic="out"),
    acl("User:totals", "ALL", topic="totals-app", pattern="PREFIXED"),
    acl("User:totals", "READ", group="totals-app", pattern="PREFIXED"),
    acl("User:totals", "WRITE", transactional_id="totals-app", pattern="PREFIXED"),
    acl("User:totals", "DESCRIBE", transactional_id="totals-app", pattern="PREFIXED"),
    acl("User:plain", "READ", topic="*"),
    acl("User:plain", "ALL", topic=ANALYSIS, pattern="PREFIXED"),
    acl("User:plain", "READ", group=ANALYSIS, pattern="PREFIXED"),
}
USERS = frozenset(each.principal for each in ACLS)


def managed(*principals: str) -> Scope:
    """Return the scope of a topology with these principals."""
    return Scope(
        entries=tuple(
            Managed(principal=each, permission_type="ALLOW") for each in sorted(principals)
        )
    )


def project(**fields: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a topology with one project, p of the context c."""
    return json.dumps({"context": "c", "projects": [{"name": "p", **fields}]})


def platform(**systems: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps({"context": "c", "platform": systems})


def test_roles_become_acls() -> None:
    found = read(TEXT)
    assert set(found.acls) == ACLS
    assert len(found.acls) == len(ACLS)
    assert found.scope == managed(*USERS)
    assert read(json.dumps(parse_yaml(TEXT))) == found


def test_what_is_not_an_acl_is_a_loss() -> None:
    assert [str(loss) for loss in read(TEXT).losses] == [
        f"projects[0].producers[0]: Julie takes only the first producer User:web of {PAID}",
        "projects[0].schemas[0]: subjects of schemas have no ACLs in Kafka",
        "projects[0].rbac: RBAC has no ACLs in Kafka",
    ]


def test_connectors_have_their_cluster_and_their_topics() -> None:
    connectors = [
        {"principal": "User:a", "topics": {"read": ["in"], "write": ["out"]}},
        {"principal": "User:b", "group": "g", "status_topic": "s", "offset_topic": "o",
         "configs_topic": "c", "connectors": ["jdbc"]},
    ]  # fmt: skip
    found = read(project(connectors={"access_control": connectors, "artefacts": []}))
    assert set(found.acls) == {
        *(
            acl(principal, operation, topic=topic)
            for principal, topics in (
                ("User:a", ("connect-status", "connect-offsets", "connect-configs")),
                ("User:b", ("s", "o", "c")),
            )
            for topic in topics
            for operation in ("READ", "WRITE")
        ),
        acl("User:a", "CREATE", cluster=True),
        acl("User:b", "CREATE", cluster=True),
        acl("User:a", "READ", group="connect-cluster"),
        acl("User:b", "READ", group="g"),
        acl("User:a", "READ", topic="in"),
        acl("User:a", "WRITE", topic="out"),
    }
    assert [str(loss) for loss in found.losses] == [
        "projects[0].connectors.access_control[1].connectors: RBAC has no ACLs in Kafka"
    ]
    assert set(read(project(connectors=connectors)).acls) == set(found.acls)


def test_ksql_applications_have_their_prefix() -> None:
    ksql = [{"principal": "User:a", "applicationId": "k", "topics": {"write": ["out"]}},
            {"principal": "User:b"}]  # fmt: skip
    assert set(read(project(ksql=ksql)).acls) == {
        acl("User:a", "WRITE", topic="out"),
        acl("User:a", "ALL", topic="k", pattern="PREFIXED"),
        acl("User:a", "ALL", group="k", pattern="PREFIXED"),
        acl("User:b", "ALL", topic="c.p.", pattern="PREFIXED"),
        acl("User:b", "ALL", group="c.p.", pattern="PREFIXED"),
    }


def test_platform_has_schema_registries_and_ksql_servers() -> None:
    registry = {"instances": [{"principal": "User:sr", "topic": "s"}]}
    ksql = {"instances": [{"principal": "User:k", "ksqlDbId": "db_"}]}
    assert set(read(platform(schema_registry=registry, ksql=ksql)).acls) == {
        *(
            acl("User:sr", operation, topic="s")
            for operation in ("CREATE", "DESCRIBE_CONFIGS", "DESCRIBE", "WRITE", "READ")
        ),
        acl("User:sr", "DESCRIBE", topic="__consumer_offsets"),
        acl("User:sr", "READ", group="schema-registry"),
        acl("User:k", "DESCRIBE_CONFIGS", cluster=True),
        acl("User:k", "ALL", topic="_confluent-ksql-db_", pattern="PREFIXED"),
        acl("User:k", "ALL", topic="db_ksql_processing_log"),
        acl("User:k", "ALL", group="_confluent-ksql-db_", pattern="PREFIXED"),
    }


@pytest.mark.parametrize(("text", "reason"), [
    (project(auditors=[{"principal": "User:a", "topic": "t"}], topics=[{"name": "t"}],
             producers=[{"principal": "User:a"}, {"principal": "User:b"}]),
     "projects[0].auditors[0]: Julie's file of custom roles says what it may"),
    (json.dumps({
        "context": "c",
        "platform": {"control_center": {"instances": [{"principal": "User:a", "appId": "x"}]}},
        "special_topics": [{"name": "t", "producers": [
            {"principal": "User:a"}, {"principal": "User:b"},
        ]}],
     }), "platform.control_center.instances[0]: Julie's configuration names the topics"),
])  # fmt: skip
def test_principals_with_unknown_access_are_not_in_the_scope(text: str, reason: str) -> None:
    found = read(text)
    assert {each.principal for each in found.acls} == {"User:a", "User:b"}
    assert found.scope == managed("User:b")
    (loss,) = found.losses
    assert reason in loss.reason


@pytest.mark.parametrize("key", ["kafka", "kafka_connect", "schema_registry"])
def test_roles_of_the_platform_are_losses(key: str) -> None:
    (loss,) = read(platform(**{key: {"rbac": {"SystemAdmin": [{"principal": "User:a"}]}}})).losses
    assert loss.reason == f"platform.{key}.rbac: RBAC has no ACLs in Kafka"


def test_denials_are_not_in_the_scope() -> None:
    scope = read(TEXT).scope
    assert scope is not None
    assert scope.includes(acl("User:web", "ALTER", topic="x"))
    assert not scope.includes(acl("User:web", "ALTER", topic="x", deny=True))
    assert not scope.includes(acl("User:other", "ALTER", topic="x"))


def test_principals_without_topics_are_in_the_scope() -> None:
    found = read(project(consumers=[{"principal": "User:a"}], producers=[{"principal": "User:b"}]))
    assert found.acls == ()
    assert found.scope == managed("User:a", "User:b")


ROLES = """
roles:
  - name: auditors
    acls:
      - {resourceType: Topic, resourceName: "{{topic}}-{{ subject }}x", patternType: PREFIXED,
         host: 10.0.0.7, operation: describe_configs, permissionType: Allow}
      - {resourceType: Group, resourceName: "{{group}}", patternType: LITERAL, host: "*",
         role: Read}
  - name: others
    acls: []
"""


def test_custom_roles_are_in_a_second_document() -> None:
    users = [
        {"principal": "User:a", "topic": "t", "group": "g", "idempotence": True},
        {"principal": "User:b", "subject": "s"},
    ]
    found = read(f"---\n{project(auditors=users, others=[])}\n---\n{ROLES}")
    assert found.acls == tuple(
        each
        for principal, topic, group in (("User:a", "t-x", "g"), ("User:b", "-sx", "*"))
        for each in (
            acl(principal, "DESCRIBE_CONFIGS", topic=topic, pattern="PREFIXED", host="10.0.0.7"),
            acl(principal, "READ", group=group),
        )
    )
    assert found.losses == ()
    assert found.scope == managed("User:a", "User:b")


def with_role(**fields: Any) -> str:  # noqa: ANN401 - any JSON
    entry = {
        "resourceType": "TOPIC", "resourceName": "t", "patternType": "LITERAL", "host": "*",
        "operation": "READ", **fields,
    }  # fmt: skip
    entry = {key: value for key, value in entry.items() if value is not ...}
    roles = {"roles": [{"name": "x", "acls": [entry]}]}
    topology = project(x=[{"principal": "User:a", "topic": "t"}])
    return f"---\n{topology}\n---\n{json.dumps(roles)}"


TOPIC = {"name": "t"}
ROLE = "document[1].roles[0].acls[0]"


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("", "document", "expected a mapping, found nothing"),
    ("context: a\n---\ncontext: b\n", "document[1]", "unknown key 'context'"),
    ("context: a\n---\nroles: []\n---\nroles: []\n", "document[2]", "at most a topology and"),
    ("projects: []\n", "context", "found nothing"),
    ("context: c\nplatfrom: {}\n", "platfrom", "expected text in quotes, found dict"),
    ("context: c\nprojects: {}\nname: [x]\n", "name", "found list"),
    (project(name=None), "projects[0].name", "found nothing"),
    (project(consumers="User:a"), "projects[0].consumers", "a list of principals"),
    (project(consumers=[{}]), "projects[0].consumers[0]", "missing key 'principal'"),
    (project(consumers=[{"principal": "User:a", "groups": "x"}]), "projects[0].consumers[0]",
     "unknown key 'groups'"),
    (project(consumers=[{"principal": "a"}], topics=[TOPIC]), "projects[0].consumers[0]",
     "no colon"),
    (project(producers=[{"principal": "User:a", "transactionId": 1}], topics=[TOPIC]),
     "projects[0].producers[0].transactionId", "found int '1'"),
    (project(topics=[{}]), "projects[0].topics[0]", "missing key 'name'"),
    (project(topics=[{"name": "t", "consumer": []}]), "projects[0].topics[0]", "key 'consumer'"),
    (project(topics=[{"name": "ü"}]), "projects[0].topics[0]", "in ASCII, found 'c.p.ü'"),
    (project(topics=[{"name": "t", "dataType": 1}]), "projects[0].topics[0].dataType", "int"),
    (project(streams=[{"principal": "User:a"}]), "projects[0].streams[0].topics.read",
     "at least one topic"),
    (project(streams=[{"principal": "User:a", "topics": {"reads": []}}]),
     "projects[0].streams[0].topics", "unknown key 'reads'"),
    (project(streams=[{"principal": "User:a", "exactlyOnce": "yes"}]),
     "projects[0].streams[0].exactlyOnce", "expected true or false"),
    (project(connectors={"acl": []}), "projects[0].connectors", "unknown key 'acl'"),
    (project(auditors=[{"topic": "t"}]), "projects[0].auditors[0]", "missing key 'principal'"),
    (project(rules={"a": 1}), "projects[0].rules", "expected a list of principals"),
    (f"---\n{project(y=[{'principal': 'User:a'}])}\n---\n{ROLES}", "projects[0].y",
     "unknown role 'y': expected one of auditors, others"),
    (f"---\n{project(others=[{'principal': 'User:a', 'tpoic': 't'}])}\n---\n{ROLES}",
     "projects[0].others[0]", "unknown key 'tpoic'"),
    (f"---\n{project(others=[{'principal': 'User:a', 'topic': '{{x}}'}])}\n---\n{ROLES}",
     "projects[0].others[0].topic", "expected no template"),
    (f"context: c\n---\n{ROLES}  - {{name: others, acls: []}}\n", "document[1].roles[2]",
     "repeats the role others"),
    (with_role(permissionType="DENY"), f"{ROLE}.permissionType", "Julie would allow it"),
    (with_role(resourceName="{{ topic | upper }}"), f"{ROLE}.resourceName", "only placeholders"),
    (with_role(resourceName="{% x %}"), f"{ROLE}.resourceName", "only placeholders"),
    (with_role(resourceName="{{subject}}"), "projects[0].x[0]", "Invalid empty resource name"),
    (with_role(patternType="Literal"), f"{ROLE}.patternType", "expected one of LITERAL"),
    (with_role(resourceType="Subject"), f"{ROLE}.resourceType", "unknown ResourceType"),
    (with_role(host=...), ROLE, "missing key 'host'"),
    (with_role(operation="TwoPhaseCommit"), f"{ROLE}.operation", "does not know the operation"),
    (with_role(operation=...), f"{ROLE}.role", "found nothing"),
    (platform(zookeeper={}), "platform", "unknown key 'zookeeper'"),
    (platform(ksql={"instances": [{"principal": "User:a"}]}),
     "platform.ksql.instances[0].ksqlDbId", "found nothing"),
    (platform(schema_registry={"users": []}), "platform.schema_registry", "unknown key 'users'"),
    (platform(ksql=""), "platform.ksql", "expected a mapping, found str"),
    ("context: c\nprojects: {}\n", "projects", "expected a list of projects, found dict"),
    ("context: c\nspecial_topics: false\n", "special_topics", "found bool"),
])  # fmt: skip
def test_fault_is_named_with_its_place(text: str, place: str, reason: str) -> None:
    check_fault(read, text, place, reason)


@given(st.integers(0, len(TEXT)))
def test_unfinished_topology_gives_no_other_principals(end: int) -> None:
    with contextlib.suppress(AclTextError):
        for each in read(TEXT[:end]).acls:
            assert any(user.startswith(each.principal) for user in USERS)


principals = st.sampled_from(("User:a", "User:b"))
topics = st.sampled_from(("t", "u", "v.w"))
any_topics = st.lists(st.sampled_from(("t", "u", "*", "not a topic")), unique=True, max_size=3)
patterns = st.sampled_from(("*", "g", "h", "g*", "app*", "x-*"))
prefixes = st.sampled_from(("app", "g", "x-"))


def collected(acls: Iterator[Acl]) -> frozenset[Acl]:
    return frozenset(acls)


roles = st.one_of(
    st.builds(julie_roles.consume, principals, topics, patterns),
    st.builds(
        julie_roles.stream, principals, prefixes, any_topics.filter(bool), any_topics, st.booleans()
    ),
    st.builds(julie_roles.run_ksql_application, principals, prefixes, any_topics, any_topics),
).map(collected)
# Julie takes only one producer of each principal from a topic.
producers = st.dictionaries(
    st.tuples(principals, topics), st.tuples(st.none() | patterns, st.booleans()), max_size=4
).map(lambda found: [collected(julie_roles.produce(*k, *v)) for k, v in found.items()])
others = st.builds(
    Acl, st.sampled_from((2, 3, 4, 5)),
    st.sampled_from(("t", "g", "app", "*", "h*", "kafka-cluster")), st.sampled_from((3, 4)),
    principals, st.sampled_from(("*", "10.0.0.1")), st.sampled_from((2, 3, 4, 8, 12)),
    st.sampled_from((2, 3)),
)  # fmt: skip


@given(st.lists(roles, max_size=6), producers, st.lists(others, max_size=6))
def test_roles_are_written_as_roles_and_other_acls_as_custom_roles(
    some: list[frozenset[Acl]], more: list[frozenset[Acl]], noise: list[Acl]
) -> None:
    known = frozenset[Acl]().union(*some, *more)
    written = write([*known, *noise])
    lost = {loss.acl for loss in written.losses}
    kept = julie.read(written.text)
    assert kept.losses == ()
    assert set(kept.acls) == {*known, *noise} - lost
    assert not lost & known
    if not noise:
        assert "\nroles:" not in written.text


def test_written_topology_has_special_topics_and_applications() -> None:
    some = [
        *julie_roles.consume("User:b", "t", "g-*"),
        *julie_roles.consume("User:b", "t", "h"),
        *julie_roles.produce("User:a", "t", "tx", False),
        *julie_roles.produce("User:b", "u", None, True),
        *julie_roles.stream("User:s", "app", ["*"], ["out"], True),
        acl("User:b", "ALTER", topic="t", host="10.0.0.7"),
    ]
    expected = """
context: exported
projects:
  - name: exported
    "ACLs of User:b":
      - principal: User:b
    streams:
      - principal: User:s
        applicationId: app
        exactlyOnce: true
        topics:
          read: ["*"]
          write: [out]
special_topics:
  - name: t
    producers:
      - principal: User:a
        transactionId: tx
    consumers:
      - principal: User:b
        group: g-*
      - principal: User:b
        group: h
  - name: u
    producers:
      - principal: User:b
        idempotence: true
---
roles:
  - name: "ACLs of User:b"
    acls:
      - resourceType: TOPIC
        resourceName: t
        patternType: LITERAL
        host: 10.0.0.7
        operation: ALTER
        permissionType: ALLOW
"""
    assert write(some).text == expected.removeprefix("\n")


def test_more_transactional_ids_than_topics_become_a_custom_role() -> None:
    some = {*julie_roles.produce("User:a", "t", "x", True)}
    some |= {acl("User:a", operation, transactional_id="y") for operation in ("DESCRIBE", "WRITE")}
    topology, roles = write([*some]).text.split("---\n")
    assert topology.count("transactionId: x\n") == 1
    assert roles.count('resourceName: "y"\n') == 2
