"""The reach of one principal: what ACLs allow it, by resource, operation and host."""

import pytest

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.daemon.queries import reach
from authorizerd.daemon.queries.reach import PATTERNS_MAX, Reach, ReachRow, find_reach
from authorizerd.protocol.queries import ReachQuestion
from tests.support.acls import acl, snapshot_of

ACLS = (
    acl("User:a", "READ", topic="orders.", pattern="PREFIXED"),
    acl("User:a", "READ", topic="orders.audit", deny=True),
    acl("User:a", "WRITE", topic="orders.", pattern="PREFIXED", host="10.0.0.1"),
    acl("User:a", "READ", group="*"),
    acl("User:b", "READ", topic="payments"),
    acl("User:*", "DESCRIBE", cluster=True),
    acl("User:*", "READ", topic="public"),
    acl("User:*", "READ", topic="secret"),
    acl("User:a", "READ", topic="secret", deny=True),
    acl("Authorizerd:note", "DESCRIBE", delegation_token="authorizerd-x?a=b", deny=True),
)


def find(principal: str, *acls: object) -> Reach:
    return find_reach(ReachQuestion(principal, AuthorizerSettings()), snapshot_of(*(acls or ACLS)))  # type: ignore[arg-type]  # ACLs


def test_reach_has_every_resource_that_is_allowed() -> None:
    found = find("User:a")
    rows = {
        (row.resource_type, row.name): (row.operations, row.hosts, row.everyone)
        for row in found.rows
    }
    anywhere = ("from any host",)
    assert rows == {
        ("TOPIC", "orders.…"): (
            {"READ": True, "WRITE": False, "DESCRIBE": True},
            ("from any host", "only from 10.0.0.1"),
            (),
        ),
        ("TOPIC", "public"): (
            {"READ": True, "DESCRIBE": True}, anywhere, ("READ", "DESCRIBE"),
        ),
        ("TOPIC", "secret"): ({"DESCRIBE": True}, anywhere, ("DESCRIBE",)),
        ("GROUP", "*"): ({"READ": True, "DESCRIBE": True}, anywhere, ()),
        ("CLUSTER", "kafka-cluster"): ({"DESCRIBE": True}, anywhere, ("DESCRIBE",)),
    }  # fmt: skip
    assert found.rows_left == 0
    (orders,) = [row for row in found.rows if row.name == "orders.…"]
    assert orders.exceptions == 1


@pytest.mark.parametrize("principal", ["User:*", "User:nobody", "Authorizerd:note"])
def test_everyone_reaches_what_everyone_may(principal: str) -> None:
    rows = find(principal).rows
    assert [(row.name, [*row.operations]) for row in rows] == [
        ("public", ["READ", "DESCRIBE"]),
        ("secret", ["READ", "DESCRIBE"]),
        ("kafka-cluster", ["DESCRIBE"]),
    ]
    assert all([*row.operations] == [*row.everyone] for row in rows)


def test_operation_is_everyones_only_from_the_same_hosts() -> None:
    wide, narrow = (
        acl(principal, "READ", topic="t", host=host)
        for principal, host in (("User:a", "*"), ("User:*", "10.0.0.1"))
    )
    (row,) = find("User:a", wide, narrow).rows
    assert (row.hosts, row.everyone) == (("from any host",), ())


def test_many_patterns_with_the_same_beginning_are_one_row() -> None:
    many = [acl("User:a", "READ", topic=f"orders.{n}") for n in range(PATTERNS_MAX)]
    one = acl("User:a", "WRITE", topic="orders.last", host="10.0.0.1")
    wide = acl("User:a", "DESCRIBE", topic="*")
    rows = find("User:a", *many, one, wide, acl("User:a", "READ", topic="other.x")).rows
    assert [(row.name, row.patterns) for row in rows] == [
        ("orders…", PATTERNS_MAX + 1),
        ("*", 1),
        ("other.x", 1),
    ]
    assert rows[0].operations == {"READ": True, "WRITE": False}


def test_rows_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ROWS_MAX", 2)
    found = find("User:a")
    assert (len(found.rows), found.rows_left) == (2, 3)


def test_long_texts_are_cut() -> None:
    hosts = [acl("User:a", "READ", topic="t", host=f"10.0.0.{n}") for n in range(200)]
    (row,) = find("User:a", *hosts).rows
    assert row.hosts[0].endswith(" characters)")
    assert isinstance(row, ReachRow)
