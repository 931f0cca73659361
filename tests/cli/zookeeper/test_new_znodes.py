"""The owners of the znodes that an export creates."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

import pytest

from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.options import (
    ALL,
    CREATOR_ALL_WORLD_READ,
    OPEN,
    READ,
    HiddenOwnerError,
    OpenZnodeError,
    Permission,
    WriteOptions,
    choose_permissions,
    is_open,
)
from authorizerd.cli.zookeeper.settings import Login
from authorizerd.management.zookeeper.export import Target, list_parents
from tests.support.acls import acl
from tests.support.jute import Op
from tests.support.scripted_zookeeper import Fate, ScriptedZooKeeper, running_zookeeper
from tests.support.znode_tree import Node
from tests.support.zookeeper_clusters import ACCEPTS_OPEN, EVENTS, add, read

TOPIC = acl(topic="t")
PREFIXED = acl(topic="p", pattern="PREFIXED")
PATH = "/kafka-acl/Topic/t"
EVENT = f"{EVENTS}/acl_changes_0000000000"
PARENTS = ("/kafka-acl/Topic", EVENTS)
OWNED = ((31, "sasl", "kafka"), (1, "world", "anyone"))


def test_open_znodes_are_made_only_if_the_user_accepts_them(cluster: ScriptedZooKeeper) -> None:
    with pytest.raises(ZooKeeperError, match=r"everybody could change .* --zk-open-acls"):
        add(cluster, [TOPIC], WriteOptions())
    assert read(cluster) == set()
    login = Login("a", "b")
    add(cluster, [TOPIC], WriteOptions(), digest=login)
    acls = {cluster.tree.nodes[path].acls for path in (PATH, EVENT)}
    ((owner, everybody),) = acls
    assert (owner[:2], everybody) == ((31, "digest"), (1, "world", "anyone"))
    add(cluster, [PREFIXED], ACCEPTS_OPEN)
    assert is_open(permissions_of(cluster.tree.nodes["/kafka-acl-extended/prefixed/Topic/p"]))


def permissions_of(node: Node) -> tuple[Permission, ...]:
    return tuple(Permission(*each) for each in node.acls)


@pytest.mark.parametrize("options", [WriteOptions(), ACCEPTS_OPEN])
def test_new_znode_belongs_to_the_owner_of_its_parent(
    cluster: ScriptedZooKeeper, options: WriteOptions
) -> None:
    """Also if another user creates it, and if that user accepts open znodes."""
    user, login = digest_id("a", "b"), Login("a", "b")
    for node in cluster.tree.nodes.values():
        node.acls = OWNED
    assert f"{PATH}: ZooKeeper denies access: log in" in add(cluster, [TOPIC], options).failure
    for bits, is_hidden in ((4, True), (31, False)):
        for parent in PARENTS:
            cluster.tree.nodes[parent].acls = (*OWNED, (bits, "digest", user))
        if is_hidden:
            with pytest.raises(ZooKeeperError, match="does not show who owns"):
                add(cluster, [TOPIC], options, digest=login)
    assert add(cluster, [TOPIC], options, digest=login).failure == ""
    for path in (PATH, EVENT):
        assert cluster.tree.nodes[path].acls == (*OWNED, (31, "digest", user))


def digest_id(user: str, password: str) -> str:
    return f"{user}:{b64encode(sha1(f'{user}:{password}'.encode()).digest()).decode()}"


def test_parents_of_a_new_chroot_are_those_that_brokers_create() -> None:
    with running_zookeeper() as server:
        add(server, [TOPIC], WriteOptions(), digest=Login("a", "b"))
        assert set(list_parents(Target().oldest)) <= set(server.tree.nodes)
        made = {path: node for path, node in server.tree.nodes.items() if path != "/"}
        assert not any(is_open(permissions_of(node)) for node in made.values())
        assert read(server) == {TOPIC}


@pytest.mark.parametrize("fate", [Fate.LOST_BEFORE, Fate.LOST_AFTER])
def test_lost_connection_leaves_no_parent_out(fate: Fate) -> None:
    with running_zookeeper() as server:
        server.on(Op.CREATE, "/kafka-acl/Group", fate)
        assert add(server, [TOPIC]).failure == ""
        assert set(list_parents(Target().oldest)) <= set(server.tree.nodes)
        assert read(server) == {TOPIC}


@pytest.mark.parametrize(
    ("parent", "is_authenticated", "accepts_open", "expected"),
    [
        (OPEN, False, False, OpenZnodeError),
        (OPEN, False, True, OPEN),
        (OPEN, True, False, CREATOR_ALL_WORLD_READ),
        (OPEN, True, True, OPEN),
        ((Permission(ALL, "ip", "0.0.0.0/0"),), False, False, OpenZnodeError),
        ((Permission(READ, "world", "anyone"),), False, True, (Permission(1, "world", "anyone"),)),
        (
            (Permission(ALL, "ip", "10.0.0.0/8"),),
            False,
            False,
            (Permission(ALL, "ip", "10.0.0.0/8"),),
        ),
        ((Permission(4, "world", "anyone"),), True, False, CREATOR_ALL_WORLD_READ),
        ((), False, False, OpenZnodeError),
        ((Permission(ALL, "digest", "kafka:x"),), True, False, HiddenOwnerError),
    ],
)
def test_new_znode_is_never_open_unasked(
    parent: tuple[Permission, ...],
    is_authenticated: bool,
    accepts_open: bool,
    expected: tuple[Permission, ...] | type[Exception],
) -> None:
    if isinstance(expected, tuple):
        found = choose_permissions(
            parent, is_authenticated=is_authenticated, accepts_open=accepts_open
        )
        assert found == expected
        return
    with pytest.raises(expected):
        choose_permissions(parent, is_authenticated=is_authenticated, accepts_open=accepts_open)
