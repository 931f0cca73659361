"""Ranges of addresses in the hosts of ACLs, exactly as Kafka 4.4 reads them (KIP-1276).

A host with a slash is a range: a network in CIDR notation. Kafka reads IPv4 with a regular
expression, and IPv6 with Java's own parser of addresses. Both accept more than other programs do:
bits after the prefix, brackets around an address, and numbers with leading zeros, a sign or digits
of any script. Kafka stores a text that it cannot read, but matches nothing with it. No range
contains 0.0.0.0, and none contains addresses of the other family.

Source: Kafka 4.4 CidrUtils, SubnetUtils, SubnetUtils6; Java 17 InetAddress.getByName.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import msgspec

RANGES_CACHED: Final = 4096
ADDRESSES_CACHED: Final = 4096
RANGE_CHARACTERS_CACHED: Final = 128

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_GROUP_BITS: Final = 16
_GROUPS: Final = 8
_MAPPED: Final = 0xFFFF
"""The bits before the last 32 of an IPv4-mapped address, which Java reads as IPv4."""
_EMBEDDED_CHARACTERS_MAX: Final = 15
_EMBEDDED: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)")
_GROUP: Final = re.compile(r"[0-9A-Fa-f]{1,4}")
_ZONE: Final = re.compile(r"[A-Za-z][!-$&-.0-9;-~]{0,14}")
"""A network interface's name. Only a broker knows whether it has this interface: see
``HostRange.is_certain``."""
_LINK_LOCAL: Final = 0xFE80 >> 6
_LINK_LOCAL_SHIFT: Final = 118
_ZONE_DIGITS_MAX: Final = 100
_INTEGER_MAX: Final = 2**31 - 1
_OCTET_MAX: Final = 255
_IPV4_MARK: Final = 0b10 << _IPV4_BITS
_IPV6_MARK: Final = 0b11 << _IPV6_BITS


class InvalidRangeError(ValueError):
    """Kafka cannot read a host with a slash. The text is Kafka's."""


class HostRange(msgspec.Struct, frozen=True, gc=False):
    """A range of addresses of one family.

    Attributes:
        key: the first bits of its addresses, after a mark of the family, as ``mark_address``.
        shift: the number of bits of an address that do not count.
        is_certain: False if the text names a network interface and is not link-local. Kafka reads
            it only on brokers that have this interface, so such a range may deny, and never allows.
            Link-local clients reach a broker through such an interface, so the name is trusted.
    """

    key: int
    shift: int
    is_certain: bool = True

    @property
    def is_ipv6(self) -> bool:
        """Whether the addresses are IPv6."""
        return self.key << self.shift >= _IPV6_MARK

    @property
    def first(self) -> IPv4Address | IPv6Address:
        """The first address of the range."""
        return _address(self.key << self.shift)

    @property
    def last(self) -> IPv4Address | IPv6Address:
        """The last address of the range."""
        return _address(((self.key + 1) << self.shift) - 1)

    @property
    def is_empty(self) -> bool:
        """Whether it contains no address, since Kafka's ranges never contain 0.0.0.0."""
        return self.shift == 0 and self.key == _IPV4_MARK

    def contains(self, marked: int) -> bool:
        """Return True if an address, as ``mark_address`` returns it, is in the range."""
        return marked >> self.shift == self.key

    def includes(self, other: HostRange) -> bool:
        """Return True if every address of ``other`` is in the range."""
        return self.shift >= other.shift and other.key >> (self.shift - other.shift) == self.key


def _address(marked: int) -> IPv4Address | IPv6Address:
    if marked < _IPV6_MARK:
        return IPv4Address(marked - _IPV4_MARK)
    return IPv6Address(marked - _IPV6_MARK)


def name_range(addresses: HostRange) -> str:
    """Return a range as text, without bits that do not count: ``10.0.0.0/8``."""
    bits = _IPV6_BITS if addresses.is_ipv6 else _IPV4_BITS
    return f"{addresses.first}/{bits - addresses.shift}"


def find_range(host: str) -> HostRange | None:
    """Return the range that the host of an ACL names, or None if Kafka reads no range in it.

    Most hosts have no slash, which takes one comparison.
    """
    if "/" not in host:
        return None
    return _find_range(host) if len(host) <= RANGE_CHARACTERS_CACHED else _find_uncached(host)


def _find_uncached(host: str) -> HostRange | None:
    try:
        return read_range(host)
    except InvalidRangeError:
        return None


_find_range = lru_cache(maxsize=RANGES_CACHED)(_find_uncached)


def read_range(host: str) -> HostRange:
    """Return the range that ``host``, which has a slash, stands for.

    Raises:
        InvalidRangeError: Kafka cannot read it.
    """
    return _read_ipv6_range(host) if ":" in host else _read_ipv4_range(host)


