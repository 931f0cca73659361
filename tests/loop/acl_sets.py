"""Sets of ACLs whose shapes make scans and lookups long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Final

from authorizerd.acl.model import Acl
from tests.support.acls import acl

ACLS: Final = 100_000
BLOCKED_HOSTS: Final = 2_000
PREFIX_LENGTHS: Final = 200


def literals_of_one_principal(count: int) -> Iterator[Acl]:
    """Yield literal ACLs of one principal, each on another topic."""
    for number in range(count):
        yield acl("User:alice", topic=f"topic-{number}")


def prefixes(count: int) -> Iterator[Acl]:
    """Yield prefixed ACLs; many of them cover one another."""
    for number in range(count):
        name = f"{number // PREFIX_LENGTHS}-" + "x" * (number % PREFIX_LENGTHS)
        yield acl(f"User:u{number % 7}", topic=name, pattern="PREFIXED")


def denied_hosts(count: int) -> Iterator[Acl]:
    """Yield DENY rules for 2,000 hosts on each topic, and one that allows every topic."""
    for number in range(count - 1):
        topic, host = divmod(number, BLOCKED_HOSTS)
        address = f"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}"
        yield acl("User:*", topic=f"topic-{topic}", host=address, deny=True)
    yield acl("User:*", topic="*")


def one_topic(count: int) -> Iterator[Acl]:
    """Yield ACLs of different principals on one topic."""
    for number in range(count):
        yield acl(f"User:u{number}", topic="orders")


def networks(count: int) -> Iterator[Acl]:
    """Yield ACLs for all networks of two addresses, each with up to 27 texts and 4 operations."""
    lengths = [(host, n) for host, most in (("10.0.0.1", 33), ("::1", 129)) for n in range(most)]
    kinds = product(("User:alice", "User:*"), ("READ", "ALL", "WRITE", "ALTER"))
    texts = product(range(1, 4), repeat=3)
    for widths, kind, (host, length) in islice(product(texts, kinds, lengths), count):
        if host == "::1":
            address = ":".join("0".zfill(width) for width in widths) + "::1"
        else:
            address = "10." + ".".join(map(str.zfill, ("0", "0", "1"), widths))
        yield acl(*kind, topic="*", host=f"{address}/{length}")


ACL_SETS: Final[dict[str, Callable[[int], Iterator[Acl]]]] = {
    "none": lambda count: iter(()),
    "literals": literals_of_one_principal,
    "prefixes": prefixes,
    "denied hosts": denied_hosts,
    "one topic": one_topic,
    "networks": networks,
}
