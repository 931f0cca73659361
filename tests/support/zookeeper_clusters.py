"""Kafka clusters in a scripted ZooKeeper, and ACLs that are read from them and added to them."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from authorizerd.acl.model import Acl
from authorizerd.cli.zookeeper.options import WriteOptions
from authorizerd.cli.zookeeper.reading import read_all
from authorizerd.cli.zookeeper.session import Session, open_session
from authorizerd.cli.zookeeper.settings import (
    SESSION_TIMEOUT_MS,
    Login,
    ZooKeeperSettings,
    parse_address,
)
from authorizerd.cli.zookeeper.writing import AclWriter, Added
from authorizerd.management.zookeeper.export import Target, list_parents, plan_export
from authorizerd.management.zookeeper.paths import Pattern, parse_path, pattern_path
from authorizerd.management.zookeeper.znode import read_acls, write_acls
from tests.support.acls import acl
from tests.support.scripted_zookeeper import ScriptedZooKeeper, running_zookeeper

ACCEPTS_OPEN = WriteOptions(accepts_open=True)
EVENTS = "/kafka-acl-changes"
BROKER = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'


@contextmanager
def running_cluster() -> Iterator[ScriptedZooKeeper]:
    """Run a ZooKeeper with the znodes that brokers of 3.9 create, without authentication."""
    with running_zookeeper() as server:
        for path in list_parents(Target().oldest):
            server.put(path)
        server.put("/controller_epoch", b"5")
        server.put("/controller", BROKER)
        yield server


@contextmanager
def session_of(
    server: ScriptedZooKeeper, digest: Login | None = None, timeout_ms: int = SESSION_TIMEOUT_MS
) -> Iterator[Session]:
    settings = ZooKeeperSettings(connection_timeout_ms=timeout_ms, digest=digest)
    with open_session(parse_address(server.address), settings, None) as session:
        yield session


def store(server: ScriptedZooKeeper, *acls: Acl) -> None:
    """Write the ACLs of one pattern as another client would."""
    server.put(pattern_path(Pattern.of(acls[0])), write_acls(acls))


def read(server: ScriptedZooKeeper) -> set[Acl]:
    with session_of(server) as session:
        acls = read_all(session)
    assert len(acls) == len(set(acls))
    return set(acls)


def add(
    server: ScriptedZooKeeper,
    acls: Iterable[Acl],
    options: WriteOptions = ACCEPTS_OPEN,
    digest: Login | None = None,
) -> Added:
    """Add ACLs that the server does not have, without losses."""
    with session_of(server, digest) as session:
        writer = AclWriter(session, options)
        missing = writer.find_missing(acls)
        assert missing.losses == ()
        return writer.add_all(missing.new)


def stored(server: ScriptedZooKeeper) -> set[Acl]:
    """Return the ACLs in the tree, without a request."""
    return {
        acl
        for path, node in server.tree.nodes.items()
        if (pattern := parse_path(path)) is not None
        for acl in read_acls(pattern, node.data)
    }


def new_largest_pattern() -> list[Acl]:
    """Return as many ACLs of one pattern as an export writes; with one more, all are losses."""
    crowd = [acl(f"User:{number:05}", topic="big") for number in range(14_000)]
    first_lost = bisect_left(
        range(len(crowd)), True, key=lambda size: bool(plan_export(crowd[:size], Target()).losses)
    )
    assert first_lost < len(crowd)
    return crowd[: first_lost - 1]
