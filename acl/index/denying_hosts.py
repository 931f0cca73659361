"""The addresses and ranges that one principal's DENY rules name, by pattern and operation.

Each of these rules applies to a question with an unknown host, and the explanation names one.
Without an index, the search would take time in proportion to the number of hosts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeAlias

from immutables import Map

from authorizerd.acl.model import Acl

Place: TypeAlias = tuple[int, str, int, bool]
"""A pattern's type and name, an operation, and whether the hosts are ranges of addresses."""
Hosts: TypeAlias = Map[int, str]
"""Hosts by their digests.

Why digests? The explanation names the first host of the map. Python hashes a text differently in
each process, but a number always the same way. With numbers as keys, all processes therefore name
the same host, whatever the order of insertion.
"""
DenyingHosts: TypeAlias = Map[Place, Hosts]

NO_HOSTS: Final[Hosts] = Map()
NO_DENYING_HOSTS: Final[DenyingHosts] = Map()

# If two hosts had the same digest, one would replace the other. So digests are long enough that
# nobody can find such a pair.
_DIGEST_BYTES: Final = 16


def add_host(index: DenyingHosts, acl: Acl) -> DenyingHosts:
    """Return ``index`` with the host of ``acl``, a DENY for one host that bits can identify."""
    key = _make_key(acl)
    return index.set(key, index.get(key, NO_HOSTS).set(_digest(acl.host), acl.host))


def remove_host(index: DenyingHosts, acl: Acl) -> DenyingHosts:
    """Return ``index`` without the host of ``acl``, which it contains."""
    key = _make_key(acl)
    hosts = index[key].delete(_digest(acl.host))
    return index.set(key, hosts) if hosts else index.delete(key)


def _make_key(acl: Acl) -> Place:
    return acl.pattern_type, acl.resource_name, acl.operation, "/" in acl.host


def _digest(host: str) -> int:
    encoded = host.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(encoded, digest_size=_DIGEST_BYTES).digest())
