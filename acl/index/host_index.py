"""The hosts of one principal's ACLs that differ only in their host.

A question with an unknown host is denied by rules for any host, and a question with an address by
rules for each host that names a network of it. A decision names one of these ACLs. Without an
index, the search would take time in proportion to the number of hosts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeAlias

from immutables import Map

from authorizerd.acl.model import Acl

Place: TypeAlias = tuple[int, str, int, bool]
"""A pattern's type and name, an operation, and which of two kinds of ACLs it is.

In ``Rules``, all are denials, of addresses (False) or of ranges (True). In a network, they deny
(False) or allow (True).
"""
Hosts: TypeAlias = Map[int, str]
"""Hosts by their digests.

Why digests? The explanation names the first host of the map. Python hashes a text differently in
each process, but a number always the same way. With numbers as keys, all processes therefore name
the same host, whatever the order of insertion.
"""
HostIndex: TypeAlias = Map[Place, Hosts]

NO_HOSTS: Final[Hosts] = Map()
NO_HOST_INDEX: Final[HostIndex] = Map()

# If two hosts had the same digest, one would replace the other. So digests are long enough that
# nobody can find such a pair.
_DIGEST_BYTES: Final = 16


def place_denial(acl: Acl) -> Place:
    """Return where ``Rules`` index the host of a DENY."""
    return acl.pattern_type, acl.resource_name, acl.operation, "/" in acl.host


def change_hosts(index: HostIndex, place: Place, host: str, sign: int) -> HostIndex:
    """Return ``index`` with a host at ``place`` (``sign`` 1), or without it (-1)."""
    before, digest = index.get(place, NO_HOSTS), _digest(host)
    hosts = before.set(digest, host) if sign > 0 else before.delete(digest)
    return index.set(place, hosts) if hosts else index.delete(place)


def _digest(host: str) -> int:
    encoded = host.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(encoded, digest_size=_DIGEST_BYTES).digest())
