"""Reading and adding ACLs over a scripted ZooKeeper: merges, races, faults, permissions, owners."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha1

import pytest

from authorizerd.acl.model import Acl
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
from authorizerd.cli.zookeeper.reading import read_all, warn_of_owner
from authorizerd.cli.zookeeper.session import open_session
from authorizerd.cli.zookeeper.settings import Login, ZooKeeperSettings, parse_address
from authorizerd.cli.zookeeper.writing import ATTEMPTS_MAX, AclWriter, Added
from authorizerd.management.zookeeper.broker_version import BrokerVersion
from authorizerd.management.zookeeper.export import (
    JUTE_MAX_BUFFER,
    REQUEST_OVERHEAD,
    Target,
    list_parents,
)
from authorizerd.management.zookeeper.znode import write_acls
from tests.support.acls import acl
from tests.support.jute import Op
from tests.support.scripted_zookeeper import Fate, ScriptedZooKeeper, running_zookeeper
from tests.support.znode_tree import Node
from tests.support.zookeeper_clusters import (
    ACCEPTS_OPEN,
    EVENTS,
    add,
    new_largest_pattern,
    read,
    session_of,
    store,
    stored,
)

TOPIC, OTHER = acl(topic="t"), acl("User:b", "WRITE", topic="t")
PREFIXED = acl(topic="p", pattern="PREFIXED")
PREFIXED_DENY = acl(topic="p", pattern="PREFIXED", deny=True)
PATH = "/kafka-acl/Topic/t"
EXTENDED_EVENTS = "/kafka-acl-extended-changes"
KRAFT = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}'


def test_acls_that_brokers_have_stored_are_read(cluster: ScriptedZooKeeper) -> None:
    assert read(cluster) == set()
    store(cluster, TOPIC, OTHER)
    store(cluster, PREFIXED)
    cluster.put("/kafka-acl/Group/empty")
    cluster.put(f"{EVENTS}/acl_changes_0000000000", b"TOPIC:t")
    assert read(cluster) == {TOPIC, OTHER, PREFIXED}


@pytest.mark.parametrize(("path", "data", "reason"), [
    (PATH, b"{", f"{PATH}: expected the JSON of ACLs"),
    (PATH, b'{"version":2,"acls":[]}', f"{PATH}: unknown version 2"),
    ("/kafka-acl/Queue/q", b"", "/kafka-acl/Queue/q: unknown resource type 'Queue'"),
    ("/kafka-acl-extended/suffixed", b"", "/kafka-acl-extended/suffixed: unknown pattern"),
])  # fmt: skip
def test_malformed_znode_is_named(
    cluster: ScriptedZooKeeper, path: str, data: bytes, reason: str
) -> None:
    cluster.put(path, data)
    with pytest.raises(ZooKeeperError) as caught:
        read(cluster)
    assert f"zookeeper://{cluster.address}: {reason}" in str(caught.value)


def test_chroot_without_acls_is_not_taken_for_a_cluster() -> None:
    with running_zookeeper() as server:
        with pytest.raises(ZooKeeperError, match="there is no /kafka-acl: no broker"):
            read(server)
        for write in (False, True):
            address = parse_address(f"{server.address}/nowhere")
            with (
                pytest.raises(ZooKeeperError, match="this chroot does not exist"),
                open_session(address, ZooKeeperSettings(), None) as session,
            ):
                AclWriter(session, ACCEPTS_OPEN).find_missing([]) if write else read_all(session)


def test_acls_are_added_to_those_that_are_there(cluster: ScriptedZooKeeper) -> None:
    store(cluster, OTHER)
    with session_of(cluster) as session:
        writer = AclWriter(session, ACCEPTS_OPEN)
        missing = writer.find_missing([TOPIC, OTHER, PREFIXED])
        assert (set(missing.new), missing.present) == ({TOPIC, PREFIXED}, 1)
        assert writer.add_all(missing.new) == Added(count=2, patterns=2)
    assert read(cluster) == {TOPIC, OTHER, PREFIXED}
    assert cluster.tree.nodes[PATH].version == 1
    assert cluster.data(EVENTS) == {"acl_changes_0000000000": b"TOPIC:t"}
    ((name, event),) = cluster.data(EXTENDED_EVENTS).items()
    assert name == "acl_changes_0000000000"
    assert json.loads(event) == {
        "version": 1, "resourceType": "TOPIC", "name": "p", "patternType": "PREFIXED",
    }  # fmt: skip


def test_second_run_changes_nothing(cluster: ScriptedZooKeeper) -> None:
    acls = [TOPIC, OTHER, PREFIXED]
    add(cluster, acls)
    before = {path: (node.data, node.version) for path, node in cluster.tree.nodes.items()}
    # Nothing is created, so nobody has to accept anything.
    assert add(cluster, acls, WriteOptions()) == Added(count=0, patterns=0)
    after = {path: (node.data, node.version) for path, node in cluster.tree.nodes.items()}
    assert before == after


def test_denials_are_written_before_the_first_grant(cluster: ScriptedZooKeeper) -> None:
    grants = [TOPIC, acl(group="g"), acl(topic="p", pattern="PREFIXED")]
    denials = [PREFIXED_DENY, acl("User:z", group="z", deny=True)]
    seen: list[set[Acl]] = []
    for path in (PATH, "/kafka-acl/Group/g", "/kafka-acl-extended/prefixed/Topic/p"):
        cluster.on(Op.CREATE, path, lambda: seen.append(stored(cluster)))
    add(cluster, [*grants, *denials])
    assert read(cluster) == {*grants, *denials}
    first_grant = next(acls for acls in seen if len(acls) >= len(denials))
    assert set(denials) <= first_grant
    assert all(not set(grants) & acls or set(denials) <= acls for acls in seen)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("fate", [Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.GO_ON])
@pytest.mark.parametrize("sessions_end", [False, True])
def test_lost_connection_leaves_each_change_with_one_event(
    cluster: ScriptedZooKeeper, fate: Fate, is_new: bool, sessions_end: bool
) -> None:
    if not is_new:
        store(cluster, OTHER)
    cluster.sessions_end = sessions_end
    cluster.on(Op.CREATE if is_new else Op.SET_DATA, PATH, fate)
    assert add(cluster, [TOPIC]) == Added(count=1, patterns=1)
    assert read(cluster) == ({TOPIC} if is_new else {TOPIC, OTHER})
    assert list(cluster.data(EVENTS).values()) == [b"TOPIC:t"]


def interfere(server: ScriptedZooKeeper, how: str) -> Callable[[], None]:
    """Return what another writer does between our reading and our writing."""
    return {
        "adds": lambda: store(server, OTHER),
        "removes": lambda: server.remove(PATH),
        "elects a controller": lambda: server.put("/controller_epoch", b"6"),
    }[how]


@pytest.mark.parametrize(("before", "op", "how", "after"), [
    ([], Op.CREATE, "adds", {TOPIC, OTHER}),
    ([acl("User:z", topic="t")], Op.SET_DATA, "adds", {TOPIC, OTHER}),
    ([OTHER], Op.SET_DATA, "removes", {TOPIC}),
    ([OTHER], Op.SET_DATA, "elects a controller", {TOPIC, OTHER}),
])  # fmt: skip
def test_change_of_another_writer_is_never_overwritten(
    cluster: ScriptedZooKeeper, before: list[Acl], op: Op, how: str, after: set[Acl]
) -> None:
    if before:
        store(cluster, *before)
    cluster.on(op, PATH, interfere(cluster, how))
    assert add(cluster, [TOPIC]) == Added(count=1, patterns=1)
    assert read(cluster) == after
    assert list(cluster.data(EVENTS).values()) == [b"TOPIC:t"]


def test_endless_races_are_given_up(
    cluster: ScriptedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("authorizerd.cli.zookeeper.writing.BACKOFF_SECONDS", 0)
    store(cluster, OTHER)
    for number in range(ATTEMPTS_MAX):
        other = acl(f"User:{number}", topic="t")
        cluster.on(Op.SET_DATA, PATH, partial(store, cluster, OTHER, other))
    added = add(cluster, [TOPIC])
    assert added.count == 0
    assert (
        f"{PATH}: other writers came in between, or the connection broke, 10 times" in added.failure
    )
    assert "0 of 1 ACLs were definitely written" in added.failure
    assert not cluster.data(EVENTS)
    assert add(cluster, [TOPIC]) == Added(count=1, patterns=1)


def test_lost_session_says_what_was_written_and_can_be_repeated(cluster: ScriptedZooKeeper) -> None:
    acls = [acl(topic=f"t{number}") for number in range(3)]
    cluster.on(Op.CREATE, "/kafka-acl/Topic/t1", cluster.close)
    with session_of(cluster, timeout_ms=3_000) as session:
        writer = AclWriter(session, ACCEPTS_OPEN)
        added = writer.add_all(writer.find_missing(acls).new)
    assert added.count == 1
    assert "no answer within 3 s" in added.failure
    assert "1 of 3 ACLs were definitely written, each with its change event" in added.failure
    with running_zookeeper() as again:
        again.tree = cluster.tree
        assert add(again, acls).failure == ""
        assert read(again) == set(acls)
        assert sorted(again.data(EVENTS).values()) == [b"TOPIC:t0", b"TOPIC:t1", b"TOPIC:t2"]


@pytest.mark.parametrize(("path", "data"), [
    ("/controller", KRAFT),
    ("/migration", b'{"version":0,"kraft_controller_id":3000}'),
    ("/migration", b"?"),
])  # fmt: skip
def test_export_is_refused_while_a_kraft_controller_owns_the_cluster(
    cluster: ScriptedZooKeeper, path: str, data: bytes
) -> None:
    cluster.put(path, data)
    with pytest.raises(ZooKeeperError, match="a KRaft controller owns this cluster's metadata"):
        add(cluster, [TOPIC])
    assert read(cluster) == set()
    warnings: list[str] = []
    with session_of(cluster) as session:
        warn_of_owner(session, warnings.append)
    assert len(warnings) == 1
    assert "may lack its newest ACLs" in warnings[0]


@pytest.mark.parametrize("has_epoch", [True, False])
def test_kraft_controller_that_takes_over_stops_the_export(
    cluster: ScriptedZooKeeper, has_epoch: bool
) -> None:
    def take_over() -> None:
        cluster.put("/controller_epoch", b"6")
        cluster.put("/controller", KRAFT)

    if not has_epoch:
        cluster.remove("/controller_epoch")
    acls = [acl(topic=f"t{number}") for number in range(3)]
    # Without an epoch, a takeover is noticed before the next pattern.
    cluster.on(Op.CREATE, "/kafka-acl/Topic/t1", take_over)
    added = add(cluster, acls)
    assert "a KRaft controller owns this cluster's metadata" in added.failure
    assert added.count == (1 if has_epoch else 2)
    assert len(read(cluster)) == len(cluster.data(EVENTS)) == added.count


@pytest.mark.parametrize(("lost", "missing", "oldest"), [
    (PREFIXED_DENY, "/kafka-acl-extended/prefixed/Topic", "2.0"),
    (acl(user="User:a", operation="DESCRIBE_TOKENS"), "/kafka-acl/User", "3.3"),
    (acl(transactional_id="x", deny=True), "/kafka-acl/TransactionalId", "0.11"),
])  # fmt: skip
def test_types_that_no_broker_knows_must_be_stated(lost: Acl, missing: str, oldest: str) -> None:
    before = {"2.0": "1.1", "3.3": "3.2", "0.11": "0.10"}[oldest]
    with running_zookeeper() as server:
        for path in list_parents(BrokerVersion.parse(before)):
            server.put(path)
        add(server, [TOPIC])
        with pytest.raises(ZooKeeperError, match=f"there is no {missing}, .* --zk-oldest-broker"):
            add(server, [TOPIC, lost])
        with session_of(server) as session:
            stated = WriteOptions(BrokerVersion.parse(before), accepts_open=True)
            losses = AclWriter(session, stated).find_missing([TOPIC, lost]).losses
            assert [each.acl for each in losses] == [lost]
        stated = WriteOptions(BrokerVersion.parse(oldest), accepts_open=True)
        assert add(server, [lost], stated) == Added(count=1, patterns=1)
        assert set(list_parents(stated.target.oldest)) <= set(server.tree.nodes)


def test_pattern_that_grows_beyond_the_buffer_is_a_loss(cluster: ScriptedZooKeeper) -> None:
    store(cluster, *(acl(f"User:{number:04}", topic="t") for number in range(100)))
    options = WriteOptions(request_bytes_max=16 * 1024, accepts_open=True)
    more = [acl(f"User:more-{number:04}", topic="t") for number in range(50)]
    with session_of(cluster) as session:
        missing = AclWriter(session, options).find_missing([*more, PREFIXED])
    assert missing.new == (PREFIXED,)
    assert [each.acl for each in missing.losses] == more
    assert "the 150 ACLs of /kafka-acl/Topic/t need a request of" in missing.losses[0].reason


def test_largest_pattern_that_is_no_loss_fits_into_a_request(cluster: ScriptedZooKeeper) -> None:
    """The scripted server closes the connection of a longer request, as a real one does."""
    largest = new_largest_pattern()
    assert len(write_acls(largest)) > JUTE_MAX_BUFFER - 2 * REQUEST_OVERHEAD
    add(cluster, largest)
    assert read(cluster) == set(largest)
    with session_of(cluster) as session:
        more = [*largest, acl("User:one more", topic="big")]
        missing = AclWriter(session, ACCEPTS_OPEN).find_missing(more)
    assert missing.new == ()
    assert [each.acl for each in missing.losses] == more[-1:]


EVENT = f"{EVENTS}/acl_changes_0000000000"
PARENTS = ("/kafka-acl/Topic", EVENTS)
OWNED = ((31, "sasl", "kafka"), (1, "world", "anyone"))


def test_open_znodes_are_made_only_if_the_user_accepts_them(cluster: ScriptedZooKeeper) -> None:
    with pytest.raises(ZooKeeperError, match=r"everyone could change .* --zk-open-acls"):
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


@pytest.mark.parametrize(("parent", "is_authenticated", "accepts_open", "expected"), [
    (OPEN, False, False, OpenZnodeError),
    (OPEN, False, True, OPEN),
    (OPEN, True, False, CREATOR_ALL_WORLD_READ),
    (OPEN, True, True, OPEN),
    ((Permission(ALL, "ip", "0.0.0.0/0"),), False, False, OpenZnodeError),
    ((Permission(READ, "world", "anyone"),), False, True, (Permission(1, "world", "anyone"),)),
    ((Permission(ALL, "ip", "10.0.0.0/8"),), False, False, (Permission(ALL, "ip", "10.0.0.0/8"),)),
    ((Permission(4, "world", "anyone"),), True, False, CREATOR_ALL_WORLD_READ),
    ((), False, False, OpenZnodeError),
    ((Permission(ALL, "digest", "kafka:x"),), True, False, HiddenOwnerError),
])  # fmt: skip
def test_new_znode_is_never_open_unasked(
    parent: tuple[Permission, ...], is_authenticated: bool, accepts_open: bool,
    expected: tuple[Permission, ...] | type[Exception],
) -> None:  # fmt: skip
    if isinstance(expected, tuple):
        found = choose_permissions(
            parent, is_authenticated=is_authenticated, accepts_open=accepts_open
        )
        assert found == expected
        return
    with pytest.raises(expected):
        choose_permissions(parent, is_authenticated=is_authenticated, accepts_open=accepts_open)
