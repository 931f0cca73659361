"""Sets of ACLs in the shapes that make scans and lookups longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType

ACLS: Final = 100_000
BLOCKED_HOSTS: Final = 2_000
PREFIX_LENGTHS: Final = 200


def _acl(
    name: str,
    principal: str,
    *,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
    permission: PermissionType = PermissionType.ALLOW,
) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern_type, principal, host, Operation.READ, permission)


def literals_of_one_principal(count: int) -> Iterator[Acl]:
    """Yield literal ACLs of one principal, each on a topic of its own."""
    for number in range(count):
        yield _acl(f"topic-{number}", "User:alice")


def prefixes(count: int) -> Iterator[Acl]:
    """Yield prefixed ACLs; many of them cover one another."""
    for number in range(count):
        name = f"{number // PREFIX_LENGTHS}-" + "x" * (number % PREFIX_LENGTHS)
        yield _acl(name, f"User:u{number % 7}", pattern_type=PatternType.PREFIXED)


def denied_hosts(count: int) -> Iterator[Acl]:
    """Yield denials of 2,000 addresses to everyone, on each of as many topics as there is room for.

    One more rule allows everyone to read every topic.
    """
    for number in range(count - 1):
        topic, host = divmod(number, BLOCKED_HOSTS)
        address = f"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}"
        yield _acl(f"topic-{topic}", "User:*", host=address, permission=PermissionType.DENY)
    yield _acl("*", "User:*")


def one_topic(count: int) -> Iterator[Acl]:
    """Yield ACLs of as many principals, all on one topic."""
    for number in range(count):
        yield _acl("orders", f"User:u{number}")


ACL_SETS: Final[dict[str, Callable[[int], Iterator[Acl]]]] = {
    "none": lambda count: iter(()),
    "literals": literals_of_one_principal,
    "prefixes": prefixes,
    "denied hosts": denied_hosts,
    "one topic": one_topic,
}