def _read_ipv4_range(host: str) -> HostRange:
    parts = _IPV4.fullmatch(host)
    if parts is None:
        raise InvalidRangeError(f"Could not parse [{host}]")
    *octets, length = map(int, parts.groups())
    address = 0
    for octet in octets:
        _check_number(octet, _OCTET_MAX)
        address = address << 8 | octet
    _check_number(length, _IPV4_BITS)
    shift = _IPV4_BITS - length
    return HostRange((_IPV4_MARK | address) >> shift, shift)


def _check_number(number: int, most: int) -> None:
    if number > most:
        raise InvalidRangeError(f"Value [{number}] not in range [0,{most}]")


def _read_ipv6_range(host: str) -> HostRange:
    address, _, prefix = host.partition("/")
    length = _read_integer(prefix)
    if length is None:
        raise InvalidRangeError(f"Could not parse [{host}] - invalid prefix length")
    if not 0 <= length <= _IPV6_BITS:
        raise InvalidRangeError(
            f"Could not parse [{host}] - prefix length must be between 0 and {_IPV6_BITS}"
        )
    number = _read_ipv6(address)
    if number is None:
        raise InvalidRangeError(f"Could not parse [{address}]")
    if number >> _IPV4_BITS == _MAPPED:
        raise InvalidRangeError(f"Could not parse [{address}] - not an IPv6 address")
    shift = _IPV6_BITS - length
    zone = address.partition("%")[2].removesuffix("]")
    is_certain = not zone or _is_number(zone) or number >> _LINK_LOCAL_SHIFT == _LINK_LOCAL
    return HostRange((_IPV6_MARK | number) >> shift, shift, is_certain)


def _read_integer(text: str) -> int | None:
    """Return the number in ``text`` as Java's Integer.parseInt does, or None."""
    sign = -1 if text[:1] == "-" else 1
    digits = text[1:] if text[:1] in ("+", "-") else text
    # A character that takes two units of UTF-16 is two chars in Java, neither of which is a digit.
    if not digits.isdecimal() or len(digits.encode("utf-16-le")) > 2 * len(digits):
        return None
    # Exact up to 2**53. `int` refuses thousands of digits, and a loop over these takes 20 ms.
    number = sign * float(digits)
    return int(number) if -_INTEGER_MAX - 1 <= number <= _INTEGER_MAX else None


def _read_ipv6(text: str) -> int | None:
    """Return the address in ``text`` as Java reads an IPv6 literal, or None."""
    if len(text) > 2 and text[0] == "[" and text[-1] == "]":
        text = text[1:-1]
    text, percent, zone = text.partition("%")
    if percent and not _can_be_zone(zone):
        return None
    head, gap, tail = text.partition("::")
    before, after = _read_groups(head), _read_groups(tail)
    if before is None or after is None or (gap and "." in head):
        return None
    missing = _GROUPS - len(before) - len(after)
    if (missing < 1) if gap else (missing != 0):
        return None
    number = 0
    for group in (*before, *[0] * missing, *after):
        number = number << _GROUP_BITS | group
    # With a zone, Java rejects an IPv4-mapped address as malformed.
    return None if percent and number >> _IPV4_BITS == _MAPPED else number


def _can_be_zone(zone: str) -> bool:
    """Return True if ``zone`` is the number of a network interface, or may be the name of one."""
    if len(zone) >= _ZONE_DIGITS_MAX:
        return False
    if _is_number(zone):
        return int(zone) <= _INTEGER_MAX
    return _ZONE.fullmatch(zone) is not None


def _is_number(zone: str) -> bool:
    return zone.isascii() and zone.isdecimal()


def _read_groups(text: str) -> list[int] | None:
    """Return the groups of 16 bits in ``text``, of which the last two may be an IPv4 address."""
    if not text:
        return []
    if text.count(":") >= _GROUPS:
        return None
    *parts, last = text.split(":")
    groups: list[int] = []
    if "." in last:
        octets = _EMBEDDED.fullmatch(last)
        if octets is None or len(last) > _EMBEDDED_CHARACTERS_MAX:
            return None
        a, b, c, d = map(int, octets.groups())
        if max(a, b, c, d) > _OCTET_MAX:
            return None
        groups = [a << 8 | b, c << 8 | d]
    else:
        parts.append(last)
    if not all(_GROUP.fullmatch(part.lstrip("0") or part[:1]) for part in parts):
        return None
    return [*(int(part, 16) for part in parts), *groups]


@lru_cache(maxsize=ADDRESSES_CACHED)
def mark_address(host: str) -> int | None:
    """Return the bits of an address after a mark of its family, or None if no range contains it.

    Args:
        host: an address as ``acl.hosts.host_address`` returns it. A zone does not count. Other
            texts are in no range.
    """
    try:
        if ":" in host:
            return _IPV6_MARK | int(IPv6Address(host.partition("%")[0]))
        address = int(IPv4Address(host))
    except AddressValueError:
        return None
    return _IPV4_MARK | address if address else None
