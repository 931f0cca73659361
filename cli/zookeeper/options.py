"""The user's options for a cluster in ZooKeeper, and the permissions of new znodes.

**Invariant:** a new znode is writable by everyone only if the user has explicitly accepted that. It
is never more open than its parent, unless the authenticated user owns it.

Source: ZooKeeper 3.8 ZooDefs; Kafka 3.9 ZkData.defaultAcls (``zookeeper.set.acl``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from authorizerd.cli.flags import add_text
from authorizerd.management.zookeeper.broker_version import NEWEST, BrokerVersion
from authorizerd.management.zookeeper.export import JUTE_MAX_BUFFER, Target

OLDEST_FLAG: Final = "--zk-oldest-broker"
OPEN_FLAG: Final = "--zk-open-acls"
BUFFER_FLAG: Final = "--zk-jute-maxbuffer"
_BUFFER_MIN: Final = 16 * 1024
_BUFFER_MAX: Final = 64 * 1024 * 1024


class WriteOptions(msgspec.Struct, frozen=True):
    """The options given by the user.

    Attributes:
        oldest: the version of the oldest broker; None if it is not stated.
        request_bytes_max: ``jute.maxbuffer`` of the servers.
        accepts_open: True if new znodes may be writable by everyone.
    """

    oldest: BrokerVersion | None = None
    request_bytes_max: int = JUTE_MAX_BUFFER
    accepts_open: bool = False

    @property
    def target(self) -> Target:
        return Target(self.oldest or NEWEST, self.request_bytes_max)

    @property
    def flags(self) -> list[str]:
        defaults = WriteOptions()
        given = {
            OLDEST_FLAG: self.oldest != defaults.oldest,
            BUFFER_FLAG: self.request_bytes_max != defaults.request_bytes_max,
            OPEN_FLAG: self.accepts_open,
        }
        return [flag for flag, is_given in given.items() if is_given]


def add_write_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("writing to zookeeper://")
    text = (
        "the Kafka version of the oldest broker: what it does not know would be lost (default: "
        f"{NEWEST}, if the znodes that brokers create at startup agree)"
    )
    add_text(group, OLDEST_FLAG, "VERSION", text, type=_parse_version)
    group.add_argument(
        OPEN_FLAG,
        action="store_true",
        help="accept that everyone who can connect may change the new znodes, like those of "
        "brokers with zookeeper.set.acl=false",
    )
    text = "jute.maxbuffer of the ZooKeeper servers: the limit of a request (default: %(default)s)"
    add_text(group, BUFFER_FLAG, "BYTES", text, type=_parse_buffer, default=JUTE_MAX_BUFFER)


def read_write_options(given: argparse.Namespace) -> WriteOptions:
    """Return the options from the flags of ``add_write_arguments``."""
    return WriteOptions(given.zk_oldest_broker, given.zk_jute_maxbuffer, given.zk_open_acls)


def _parse_version(text: str) -> BrokerVersion:
    try:
        return BrokerVersion.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse_buffer(text: str) -> int:
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    if not _BUFFER_MIN <= size <= _BUFFER_MAX:
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes from {_BUFFER_MIN} to {_BUFFER_MAX}, found {text!r}"
        )
    return size


READ: Final = 1
ALL: Final = 31

_HIDDEN: Final = ":x"
"""Shown by ZooKeeper instead of a password's hash to users who may not change the permissions."""


class Permission(NamedTuple):
    """A user's rights to a znode: permission bits, and the user's scheme and id."""

    bits: int
    scheme: str
    id: str


OPEN: Final = (Permission(ALL, "world", "anyone"),)
"""The permissions of all Kafka znodes with zookeeper.set.acl=false, the default."""
CREATOR_ALL_WORLD_READ: Final = (Permission(ALL, "auth", ""), Permission(READ, "world", "anyone"))
"""The permissions of Kafka's ACL znodes with zookeeper.set.acl=true: world-readable."""


class OpenZnodeError(Exception):
    """A new znode would be writable by everyone, and the user has not accepted that."""


class HiddenOwnerError(Exception):
    """ZooKeeper does not show the parent's owner, so a new znode cannot get the same owner."""


def is_open(permissions: Iterable[Permission]) -> bool:
    """Return True if everyone who can connect may do more than read."""
    return any(
        permission.bits & ~READ
        and (
            permission.scheme == "world"
            or (permission.scheme == "ip" and permission.id.endswith("/0"))
        )
        for permission in permissions
    )


def choose_permissions(
    parent: tuple[Permission, ...], *, is_authenticated: bool, accepts_open: bool
) -> tuple[Permission, ...]:
    """Return the permissions of a new znode.

    A parent that is not open passes on its own permissions: then the brokers that own the parent
        also own the new znode.

    Args:
        parent: the permissions of its parent; never empty.
        is_authenticated: True if ZooKeeper knows the user.
        accepts_open: True if the user accepts znodes that everyone may change.

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
