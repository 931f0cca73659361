"""IP addresses as Java prints them, since ACLs match hosts by that text.

Source: java.net.InetAddress.getHostAddress: IPv4 in decimal; IPv6 as eight groups without leading
zeros, never compressed; an IPv4-mapped IPv6 address is printed as IPv4. A link-local address may
have a zone: the network interface through which the peer is reached.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from struct import unpack

HOSTS_CACHED = 4096
TEXT_CHARACTERS_MAX = 128
"""Longer than any address with a zone. The limit keeps other texts out of the cache."""

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")
_GROUPS = ":".join(["%x"] * 8)
_ZONE = re.compile(r"[!-$&-.0-~]+")
"""A network interface's name or number: visible ASCII without a slash or a second percent sign."""


def host_address(text: str) -> str | None:
    """Return the address in ``text`` as Kafka compares it, or None if it is not an IP address.

    A link-local address keeps its zone (``fe80::1%eth0``). A zone on any other address makes the
    text invalid: hosts match as text, so ``2001:db8::9%x`` would evade a DENY of ``2001:db8::9``.
    """
    return _host_address(text) if len(text) <= TEXT_CHARACTERS_MAX else None


@lru_cache(maxsize=HOSTS_CACHED)
def _host_address(text: str) -> str | None:
    # Java prints every valid IPv4 address as it is written. Why not IPv4Address? It takes eight
    # times as long, which counts when there are more hosts than the cache holds.
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
    # Why not `address.exploded`? Removing its leading zeros takes three times as long.
    return _GROUPS % unpack(">8H", address.packed) + percent + zone
