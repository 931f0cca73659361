"""ACLs of ZooKeeper as an export and as a dump."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, PermissionType
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper.broker_version import BrokerVersion
from authorizerd.management.zookeeper.export import (
    Target,
    find_lost_denials,
    list_parents,
    plan_export,
    read_dump,
    write_dump,
)
from authorizerd.management.zookeeper.ownership import find_kraft_owner
from authorizerd.management.zookeeper.paths import Pattern
from tests.support import strategies
from tests.support.acls import acl

TOPIC = acl(topic="t")


def lose(stored: Acl, oldest: str = "3.9") -> str | None:
    """Return why an export loses an ACL; None if it does not."""
    export = plan_export([stored], Target(BrokerVersion.parse(oldest)))
    if export.losses:
        assert [each.acl for each in export.losses] == [stored]
        assert not export.patterns
        return export.losses[0].reason
    assert export.patterns == {Pattern.of(stored): (stored,)}
    return None


@pytest.mark.parametrize(("stored", "since"), [
    (TOPIC, "0.9"),
    (acl(operation="ALL", group="g"), "0.9"),
    (acl(transactional_id="x"), "0.11"),
    (acl(operation="IDEMPOTENT_WRITE", cluster=True), "0.11"),
    (acl(operation="DESCRIBE_CONFIGS", topic="t"), "0.11"),
    (acl(operation="ALTER_CONFIGS", topic="t"), "0.11"),
    (acl(delegation_token="d"), "1.1"),
    (acl(topic="t", pattern="PREFIXED"), "2.0"),
    (acl(user="User:a"), "3.3"),
    (acl(operation="CREATE_TOKENS", topic="t"), "3.3"),
    (acl(operation="DESCRIBE_TOKENS", topic="t"), "3.3"),
])  # fmt: skip
def test_acl_is_lost_exactly_on_brokers_that_do_not_know_it(stored: Acl, since: str) -> None:
    versions = ["0.9", "0.10", "0.11", "1.0", "1.1", "2.0", "2.8", "3.2", "3.3", "3.9"]
    for oldest in versions:
        reason = lose(stored, oldest)
        if versions.index(oldest) < versions.index(since):
            assert reason is not None
            assert reason.startswith(f"Kafka {oldest} does not know")
            assert reason.endswith(f"which needs {since}")
        else:
            assert reason is None


@pytest.mark.parametrize(("stored", "reason"), [
    (acl(group="a/b"), "a znode's name cannot contain /"),
    (acl(group=".."), "a znode cannot be named '..'"),
    (acl(group="\t"), "a znode's name cannot contain the character U+0009"),
    (acl(topic="t", principal="*"), "expected a principal TYPE:NAME, with a colon"),
    (acl(operation=99, topic="t"), "Kafka's code 99 has no name as an operation"),
    (acl(operation="ANY", topic="t"), "Kafka's code 1 has no name as an operation"),
    (acl(operation="TWO_PHASE_COMMIT", transactional_id="x"),
     "no Kafka version with ZooKeeper knows the operation TWO_PHASE_COMMIT"),
    (acl(topic="t", pattern=77), "no place for patterns of type UNKNOWN (code 77)"),
    (Acl(99, "t", 3, "User:a", "*", 3, PermissionType.ALLOW),
     "Kafka's code 99 has no name as a resource type"),
    (Acl(2, "t", 3, "User:a", "*", 3, 9), "Kafka's code 9 has no name as a permission type"),
])  # fmt: skip
def test_acl_that_zookeeper_cannot_hold_is_a_named_loss(stored: Acl, reason: str) -> None:
    found = lose(stored)
    assert found is not None
    assert reason in found


def test_pattern_that_exceeds_the_buffer_is_lost_as_a_whole() -> None:
    crowd = [acl(f"User:{number:04}", topic="big") for number in range(200)]
    limit = 40_000
    assert not plan_export(crowd, Target(request_bytes_max=limit)).losses
    crowd += [acl(f"User:{number:04}", topic="big") for number in range(200, 500)]
    export = plan_export([*crowd, TOPIC], Target(request_bytes_max=limit))
    assert export.patterns == {Pattern.of(TOPIC): (TOPIC,)}
    assert [each.acl for each in export.losses] == crowd
    assert "the 500 ACLs of /kafka-acl/Topic/big need a request of" in export.losses[0].reason
    assert "jute.maxbuffer, 40000" in export.losses[0].reason


@pytest.mark.parametrize(("stored", "stops"), [
    (acl(topic="t", pattern="PREFIXED", deny=True), True),
    (acl(topic="t", pattern="PREFIXED"), False),
    (Acl(2, "t", 3, "User:a", "*", 3, 9), True),
    (acl(topic="t", deny=True), False),
])  # fmt: skip
def test_losses_that_would_give_access_stop_the_export(stored: Acl, stops: bool) -> None:
    losses = plan_export([stored], Target(BrokerVersion.parse("1.1"))).losses
    assert bool(find_lost_denials(losses)) is stops


@pytest.mark.parametrize("text", ["", "3", "4.0", "0.8", "3.10", "3.9-rc1", "v3.9", "3.9.1.2.3"])
def test_text_that_is_no_version_with_zookeeper_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a version"):
        BrokerVersion.parse(text)


def test_version_is_read_without_its_patch() -> None:
    assert BrokerVersion.parse("0.10.2.1") == (0, 10)
    assert str(BrokerVersion.parse("3.9.1")) == "3.9"


def test_parents_are_those_that_brokers_of_the_version_create() -> None:
    assert list_parents(BrokerVersion.parse("1.0")) == [
        "/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Group", "/kafka-acl/Cluster",
        "/kafka-acl/TransactionalId", "/kafka-acl-changes",
    ]  # fmt: skip
    newest = list_parents(BrokerVersion.parse("3.9"))
    assert len(newest) == len(set(newest)) == 17
    assert newest[-2:] == ["/kafka-acl-extended/prefixed/User", "/kafka-acl-extended-changes"]


MIGRATION = b'{"version":0,"kraft_controller_id":%d,"kraft_controller_epoch":5}'
CONTROLLER = b'{"version":2,"brokerid":%d,"timestamp":"1","kraftControllerEpoch":%d}'


@pytest.mark.parametrize(("migration", "controller", "owner"), [
    (None, None, None),
    (None, b'{"version":1,"brokerid":1,"timestamp":"1"}', None),
    (None, CONTROLLER % (1, -1), None),
    (MIGRATION % -1, CONTROLLER % (1, -1), None),
    (None, CONTROLLER % (3000, 0), "/controller names the KRaft controller 3000 with epoch 0"),
    (MIGRATION % 3000, None, "/migration names the KRaft controller 3000"),
    (MIGRATION % 0, CONTROLLER % (1, -1), "/migration names the KRaft controller 0"),
    (b"", None, "/migration cannot be read, so that its owner is unknown"),
    (b"{}", None, "/migration cannot be read, so that its owner is unknown"),
    (None, b"\xff", "/controller cannot be read, so that its owner is unknown"),
    (None, CONTROLLER.replace(b"%d}", b'"x"}') % 1, "/controller cannot be read"),
])  # fmt: skip
def test_kraft_controller_owns_the_metadata_unless_that_is_ruled_out(
    migration: bytes | None, controller: bytes | None, owner: str | None
) -> None:
    found = find_kraft_owner(migration, controller)
    if owner is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(owner)


ROOT = '{"path":"/kafka-acl","data":null}\n'
DATA = r'"{\"version\":1,\"acls\":[]}"'
ORDERS = f'{{"path":"/kafka-acl/Topic/orders","data":{DATA}}}\n'


def test_dump_lists_parents_then_each_znode_with_its_event() -> None:
    written = write_dump([acl("User:ä", topic="t"), acl(group="g", pattern="PREFIXED")])
    nodes = [json.loads(line) for line in written.text.splitlines()]
    parents = list_parents(Target().oldest)
    assert nodes[: len(parents)] == [{"path": path, "data": None} for path in parents]
    entry = '"permissionType":"Allow","host":"*","operation":"Read"}],"version":1}'
    assert nodes[len(parents) :] == [
        {
            "path": "/kafka-acl-extended/prefixed/Group/g",
            "data": f'{{"acls":[{{"principal":"User:a",{entry}',
        },
        {
            "path": "/kafka-acl-extended-changes/acl_changes_",
            "data": '{"version":1,"resourceType":"GROUP","name":"g","patternType":"PREFIXED"}',
            "sequential": True,
        },
        {"path": "/kafka-acl/Topic/t", "data": f'{{"acls":[{{"principal":"User:ä",{entry}'},
        {"path": "/kafka-acl-changes/acl_changes_", "data": "TOPIC:t", "sequential": True},
    ]


@given(st.lists(strategies.acls(unknown_codes=True)))
def test_dump_is_read_back_without_the_losses(acls: list[Acl]) -> None:
    written = write_dump(acls)
    read = read_dump(written.text)
    lost = {each.acl for each in written.losses}
    assert set(read.acls) == set(acls) - lost
    assert len(read.acls) == len(set(read.acls))
    assert (read.losses, read.scope) == ((), None)


def test_dump_for_older_brokers_names_what_they_cannot_read() -> None:
    target = Target(BrokerVersion.parse("1.1"))
    written = write_dump([acl(topic="t"), acl(topic="t", pattern="PREFIXED")], target)
    assert "prefixed" not in written.text
    assert [each.reason for each in written.losses] == [
        "Kafka 1.1 does not know prefixed patterns, which needs 2.0"
    ]


def test_other_znodes_of_a_cluster_are_ignored() -> None:
    text = (
        '\n{"path":"/brokers/ids/1","data":"{"}\r\n'
        '{"path":"/kafka-acl-changes/acl_changes_0000000007","data":"x"}\n' + ROOT
    )
    assert read_dump(text).acls == ()


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("", "document", "no znode /kafka-acl found"),
    ('{"path":"/chroot/kafka-acl/Topic","data":null}', "document", "no znode /kafka-acl"),
    (ROOT + "x", "line 2", "expected a znode as JSON"),
    (ROOT + '{"path":"/a"}', "line 2", "missing required field `data`"),
    (ROOT + '{"path":"/a","data":null,"acl":1}', "line 2", "unknown field `acl`"),
    (ROOT + '{"path":"/a","data":{}}', "line 2", "Expected `str | null`"),
    (ROOT + '{"path":"\ud800","data":null}', "line 2", "expected a znode as JSON"),
    (ROOT + ORDERS + ORDERS, "line 3", "/kafka-acl/Topic/orders: this znode is also in line 2"),
    (ROOT + '{"path":"/kafka-acl/Topic/t","data":"{"}', "line 2",
     "/kafka-acl/Topic/t: expected the JSON of ACLs"),
    (ROOT + '{"path":"/kafka-acl/Tpic/t","data":null}', "line 2",
     "/kafka-acl/Tpic/t: unknown resource type 'Tpic'"),
])  # fmt: skip
def test_malformed_dump_is_rejected_with_its_line(text: str, place: str, reason: str) -> None:
    with pytest.raises(AclTextError) as caught:
        read_dump(text)
    assert caught.value.place == place
    assert reason in caught.value.reason
