"""The znodes that hold ACLs: their data and their paths."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper.broker_version import BrokerVersion
from authorizerd.management.zookeeper.export import Target, plan_export
from authorizerd.management.zookeeper.paths import (
    Pattern,
    parse_path,
    pattern_path,
    why_not_a_znode,
)
from authorizerd.management.zookeeper.znode import new_change_event, read_acls, write_acls
from tests.management.formats.faults import check_fault
from tests.support import strategies
from tests.support.acls import acl

ORDERS = Pattern.of(acl(topic="orders"))
ENTRY = {"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}


def znode(version: object = 1, **changes: object) -> bytes:
    """Return the data of a znode with one entry, whose fields are changed; None removes one."""
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
    return json.dumps({"version": version, "acls": [entry]}).encode()


def test_data_is_the_json_that_kafka_writes() -> None:
    acls = [acl("User:b", "IDEMPOTENT_WRITE", cluster=True), acl("User:ä", cluster=True, deny=True)]
    assert write_acls(acls).decode() == (
        '{"acls":['
        '{"principal":"User:b","permissionType":"Allow","host":"*","operation":"IdempotentWrite"},'
        '{"principal":"User:ä","permissionType":"Deny","host":"*","operation":"Read"}],"version":1}'
    )


@pytest.mark.parametrize("data", [None, b"", b'{"version":1,"acls":[]}'])
def test_znode_without_entries_has_no_acls(data: bytes | None) -> None:
    assert read_acls(ORDERS, data) == ()


@pytest.mark.parametrize("changes", [
    {},
    {"operation": "READ"},
    {"operation": "read"},
    {"permissionType": "ALLOW"},
    {"unknown": {"a": [1]}},
])  # fmt: skip
def test_spelling_and_unknown_fields_are_read_as_by_kafka(changes: dict[str, object]) -> None:
    assert read_acls(ORDERS, znode(**changes)) == (acl("User:a", "READ", topic="orders"),)


@pytest.mark.parametrize(("data", "reason"), [
    (b"{", "expected the JSON of ACLs: Input data was truncated"),
    (b"[]", "expected the JSON of ACLs: Expected `object`, got `array`"),
    (b'{"acls":[]}', "missing required field `version`"),
    (b'{"version":1}', "missing required field `acls`"),
    (b'{"version":1,"acls":[]}x', "trailing characters"),
    (b'{"version":1,"acls":[\xff]}', "expected the JSON of ACLs"),
    (znode(2), "unknown version 2: expected 1"),
    (znode("1"), "Expected `int`, got `str`"),
    (znode(operation="Fly"), "unknown operation 'Fly'"),
    (znode(operation="Idempotent_Write"), "unknown operation 'Idempotent_Write'"),
    (znode(operation="Any"), "unknown operation 'Any'"),
    (znode(operation="wr\u0131te"), "unknown operation 'wr\u0131te'"),
    (znode(permissionType="Unknown"), "unknown permission type 'Unknown'"),
    (znode(principal="alice"), "invalid principal 'alice': expected a principal TYPE:NAME"),
    (znode(host=None), "missing required field `host`"),
    (znode(host=7), "Expected `str`, got `int`"),
])  # fmt: skip
def test_znode_of_another_form_is_rejected_by_its_path(data: bytes, reason: str) -> None:
    check_fault(partial(read_acls, ORDERS), data, "/kafka-acl/Topic/orders", reason)


@given(st.lists(strategies.acls(unknown_codes=True)))
def test_written_znodes_are_read_back_as_the_same_acls(acls: list[Acl]) -> None:
    """Also: an ACL is in a znode or in the losses, and never in both."""
    export = plan_export(acls, Target())
    lost = {each.acl for each in export.losses}
    kept = set()
    for pattern, entries in export.patterns.items():
        assert parse_path(pattern_path(pattern)) == pattern
        assert set(read_acls(pattern, write_acls(entries))) == set(entries)
        kept |= set(entries)
    assert kept | lost == set(acls)
    assert not kept & lost


@given(st.text())
def test_name_is_read_back_from_its_path_unless_no_znode_can_have_it(name: str) -> None:
    pattern = ORDERS._replace(resource_name=name)
    if why_not_a_znode(name) is None:
        assert parse_path(pattern_path(pattern)) == pattern
    elif name:
        with pytest.raises(AclTextError):
            parse_path(pattern_path(pattern))


LITERAL_TX = acl(transactional_id="tx:1")
PREFIXED_TX = acl(transactional_id="tx:1", pattern="PREFIXED")


@pytest.mark.parametrize(("stored", "path"), [
    (acl(topic="orders"), "/kafka-acl/Topic/orders"),
    (acl(group="*"), "/kafka-acl/Group/*"),
    (acl(cluster=True), "/kafka-acl/Cluster/kafka-cluster"),
    (LITERAL_TX, "/kafka-acl/TransactionalId/tx:1"),
    (acl(delegation_token="t"), "/kafka-acl/DelegationToken/t"),
    (acl(user="User:a"), "/kafka-acl/User/User:a"),
    (acl(topic="orders-", pattern="PREFIXED"), "/kafka-acl-extended/prefixed/Topic/orders-"),
])  # fmt: skip
def test_pattern_has_the_path_that_kafka_gives_it(stored: Acl, path: str) -> None:
    assert pattern_path(Pattern.of(stored)) == path
    assert parse_path(path) == Pattern.of(stored)


@pytest.mark.parametrize("path", [
    "/", "/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Unknown", "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed", "/kafka-acl-extended/prefixed/User",
    "/kafka-acl-changes/acl_changes_0000000001", "/kafka-acl-extended-changes",
    "/kafka-acls/Topic/orders", "/brokers/topics/orders",
])  # fmt: skip
def test_other_znodes_of_a_cluster_hold_no_pattern(path: str) -> None:
    assert parse_path(path) is None


@pytest.mark.parametrize(("path", "reason"), [
    ("/kafka-acl/topic/orders", "unknown resource type 'topic': expected one of Topic, Group"),
    ("/kafka-acl/Any/orders", "unknown resource type 'Any'"),
    ("/kafka-acl/Topic/a/b", "a znode's name cannot contain /"),
    ("/kafka-acl-extended/suffixed", "unknown pattern type"),
    ("/kafka-acl-extended/PREFIXED/Topic/a", "unknown pattern type"),
])  # fmt: skip
def test_patterns_that_kafka_does_not_have_are_rejected(path: str, reason: str) -> None:
    check_fault(parse_path, path, path, reason)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a/b", "\0", "a\n", "\x7f", "\x9f", "\ue000", "\ufff0", "😀"]
)
def test_names_that_zookeeper_rejects(name: str) -> None:
    """Source: ZooKeeper 3.8 PathUtils; a Java string has characters above U+FFFF as surrogates."""
    assert why_not_a_znode(name)


@pytest.mark.parametrize("name", ["a", "*", "...", "a b", "é", "\xa0", "\ufeff", "漢字", "a:b"])
def test_names_that_zookeeper_accepts(name: str) -> None:
    assert why_not_a_znode(name) is None


@pytest.mark.parametrize(("stored", "oldest", "path", "data"), [
    (acl(topic="a:b"), "3.9", "/kafka-acl-changes/acl_changes_", "TOPIC:a:b"),
    (LITERAL_TX, "2.5", "/kafka-acl-changes/acl_changes_", "TRANSACTIONAL_ID:tx:1"),
    (LITERAL_TX, "2.4", "/kafka-acl-changes/acl_changes_", "TransactionalId:tx:1"),
    (PREFIXED_TX, "2.5", "/kafka-acl-extended-changes/acl_changes_",
     '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx:1","patternType":"PREFIXED"}'),
    (PREFIXED_TX, "2.0", "/kafka-acl-extended-changes/acl_changes_",
     '{"version":1,"resourceType":"TransactionalId","name":"tx:1","patternType":"PREFIXED"}'),
])  # fmt: skip
def test_change_event_has_the_spelling_of_the_version(
    stored: Acl, oldest: str, path: str, data: str
) -> None:
    event = new_change_event(Pattern.of(stored), BrokerVersion.parse(oldest))
    assert event == (path, data.encode())
