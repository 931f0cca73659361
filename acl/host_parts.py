"""Addresses that represent a range: one for each part of it that other hosts of ACLs tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Final

from authorizerd.acl.host_ranges import HostRange, find_range, mark_address, read_range
from authorizerd.acl.hosts import HostKind, get_kind, host_address

_MAPPED: Final = int(IPv6Address("::ffff:0:0")) >> 32
_NO_ADDRESS: Final = read_range("0.0.0.0/32")
"""No range contains 0.0.0.0."""
_EVERY_IPV6: Final = read_range("::/0")
_IPV4_MAPPED: Final = HostRange(_EVERY_IPV6.key << 96 | _MAPPED, 32)
"""Java writes these addresses as IPv4, so no IPv6 range contains them."""


def list_addresses(addresses: HostRange, hosts: Iterable[str]) -> list[str]:
    """Return one address of each part of a range, as Kafka writes it.

    A part is what a single host or range within leaves over. The part that no other host names
    comes first, if there is one.

    Args:
        hosts: the hosts of other ACLs.
    """
    singles: dict[HostRange, str] = {}
    ranges = {addresses}
    for host in hosts:
        if get_kind(host) is HostKind.ADDRESS:
            marked = mark_address(host)
            if marked is not None and addresses.contains(marked):
                singles[HostRange(marked, 0)] = host
        else:
            other = find_range(host)
            if other is not None and addresses.includes(other):
                ranges.add(other)
    within = sorted({*ranges, *singles, _NO_ADDRESS, _IPV4_MAPPED}, key=_start)
    found = [_find_rest(each, within) for each in sorted(ranges, key=_start)]
    for each in sorted(singles, key=_start):
        found += [singles[each], str(each.first)]  # the first may have a zone
    written = (host_address(each) for each in found if each is not None)
    return list(dict.fromkeys(each for each in written if each is not None))


def _start(addresses: HostRange) -> tuple[int, int]:
    """Return a key that puts a range before those within it."""
    return addresses.key << addresses.shift, -addresses.shift


def _find_rest(addresses: HostRange, others: Iterable[HostRange]) -> str | None:
    """Return the first address of a range that no other range within it contains, or None.

    Args:
        others: sorted by ``_start``.
    """
    place, end = addresses.key << addresses.shift, (addresses.key + 1) << addresses.shift
    for other in others:
        if other == addresses or not addresses.includes(other):
            continue
        if place < other.key << other.shift:
            break
        place = max(place, (other.key + 1) << other.shift)
    return str(HostRange(place, 0).first) if place < end else None
