"""The rules of one principal for ranges of addresses, by network.

A question looks up one network for each distinct prefix length, however many ranges there are. A
network's leaf counts the rules of all hosts that are the same network: ``10.0.0.0/8`` and
``10.1.2.3/8`` are two ACLs. A decision's rule is one of them, and an index finds it: there may be
millions of such texts for one network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from authorizerd.acl.host_ranges import HostRange, mark_address
from authorizerd.acl.index.bits import Weights
from authorizerd.acl.index.host_index import NO_HOST_INDEX, NO_HOSTS, HostIndex, Hosts, change_hosts
from authorizerd.acl.index.tables import EMPTY, Table, delete_entry, set_entry
from authorizerd.acl.model import Acl, PermissionType
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, add_weight, look_up


class Network(msgspec.Struct, frozen=True, gc=False):
    """The rules for one network.

    Attributes:
        patterns: sums of ``acl.index.bits.Weights.in_range``.
        rules: the texts for this network in the plain ACLs of each pattern, operation and
            permission.
    """

    patterns: Patterns
    rules: HostIndex

    def find_hosts(
        self, pattern_type: int, name: str, operation: int, permission_type: int
    ) -> Hosts:
        """Return the hosts of the plain ACLs with this pattern, operation and permission."""
        return self.rules.get(
            (pattern_type, name, operation, permission_type == PermissionType.ALLOW), NO_HOSTS
        )


class Ranges(msgspec.Struct, frozen=True, gc=False):
    """The rules for ranges.

    Attributes:
        networks: by ``HostRange.key``.
        counts: the number of networks by shift, separately for IPv4 and IPv6.
        ipv4_shifts, ipv6_shifts: the keys of ``counts``, sorted.
    """

    networks: Table[int, Network]
    counts: Table[tuple[bool, int], int]
    ipv4_shifts: tuple[int, ...]
    ipv6_shifts: tuple[int, ...]

    def __contains__(self, host: str | None) -> bool:
        """Return True if a range contains ``host``, or if ``host`` is None (unknown)."""
        return host is None or any(True for _ in self.find_networks(host))

    def find_networks(self, host: str) -> Iterator[Network]:
        """Yield the networks that contain an address."""
        marked = mark_address(host)
        if marked is not None:
            networks = self.networks
            for shift in self.ipv6_shifts if ":" in host else self.ipv4_shifts:
                network = networks.get(marked >> shift)
                if network is not None:
                    yield network

    def find_ranges(self, host: str) -> Iterator[str]:
        """Yield the hosts of plain ACLs that are ranges with this address."""
        for network in self.find_networks(host):
            yield from dict.fromkeys(
                text for hosts in network.rules.values() for text in hosts.values()
            )

    def look_up(self, host: str, name: str) -> int:
        """Return the sums of all rules that match an address and a resource name, joined by OR."""
        bits = 0
        for network in self.find_networks(host):
            bits |= look_up(network.patterns, name)
        return bits


NO_RANGES: Final = Ranges(EMPTY, EMPTY, (), ())
NO_NETWORK: Final = Network(NO_PATTERNS, NO_HOST_INDEX)


def change_range(
    ranges: Ranges, addresses: HostRange, acl: Acl, weights: Weights, sign: int
) -> Ranges:
    """Return ``ranges`` with one more ACL (``sign`` 1), or one less (-1).

    Args:
        addresses: the host of ``acl``.
        weights: those of ``acl``, whose ``in_range`` is not 0.
    """
    before = ranges.networks.get(addresses.key, NO_NETWORK)
    name, rules = acl.resource_name, before.rules
    patterns = add_weight(before.patterns, acl.pattern_type, name, sign * weights.in_range)
    if weights.is_plain:
        place = acl.pattern_type, name, acl.operation, not weights.denial
        rules = change_hosts(rules, place, acl.host, sign)
    if patterns is NO_PATTERNS:
        networks = delete_entry(ranges.networks, addresses.key)
    else:
        networks = set_entry(ranges.networks, addresses.key, Network(patterns, rules))
    if not networks:
        return NO_RANGES
    if len(networks) == len(ranges.networks):
        return Ranges(networks, ranges.counts, ranges.ipv4_shifts, ranges.ipv6_shifts)
    length = addresses.is_ipv6, addresses.shift
    count = ranges.counts.get(length, 0) + sign
    counts = (
        set_entry(ranges.counts, length, count) if count else delete_entry(ranges.counts, length)
    )
    if len(counts) == len(ranges.counts):
        return Ranges(networks, counts, ranges.ipv4_shifts, ranges.ipv6_shifts)
    ipv4 = tuple(sorted(shift for is_ipv6, shift in counts if not is_ipv6))
    ipv6 = tuple(sorted(shift for is_ipv6, shift in counts if is_ipv6))
    return Ranges(networks, counts, ipv4, ipv6)
