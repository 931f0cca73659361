"""Addresses of ZooKeeper ensembles, as ``zookeeper.connect`` has them.

zk1:2181,zk2:2181,[::1]:2181/chroot/path
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from authorizerd.acl.zookeeper.paths import why_not_a_znode
from authorizerd.cli.zookeeper.errors import ZooKeeperError

PORT_DEFAULT: Final = 2181
SERVERS_MAX: Final = 100
_SERVER: Final = re.compile(
    r"(?P<host>[0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?"
)


class Ensemble(NamedTuple):
    """The servers, and the path of the cluster's znodes: ``/chroot/path``, or empty."""

    servers: tuple[str, ...]
    chroot: str

    def __str__(self) -> str:
        """Return the text that Kafka and kazoo accept."""
        return f"{','.join(self.servers)}{self.chroot}"


def parse_address(text: str) -> Ensemble:
    """Return the servers and the chroot of an address."""
    listed, slash, path = text.partition("/")
    servers = tuple(_parse_server(each.strip()) for each in listed.split(","))
    if len(servers) > SERVERS_MAX:
        raise ZooKeeperError(f"expected at most {SERVERS_MAX} servers, found {len(servers)}")
    chroot = ""
    if slash and path:
        for name in path.removesuffix("/").split("/"):
            if reason := why_not_a_znode(name):
                raise ZooKeeperError(f"zookeeper://{text}: invalid chroot /{path}: {reason}")
            chroot += f"/{name}"
    return Ensemble(servers, chroot)


def _parse_server(text: str) -> str:
    match = _SERVER.fullmatch(text)
    if match is None or not 0 < int(match["port"] or PORT_DEFAULT) < 65536:
        # Not the text as a whole: users who put a password before the host would see it in logs.
        shown = text.rpartition("@")[2]
        raise ZooKeeperError(
            f"expected zookeeper://HOST:PORT,HOST:PORT/chroot, found the server {shown!r}; log-in "
            "and TLS are in the file of --command-config"
        )
    return f"{match['host']}:{match['port'] or PORT_DEFAULT}"
