"""From which hosts something is allowed.

While it is unknown which Kafka release is in force, a host counts if any possible one allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from authorizerd.acl.host_ranges import HostRange, find_range, mark_address, name_range
from authorizerd.acl.releases import Release
from authorizerd.acl.search.areas import Area, Place, divide, nest

RANGE_CHARACTERS: Final = 20
"""The approximate length of a range's text."""


class HostAccess(msgspec.Struct, frozen=True, gc=False):
    """The hosts from which something is allowed.

    The narrowest entry of ``hosts`` and ``ranges`` that contains a host decides, or else
    ``others``. Each entry reverses the answer of what surrounds it. For example, the entries
    ``10.0.0.0/8`` and ``10.0.0.1`` mean the range except the address if ``others`` is False. If it
    is True, they mean all hosts outside the range, and the address.

    Attributes:
        others: the answer for hosts outside all entries.
        hosts: addresses, sorted.
        ranges: sorted by their first addresses; a range precedes those inside it.
        by_release: the hosts by release, if the releases that may judge differ.
    """

    others: bool
    hosts: tuple[str, ...] = ()
    ranges: tuple[HostRange, ...] = ()
    by_release: tuple[tuple[Release, HostAccess], ...] = ()

    def allows(self, host: str | None) -> bool:
        """Return True if ``host`` is allowed.

        None is an unknown host. As in ``acl.decision``, it is allowed only if every host is.
        """
        if host is None:
            return self.is_everywhere
        allowed = (host in self.hosts) != self.others
        marked = mark_address(host) if self.ranges else None
        if marked is not None:
            allowed ^= sum(host_range.contains(marked) for host_range in self.ranges) % 2 == 1
        return allowed

    def may_allow(self, host: str | None) -> bool:
        """Return True if ``host`` is allowed; for None, if any host at all is."""
        return not self.is_nowhere if host is None else self.allows(host)

    @property
    def is_nowhere(self) -> bool:
        """Whether no host is allowed."""
        return not (self.others or self.hosts or self.ranges)

    @property
    def is_everywhere(self) -> bool:
        """Whether every host is allowed."""
        return self.others and not (self.hosts or self.ranges)

    @property
    def count(self) -> int:
        """The number of named hosts and ranges."""
        return (
            len(self.hosts) + len(self.ranges) + sum(access.count for _, access in self.by_release)
        )

    @property
    def characters(self) -> int:
        """About the number of characters of these hosts and ranges."""
        own = sum(map(len, self.hosts)) + RANGE_CHARACTERS * len(self.ranges)
        return own + sum(access.characters for _, access in self.by_release)

    def in_release(self, release: Release) -> HostAccess:
        """Return the hosts from which ``release``, one of those that may be in force, allows."""
        return dict(self.by_release).get(release, self)

    def list_places(self) -> list[tuple[bool, str]]:
        """Return the text of each host and range, and whether it is allowed, sorted."""
        if not self.ranges:
            return [(not self.others, host) for host in self.hosts]
        nested = self._nest()
        return [(self.others == (depth % 2 == 1), text) for depth, text in nested]

    def _nest(self) -> list[tuple[int, str]]:
        """Return, sorted, each host's and range's nesting depth and text."""
        depths = [-1]
        found: list[tuple[int, str]] = []
        for area in nest([*self.hosts, *self.ranges]):
            depth = depths[area.outer] + 1
            depths.append(depth)
            found.append((depth, _name(area.place)))
        return found

    def describe_places(self) -> list[str]:
        """Return the outermost hosts and ranges, each with its exceptions."""
        if not self.ranges:
            return list(self.hosts)
        words: list[str] = []
        previous = 0
        for depth, text in self._nest():
            if depth > previous:
                text = f" (except {text}"
            elif words:
                words[-1] += ")" * (previous - depth)
            if depth == 0:
                words.append(text)
            else:
                words[-1] += text if depth > previous else f", {text}"
            previous = depth
        if words:
            words[-1] += ")" * previous
        return words

    def __str__(self) -> str:
        """Return a phrase such as ``from any host except 10.0.0.9``."""
        if self.by_release:
            return ", or ".join(
                f"{access} by Kafka {release}" for release, access in self.by_release
            )
        listed = ", ".join(self.describe_places())
        if self.others:
            return f"from any host except {listed}" if listed else "from any host"
        return f"only from {listed}" if listed else "from no host"

    def name_releases(self, host: str | None) -> str:
        """Return a text such as ``by Kafka 4.3 only``, or ``""`` if every possible release allows.

        Args:
            host: None: any host at all.
        """
        allowing = [release for release, access in self.by_release if access.may_allow(host)]
        if len(allowing) == len(self.by_release):
            return ""
        return f"by Kafka {' and '.join(allowing)} only"


