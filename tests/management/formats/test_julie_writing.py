from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats import julie, julie_roles
from authorizerd.management.formats.julie_writing import write
from tests.support.acls import acl

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
    Acl,
    st.sampled_from((2, 3, 4, 5)),
    st.sampled_from(("t", "g", "app", "*", "h*", "kafka-cluster")),
    st.sampled_from((3, 4)),
    principals,
    st.sampled_from(("*", "10.0.0.1")),
    st.sampled_from((2, 3, 4, 8, 12)),
    st.sampled_from((2, 3)),
)


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
