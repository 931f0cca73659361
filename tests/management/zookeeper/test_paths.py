from __future__ import annotations

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper.broker_version import BrokerVersion
from authorizerd.management.zookeeper.paths import (
    Pattern,
    parse_path,
    pattern_path,
    why_not_a_znode,
)
from authorizerd.management.zookeeper.znode import new_change_event
from tests.support.acls import acl

LITERAL_TX = acl(transactional_id="tx:1")
PREFIXED_TX = acl(transactional_id="tx:1", pattern="PREFIXED")


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        (acl(topic="orders"), "/kafka-acl/Topic/orders"),
        (acl(group="*"), "/kafka-acl/Group/*"),
        (acl(cluster=True), "/kafka-acl/Cluster/kafka-cluster"),
        (LITERAL_TX, "/kafka-acl/TransactionalId/tx:1"),
        (acl(delegation_token="t"), "/kafka-acl/DelegationToken/t"),
        (acl(user="User:a"), "/kafka-acl/User/User:a"),
        (
            acl(topic="orders-", pattern="PREFIXED"),
            "/kafka-acl-extended/prefixed/Topic/orders-",
        ),
    ],
)
def test_pattern_has_the_path_that_kafka_gives_it(stored: Acl, path: str) -> None:
    assert pattern_path(Pattern.of(stored)) == path
    assert parse_path(path) == Pattern.of(stored)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/kafka-acl",
        "/kafka-acl/Topic",
        "/kafka-acl/Unknown",
        "/kafka-acl-extended",
        "/kafka-acl-extended/prefixed",
        "/kafka-acl-extended/prefixed/User",
        "/kafka-acl-changes/acl_changes_0000000001",
        "/kafka-acl-extended-changes",
        "/kafka-acls/Topic/orders",
        "/brokers/topics/orders",
    ],
)
def test_other_znodes_of_a_cluster_hold_no_pattern(path: str) -> None:
    assert parse_path(path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/kafka-acl/topic/orders", "unknown resource type 'topic': expected one of Topic, Group"),
        ("/kafka-acl/Any/orders", "unknown resource type 'Any'"),
        ("/kafka-acl/Topic/a/b", "a znode's name cannot contain /"),
        ("/kafka-acl-extended/suffixed", "unknown pattern type"),
        ("/kafka-acl-extended/PREFIXED/Topic/a", "unknown pattern type"),
    ],
)
def test_patterns_that_kafka_does_not_have_are_rejected(path: str, reason: str) -> None:
    with pytest.raises(AclTextError) as caught:
        parse_path(path)
    assert caught.value.place == path
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "a/b", "\0", "a\n", "\x7f", "\x9f", "\ue000", "\ufff0", "😀"],
)
def test_names_that_zookeeper_rejects(name: str) -> None:
    """Source: ZooKeeper 3.8 PathUtils; a Java string has characters above U+FFFF as surrogates."""
    assert why_not_a_znode(name)


@pytest.mark.parametrize("name", ["a", "*", "...", "a b", "é", "\xa0", "\ufeff", "漢字", "a:b"])
def test_names_that_zookeeper_accepts(name: str) -> None:
    assert why_not_a_znode(name) is None


@pytest.mark.parametrize(
    ("stored", "oldest", "path", "data"),
    [
        (acl(topic="a:b"), "3.9", "/kafka-acl-changes/acl_changes_", "TOPIC:a:b"),
        (LITERAL_TX, "2.5", "/kafka-acl-changes/acl_changes_", "TRANSACTIONAL_ID:tx:1"),
        (LITERAL_TX, "2.4", "/kafka-acl-changes/acl_changes_", "TransactionalId:tx:1"),
        (
            PREFIXED_TX,
            "2.5",
            "/kafka-acl-extended-changes/acl_changes_",
            '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx:1","patternType":"PREFIXED"}',
        ),
        (
            PREFIXED_TX,
            "2.0",
            "/kafka-acl-extended-changes/acl_changes_",
            '{"version":1,"resourceType":"TransactionalId","name":"tx:1","patternType":"PREFIXED"}',
        ),
    ],
)
def test_change_event_has_the_spelling_of_the_version(
    stored: Acl, oldest: str, path: str, data: str
) -> None:
    event = new_change_event(Pattern.of(stored), BrokerVersion.parse(oldest))
    assert event == (path, data.encode())
