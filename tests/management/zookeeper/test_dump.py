from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper.broker_version import BrokerVersion
from authorizerd.management.zookeeper.export import Target, list_parents, read_dump, write_dump
from tests.support import strategies
from tests.support.acls import acl

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
        {
            "path": "/kafka-acl/Topic/t",
            "data": f'{{"acls":[{{"principal":"User:ä",{entry}',
        },
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


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "document", "no znode /kafka-acl found"),
        ('{"path":"/chroot/kafka-acl/Topic","data":null}', "document", "no znode /kafka-acl"),
        (ROOT + "x", "line 2", "expected a znode as JSON"),
        (ROOT + '{"path":"/a"}', "line 2", "missing required field `data`"),
        (ROOT + '{"path":"/a","data":null,"acl":1}', "line 2", "unknown field `acl`"),
        (ROOT + '{"path":"/a","data":{}}', "line 2", "Expected `str | null`"),
        (ROOT + '{"path":"\ud800","data":null}', "line 2", "expected a znode as JSON"),
        (ROOT + ORDERS + ORDERS, "line 3", "/kafka-acl/Topic/orders: this znode is also in line 2"),
        (
            ROOT + '{"path":"/kafka-acl/Topic/t","data":"{"}',
            "line 2",
            "/kafka-acl/Topic/t: expected the JSON of ACLs",
        ),
        (
            ROOT + '{"path":"/kafka-acl/Tpic/t","data":null}',
            "line 2",
            "/kafka-acl/Tpic/t: unknown resource type 'Tpic'",
        ),
    ],
)
def test_malformed_dump_is_rejected_with_its_line(text: str, place: str, reason: str) -> None:
    with pytest.raises(AclTextError) as caught:
        read_dump(text)
    assert caught.value.place == place
    assert reason in caught.value.reason
