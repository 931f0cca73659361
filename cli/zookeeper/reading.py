"""Read all ACLs of a cluster from ZooKeeper.

**Invariant:** every znode below Kafka's roots is read, or the reading fails with its path. The ACLs
of one pattern are consistent; ZooKeeper has no snapshot of all patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.session import Session, Znode
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper import paths
from authorizerd.management.zookeeper.ownership import CONTROLLER, MIGRATION, find_kraft_owner
from authorizerd.management.zookeeper.znode import read_acls

ACLS_MAX: Final = 2_000_000
"""The maximum number of ACLs to read, which bounds the memory."""


def check_chroot(session: Session) -> None:
    if session.list_children("/") is None:
        raise ZooKeeperError(
            f"{session.name}: this chroot does not exist: compare the path after the addresses "
            "with the brokers' zookeeper.connect"
        )


def read_all(session: Session) -> tuple[Acl, ...]:
    """Return all ACLs, in the order of their paths."""
    check_chroot(session)
    if session.list_children(paths.LITERAL_ROOT) is None:
        raise ZooKeeperError(
            f"{session.name}: there is no {paths.LITERAL_ROOT}: no broker with AclAuthorizer has "
            "used this chroot; compare it with the brokers' zookeeper.connect"
        )
    patterns = list(list_patterns(session))
    acls: list[Acl] = []
    for _, found in read_patterns(session, patterns):
        acls += found
        if len(acls) > ACLS_MAX:
            raise ZooKeeperError(f"{session.name}: expected at most {ACLS_MAX} ACLs, found more")
    return tuple(acls)


def list_patterns(session: Session) -> Iterator[paths.Pattern]:
    for name in session.list_children(paths.EXTENDED_ROOT) or ():
        _parse_path(session, f"{paths.EXTENDED_ROOT}/{name}")
    for root in paths.PATTERN_ROOTS.values():
        for kind in session.list_children(root) or ():
            for name in session.list_children(f"{root}/{kind}") or ():
                path = f"{root}/{kind}/{name}"
                pattern = _parse_path(session, path)
                assert pattern is not None, "the path has a name"
                yield pattern


def read_patterns(
    session: Session, patterns: list[paths.Pattern]
) -> Iterator[tuple[Znode | None, tuple[Acl, ...]]]:
    """Yield each pattern's znode, or None if it does not exist, and its ACLs."""
    znodes = session.get_many(map(paths.pattern_path, patterns))
    for pattern, znode in zip(patterns, znodes, strict=True):
        yield znode, _read_acls(session, pattern, znode)


def find_owner(session: Session) -> str | None:
    """Return a sentence about the KRaft controller that owns the cluster's metadata, or None."""
    migration, controller = session.get_many((MIGRATION, CONTROLLER))
    return find_kraft_owner(
        None if migration is None else migration.data,
        None if controller is None else controller.data,
    )


def warn_of_owner(session: Session, warn: Callable[[str], None]) -> None:
    """Warn if a KRaft controller owns the metadata: then ZooKeeper may lack the newest ACLs."""
    owner = find_owner(session)
    if owner is not None:
        warn(
            f"{session.name}: a KRaft controller owns this cluster's metadata, and ZooKeeper may "
            f"lack its newest ACLs: {owner}. Prefer kafka://HOST:PORT"
        )


def _parse_path(session: Session, path: str) -> paths.Pattern | None:
    try:
        return paths.parse_path(path)
    except AclTextError as error:
        raise _new_error(session, error) from None


def _read_acls(session: Session, pattern: paths.Pattern, znode: Znode | None) -> tuple[Acl, ...]:
    try:
        return read_acls(pattern, None if znode is None else znode.data)
    except AclTextError as error:
        raise _new_error(session, error) from None


def _new_error(session: Session, error: AclTextError) -> ZooKeeperError:
    return ZooKeeperError(escape_unprintable(f"{session.name}: {error.place}: {error.reason}"))
