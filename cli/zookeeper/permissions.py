"""Permissions of znodes (ZooKeeper's ACLs): which ones new znodes get.

**Invariant:** a new znode is writable by everybody only if the user has accepted that in so many
words. It is never more open than its parent, unless ZooKeeper's login of the user owns it.

Source: ZooKeeper 3.8 ZooDefs; Kafka 3.9 ZkData.defaultAcls (``zookeeper.set.acl``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

READ: Final = 1
ALL: Final = 31

_HIDDEN: Final = ":x"
"""What ZooKeeper shows for the hash of a password to users who may not change the permissions."""


class Permission(NamedTuple):
    """The rights of a user to a znode: bits, and the user's scheme and id."""

    bits: int
    scheme: str
    id: str


OPEN: Final = (Permission(ALL, "world", "anyone"),)
"""What Kafka gives all its znodes with zookeeper.set.acl=false, its default."""
CREATOR_ALL_WORLD_READ: Final = (Permission(ALL, "auth", ""), Permission(READ, "world", "anyone"))
"""What Kafka gives the znodes of ACLs with zookeeper.set.acl=true: everybody may read them."""


class OpenZnodeError(Exception):
    """A new znode would be writable by everybody, and the user has not accepted that."""


class HiddenOwnerError(Exception):
    """ZooKeeper does not show who owns the parent, so that a new znode cannot get that owner."""


def is_open(permissions: Iterable[Permission]) -> bool:
    """Return True if everybody who can connect may do more than read."""
    return any(
        each.bits & ~READ
        and (each.scheme == "world" or (each.scheme == "ip" and each.id.endswith("/0")))
        for each in permissions
    )


def choose_permissions(
    parent: tuple[Permission, ...], *, is_authenticated: bool, accepts_open: bool
) -> tuple[Permission, ...]:
    """Return the permissions of a new znode.

    A parent that is not open passes on its own: then the brokers that own the parent also own the
    new znode.

    Args:
        parent: the permissions of its parent; never empty.
        is_authenticated: True if ZooKeeper knows the user.
        accepts_open: True if the user accepts znodes that everybody may change.

    Raises:
        OpenZnodeError: there is no owner.
        HiddenOwnerError: the parent's owner is hidden.
    """
    if parent and not is_open(parent):
        if any(each.scheme == "digest" and each.id.endswith(_HIDDEN) for each in parent):
            raise HiddenOwnerError
        return parent
    if accepts_open:
        return OPEN
    if is_authenticated:
        return CREATOR_ALL_WORLD_READ
    raise OpenZnodeError
