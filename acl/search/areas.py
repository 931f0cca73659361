"""Divide all hosts into areas, so that each ACL matches an area completely or not at all.

Ranges of addresses are nested or disjoint. So an area is a range or an address, minus everything
narrower inside it. The outermost area has the hosts that no ACL names.

**Invariant:** an area without an example contains no host at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple, TypeAlias

import msgspec

from authorizerd.acl.host_ranges import HostRange, find_range, mark_address
from authorizerd.acl.hosts import host_address

Place: TypeAlias = str | HostRange
"""The addresses that a host of an ACL matches: one, or a range."""

_Key: TypeAlias = tuple[int, int, str, Place]
"""The first address, the width, the text of an address, and the place."""

_ZERO: Final = "0.0.0.0"  # noqa: S104 - no range contains this address
_IPV4: Final = HostRange(0b10, 32)


def _mark(host: str) -> int:
    """Return the mark of an address; 0 for 0.0.0.0, which is in no range."""
    return mark_address(host) or 0


_LINK_LOCAL: Final = HostRange(_mark("fe80::") >> 118, 118)
"""Each network interface has these addresses again, with a zone."""
_MAPPED: Final = _mark("::ffff:0:0"), _mark("::ffff:ffff:ffff")
"""Addresses that no client has, since Java writes them as IPv4."""
_EXAMPLES: Final = (
    # Documents use the first of these as examples (RFC 5737).
    (_mark("192.0.2.1"), _mark("255.255.255.255")),
    (_mark("0.0.0.1"), _mark("255.255.255.255")),
    (_mark("::"), _MAPPED[0] - 1),
    (_MAPPED[1] + 1, _mark("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
)
"""Where to look for an example of the outermost area."""


class Area(msgspec.Struct, frozen=True, gc=False):
    """Clients' hosts that are matched by the same ACL hosts.

    Attributes:
        place: the narrowest of them; None in the outermost area.
        outer: the index of the area around it; of the outermost area, its own.
        example: one of its hosts; None if it has none.
    """

    place: Place | None
    outer: int
    example: str | None


def find_place(acl_host: str) -> Place:
    """Return the addresses that an ACL's host matches. It is not ``*``, and can match."""
    addresses = find_range(acl_host)
    # Different texts for the same range are one place.
    return acl_host if addresses is None else HostRange(addresses.key, addresses.shift)


class Nested(NamedTuple):
    """A place, its addresses, and the number of the place around it, from 1 on; 0: none."""

    place: Place
    start: int
    end: int
    outer: int


def nest(places: Iterable[Place]) -> list[Nested]:
    """Return distinct places, each after the one around it."""
    found: list[Nested] = []
    stack: list[tuple[int, int]] = []
    for start, _, _, place in sorted(set(map(_make_key, places))):
        while stack and stack[-1][0] < start:
            stack.pop()
        outer = stack[-1][1] if stack else 0
        end = start
        if isinstance(place, HostRange):
            end = ((place.key + 1) << place.shift) - 1
            stack.append((end, len(found) + 1))
        found.append(Nested(place, start, end, outer))
    return found


class _Open:
    """A range whose inner places are still being visited."""

    __slots__ = ("_end", "_free", "_is_free", "_zoned")

    def __init__(self, nested: Nested) -> None:
        self._end: Final = nested.end
        self._free = _skip(nested.start)  # the first address that may be outside all inner places
        self._is_free = False
        self._zoned: str | None = None

    def occupy(self, inner: Nested) -> None:
        """Note the next place inside the range."""
        if inner.start > self._free:
            self._is_free = True
        elif not self._is_free:
            self._free = max(self._free, _skip(inner.end + 1))
        if isinstance(inner.place, str) and _LINK_LOCAL.contains(inner.start):
            self._zoned = inner.place

    def find_example(self, places: Collection[Place]) -> str | None:
        """Return a host of the range that is in no place inside it."""
        if self._free <= self._end:
            return _write_address(self._free)
        return None if self._zoned is None else _choose_zone(self._zoned, places)


def divide(places: Collection[Place]) -> list[Area]:
    """Return the areas of distinct ``places``, each after the one around it."""
    nested = nest(places)
    ranges: dict[int, _Open] = {}
    outermost: list[tuple[int, int]] = []
    for number, inner in enumerate(nested, 1):
        if inner.outer:
            ranges[inner.outer].occupy(inner)
        else:
            outermost.append((inner.start, inner.end))
        if isinstance(inner.place, HostRange):
            ranges[number] = _Open(inner)
    areas = [Area(None, 0, _find_outside(outermost, places))]
    for number, inner in enumerate(nested, 1):
        place = inner.place
        example = ranges[number].find_example(places) if isinstance(place, HostRange) else place
        areas.append(Area(place, inner.outer, example))
    return areas


def _make_key(place: Place) -> _Key:
    """Return a key that sorts a range before what it contains."""
    if isinstance(place, HostRange):
        return place.key << place.shift, -place.shift, "", place
    return _mark(place), 1, place, place


def _skip(marked: int) -> int:
    """Return the first mark, from ``marked`` on, of an address that ranges can contain."""
    if marked == _IPV4.key << _IPV4.shift:
        return marked + 1
    return _MAPPED[1] + 1 if _MAPPED[0] <= marked <= _MAPPED[1] else marked


def _find_outside(occupied: Sequence[tuple[int, int]], places: Collection[Place]) -> str | None:
    """Return an example of a host outside of all places, which are sorted and disjoint."""
    for first, last in _EXAMPLES:
        free = first
        for start, end in occupied:
            if start > free:
                break
            free = max(free, end + 1)
        if free <= last:
            return _write_address(free)
    return None if _ZERO in places else _ZERO


def list_examples(addresses: HostRange) -> list[str]:
    """Return the first and the last address in a range, which is not empty."""
    first = _skip(addresses.key << addresses.shift)
    last = ((addresses.key + 1) << addresses.shift) - 1
    return list(dict.fromkeys(_write_address(address) for address in (first, last)))


def _write_address(marked: int) -> str:
    address: IPv4Address | IPv6Address = HostRange(marked, 0).first
    written = host_address(str(address))
    assert written is not None, "it is an address"
    return written


def _choose_zone(host: str, places: Collection[Place]) -> str:
    """Return a link-local address with a zone that occurs in no place."""
    address, zone = host.partition("%")[0], "other"
    while f"{address}%{zone}" in places:
        zone += "-zone"
    return f"{address}%{zone}"


def list_places(acl_hosts: Iterable[str]) -> set[Place]:
    """Return the addresses that hosts of ACLs match. Several may be the same range."""
    return {find_place(host) for host in acl_hosts}