NOWHERE: Final = HostAccess(False)
EVERYWHERE: Final = HostAccess(True)


def _name(place: Place | None) -> str:
    return name_range(place) if isinstance(place, HostRange) else str(place)


def read_places(others: bool, places: Iterable[str]) -> HostAccess:
    """Return the ``HostAccess`` whose ``list_places`` lists ``places``."""
    hosts: list[str] = []
    ranges: list[HostRange] = []
    for text in places:
        addresses = find_range(text)
        if addresses is None:
            hosts.append(text)
        else:
            ranges.append(addresses)
    ranges.sort(key=lambda host_range: (host_range.key << host_range.shift, -host_range.shift))
    return HostAccess(others, tuple(sorted(hosts)), tuple(ranges))


def join_areas(areas: Sequence[Area], answers: Sequence[bool]) -> HostAccess:
    """Return the hosts from which something is allowed.

    Args:
        answers: whether it is allowed in each area, if the area has a host.
    """
    others = answers[0] and areas[0].example is not None
    values = [others]
    hosts: list[str] = []
    ranges: list[HostRange] = []
    for number in range(1, len(areas)):
        area = areas[number]
        outer = values[area.outer]
        # An area without hosts takes the answer of the surrounding area, so it is not mentioned.
        value = outer if area.example is None else answers[number]
        values.append(value)
        if value != outer:
            if isinstance(area.place, HostRange):
                ranges.append(area.place)
            else:
                hosts.append(str(area.place))
    return HostAccess(others, tuple(sorted(hosts)), tuple(ranges))


def covers(wider: HostAccess, narrower: HostAccess) -> bool:
    """Return True if ``wider`` allows every host that ``narrower`` allows, by each release."""
    if wider is narrower:
        return True
    for release, _ in wider.by_release or narrower.by_release:
        if not _covers(wider.in_release(release), narrower.in_release(release)):
            return False
    if wider.by_release or narrower.by_release:
        return True
    return _covers(wider, narrower)


def _covers(wider: HostAccess, narrower: HostAccess) -> bool:
    if wider.is_everywhere or narrower.is_nowhere or wider == narrower:
        return True
    if wider.ranges or narrower.ranges:
        return _covers_areas(wider, narrower)
    if narrower.others:
        return wider.others and set(wider.hosts).issubset(narrower.hosts)
    if wider.others:
        return set(wider.hosts).isdisjoint(narrower.hosts)
    return set(narrower.hosts).issubset(wider.hosts)


def _covers_areas(wider: HostAccess, narrower: HostAccess) -> bool:
    places: list[set[Place]] = [{*access.hosts, *access.ranges} for access in (wider, narrower)]
    areas = divide(places[0] | places[1])
    answers = [(wider.others, narrower.others)]
    for number, area in enumerate(areas):
        if number:
            outer = answers[area.outer]
            is_wider, is_narrower = (
                allowed ^ (area.place in places_there)
                for allowed, places_there in zip(outer, places, strict=True)
            )
            answers.append((is_wider, is_narrower))
        if answers[number] == (False, True) and area.example is not None:
            return False
    return True
