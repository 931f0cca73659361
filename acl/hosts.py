"""IP addresses as Java prints them, and what the host of an ACL can match.

An ACL matches a host by its text, or as a range of addresses (``acl.host_ranges``).

Source: java.net.InetAddress.getHostAddress: IPv4 in decimal; IPv6 as eight groups without leading
zeros, never compressed; an IPv4-mapped IPv6 address is printed as IPv4. A link-local address may
have a zone: the network interface through which the peer is reached.
"""

from __future__ import annotations

import re
from enum import Enum
from ipaddress import AddressValueError, IPv6Address
from struct import unpack
from typing import Final

from authorizerd.acl.host_ranges import find_range, mark_address
from authorizerd.acl.model import WILDCARD
from authorizerd.acl.releases import ReleaseRules

HOSTS_CACHED = 4096
TEXT_CHARACTERS_MAX = 128
"""Longer than any address with a zone. The limit keeps other texts out of the cache."""

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")
_GROUPS = ":".join(["%x"] * 8)
_ZONE = re.compile(r"[!-$&-.0-~]+")
"""A network interface's name or number: visible ASCII without a slash or a second percent sign."""


class _Addresses(dict[str, "str | None"]):
    """The texts that were read, and their addresses; emptied once it has HOSTS_CACHED texts.

    A cached text takes a third of the time that a function with an ``lru_cache`` takes for it.
    """

    def __missing__(self, text: str) -> str | None:
        if len(text) > TEXT_CHARACTERS_MAX:
            return None
        if len(self) >= HOSTS_CACHED:
            self.clear()
        address = self[text] = _read_address(text)
        return address


_ADDRESSES: Final = _Addresses()
host_address: Final = _ADDRESSES.__getitem__
"""Return the address in a text as Kafka compares it, or None if it is not an IP address.

A link-local address keeps its zone (``fe80::1%eth0``). A zone on any other address makes the text
invalid: hosts match as text, so ``2001:db8::9%x`` would evade a DENY of ``2001:db8::9``.
"""


def _read_address(text: str) -> str | None:
    # Java prints every valid IPv4 address as it is written. IPv4Address would take eight times as
    # long, which matters when there are more hosts than the cache holds.
    if ":" not in text:
        return text if _IPV4.fullmatch(text) else None
    address_text, percent, zone = text.partition("%")
    try:
        address = IPv6Address(address_text)
    except AddressValueError:
        return None
    if percent and not (address.is_link_local and _ZONE.fullmatch(zone)):
        return None
    mapped = address.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    # Removing the leading zeros of `address.exploded` would take three times as long.
    return _GROUPS % unpack(">8H", address.packed) + percent + zone


class HostKind(Enum):
    """The kinds of hosts in an ACL, by how many addresses they match."""

    EVERY = "every host"
    ADDRESS = "one address"
    RANGE = "a range of addresses"
    NOTHING = "no host"
    """Neither an address in Kafka's form nor a range that Kafka can read."""


def get_kind(host: str) -> HostKind:
    """Return what the host of an ACL can match. Releases differ in whether a range matches."""
    if host == WILDCARD:
        return HostKind.EVERY
    # An address has no slash, so the order does not matter.
    addresses = find_range(host)
    if addresses is not None:
        return HostKind.NOTHING if addresses.is_empty else HostKind.RANGE
    return HostKind.ADDRESS if host_address(host) == host else HostKind.NOTHING


def never_matches(host: str, rules: ReleaseRules) -> bool:
    """Return True if no possible release matches any address with this host of an ACL."""
    kind = get_kind(host)
    return kind is HostKind.NOTHING or (kind is HostKind.RANGE and not rules.range_denies)


def is_certain(acl_host: str) -> bool:
    """Return False if only a broker knows whether the host of an ACL matches an address.

    Such an ACL may deny, and never allows.
    """
    addresses = find_range(acl_host)
    return addresses is None or addresses.is_certain


def applies_to(acl_host: str, host: str | None, rules: ReleaseRules, *, allows: bool) -> bool:
    """Return True if an ACL applies to a host, which may be unknown.

    Args:
        allows: whether ``acl.snapshot.is_grant`` holds for the ACL.
    """
    if acl_host in (WILDCARD, host):
        return True
    if host is None:
        return not allows and not never_matches(acl_host, rules)
    counts = rules.range_allows and is_certain(acl_host) if allows else rules.range_denies
    return counts and matches_host(acl_host, host)


def matches_host(acl_host: str, host: str) -> bool:
    """Return True if the host of an ACL may match an address, ranges included."""
    if acl_host in (WILDCARD, host):
        return True
    addresses = find_range(acl_host)
    if addresses is None:
        return False
    marked = mark_address(host)
    return marked is not None and addresses.contains(marked)
