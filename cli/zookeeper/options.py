"""What users state about a cluster in ZooKeeper before ACLs are added to it."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from authorizerd.acl.zookeeper.broker_version import NEWEST, BrokerVersion
from authorizerd.acl.zookeeper.export import JUTE_MAX_BUFFER, Target

OLDEST_FLAG: Final = "--zk-oldest-broker"
OPEN_FLAG: Final = "--zk-open-acls"
BUFFER_FLAG: Final = "--zk-jute-maxbuffer"
_BUFFER_MIN: Final = 16 * 1024
_BUFFER_MAX: Final = 64 * 1024 * 1024


class WriteOptions(msgspec.Struct, frozen=True):
    """The options that the user has given.

    Attributes:
        oldest: the version of the oldest broker; None if it is not stated.
        request_bytes_max: ``jute.maxbuffer`` of the servers.
        accepts_open: True if new znodes may be writable by everybody.
    """

    oldest: BrokerVersion | None = None
    request_bytes_max: int = JUTE_MAX_BUFFER
    accepts_open: bool = False

    @property
    def target(self) -> Target:
        """The limits of the export."""
        return Target(self.oldest or NEWEST, self.request_bytes_max)

    @property
    def flags(self) -> list[str]:
        """The flags that were given."""
        defaults = WriteOptions()
        given = {
            OLDEST_FLAG: self.oldest != defaults.oldest,
            BUFFER_FLAG: self.request_bytes_max != defaults.request_bytes_max,
            OPEN_FLAG: self.accepts_open,
        }
        return [flag for flag, is_given in given.items() if is_given]


def add_write_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for writing to ZooKeeper. ``read_write_options`` reads them."""
    group = parser.add_argument_group("writing to zookeeper://")
    group.add_argument(
        OLDEST_FLAG,
        type=_parse_version,
        metavar="VERSION",
        help="the Kafka version of the oldest broker: what it does not know would be lost "
        f"(default: {NEWEST}, if the znodes that brokers create at their start agree)",
    )
    group.add_argument(
        OPEN_FLAG,
        action="store_true",
        help="accept that everybody who can connect may change the new znodes, as those of brokers "
        "with zookeeper.set.acl=false",
    )
    group.add_argument(
        BUFFER_FLAG,
        type=_parse_buffer,
        default=JUTE_MAX_BUFFER,
        metavar="BYTES",
        help="jute.maxbuffer of the ZooKeeper servers: no request may be longer "
        "(default: %(default)s)",
    )


def read_write_options(given: argparse.Namespace) -> WriteOptions:
    """Return what the flags of ``add_write_arguments`` say."""
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
