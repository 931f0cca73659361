"""Join the rules that apply to a name into the hosts from which they allow something.

**Invariant:** adding rules for the same name never removes a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.host_ranges import HostRange
from authorizerd.acl.hosts import is_certain
from authorizerd.acl.index.bits import ALLOWS, DENIES
from authorizerd.acl.releases import RULES, ReleaseRules
from authorizerd.acl.search.areas import Area, Place, divide, find_place
from authorizerd.acl.search.hosts import (
    EVERYWHERE,
    NOWHERE,
    HostAccess,
    join_areas,
)

HOSTS_MAX: Final = 10_000
"""The maximum number of single hosts in the rules of one answer, so that each step stays short.

Ranges also count.
"""

_NO_HOSTS: Final[frozenset[str]] = frozenset()

_ALLOWED: Final = 1
_DENIED: Final = 2


class JoinedRules:
    """The effect of the rules for some principal, operation and name. Do not change it.

    Attributes:
        allows: whether a rule allows every host. Then single allowed hosts do not count.
        denies: whether a rule denies every host. Then nothing else counts.
        allowed_hosts: hosts with an ALLOW of their own, and without a DENY.
        denied_hosts: hosts with a DENY of their own.
        has_ranges: whether there are ranges among the hosts.
        access: the result, once ``find_access`` has made it.
    """

    __slots__ = (
        "_with_allow",
        "access",
        "allowed_hosts",
        "allows",
        "denied_hosts",
        "denies",
        "has_ranges",
    )

    def __init__(
        self,
        allows: bool = False,
        denies: bool = False,
        allowed_hosts: frozenset[str] = _NO_HOSTS,
        denied_hosts: frozenset[str] = _NO_HOSTS,
        has_ranges: bool = False,
    ) -> None:
        self.allows = allows
        self.denies = denies
        self.allowed_hosts = allowed_hosts
        self.denied_hosts = denied_hosts
        self.has_ranges = has_ranges
        self.access: HostAccess | None = None
        # Thousands of names may add the same rule to the same rules, so the result is shared.
        self._with_allow: JoinedRules | None = None
        if denies:
            self.access = NOWHERE
        elif not (denied_hosts if allows else allowed_hosts):
            self.access = EVERYWHERE if allows else NOWHERE

    def join(self, allows: bool, denies: bool) -> JoinedRules:
        """Return these rules and others for every host; ``self`` if they change nothing."""
        if self.denies:
            return self
        if denies:
            return DENIED
        if self.allows or not allows:
            return self
        if self._with_allow is None:
            self._with_allow = JoinedRules(
                allows=True, denied_hosts=self.denied_hosts, has_ranges=self.has_ranges
            )
        return self._with_allow

    def join_hosts(self, allowed: Iterable[str], denied: Iterable[str]) -> JoinedRules:
        """Return these rules and others for single hosts; ``self`` if they change nothing.

        Args:
            allowed, denied: hosts of ACLs that can match.

        Raises:
            SearchLimitError: they name too many hosts.
        """
        new_denied = [host for host in denied if host not in self.denied_hosts]
        new_allowed: list[str] = []
        if not self.allows:
            known = self.allowed_hosts, self.denied_hosts
            new_allowed = [
                host for host in allowed if host not in known[0] and host not in known[1]
            ]
        # Usually nothing is new, so check that first: joining all hosts takes longer.
        if self.denies or not (new_denied or new_allowed):
            return self
        denied_hosts = self.denied_hosts.union(new_denied)
        allowed_hosts = _NO_HOSTS
        if not self.allows:
            allowed_hosts = self.allowed_hosts.union(new_allowed)
            allowed_hosts = allowed_hosts.difference(new_denied)
        check_hosts(len(denied_hosts) + len(allowed_hosts))
        has_ranges = self.has_ranges or any("/" in host for host in chain(new_denied, new_allowed))
        return JoinedRules(self.allows, False, allowed_hosts, denied_hosts, has_ranges)


NOTHING_APPLIES: Final = JoinedRules()
DENIED: Final = JoinedRules(denies=True)


def check_hosts(count: int) -> None:
    """Reject rules for more than ``HOSTS_MAX`` single hosts.

    Raises:
        SearchLimitError: there are more.
    """
    if count > HOSTS_MAX:
        raise SearchLimitError(
            f"rules for more than {HOSTS_MAX} single hosts apply to one answer: "
            f"ask about one host with a decision"
        )


def join_bits(
    rules: JoinedRules, operation: int, any_host: int, hosts: Mapping[str, int]
) -> JoinedRules:
    """Return ``rules`` and those of the index's bits, for every host and for single hosts.

    Raises:
        SearchLimitError: they name too many hosts.
    """
    allows, denies = ALLOWS[operation], DENIES[operation]
    joined = rules.join(any_host & allows != 0, any_host & denies != 0)
    if not hosts:
        return joined
    allowed = [host for host, bits in hosts.items() if bits & allows and is_certain(host)]
    denied = [host for host, bits in hosts.items() if bits & denies]
    return joined.join_hosts(allowed, denied)


def find_access(rules: JoinedRules, releases: ReleaseRules) -> HostAccess:
    """Return the hosts from which the rules allow, by any of ``releases``."""
    if rules.access is None:
        if rules.has_ranges:
            rules.access = _find_access_with_ranges(rules, releases)
        else:
            hosts = rules.denied_hosts if rules.allows else rules.allowed_hosts
            rules.access = HostAccess(rules.allows, tuple(sorted(hosts)))
    return rules.access


def _find_access_with_ranges(rules: JoinedRules, releases: ReleaseRules) -> HostAccess:
    bits: dict[Place, int] = {}
    kinds = (rules.allowed_hosts, _ALLOWED), (rules.denied_hosts, _DENIED)
    for host, bit in ((host, bit) for hosts, bit in kinds for host in hosts):
        place = find_place(host)
        bits[place] = bits.get(place, 0) | (bit << 2 if isinstance(place, HostRange) else bit)
    areas = divide(bits)
    sums = _add_up(areas, bits, _ALLOWED if rules.allows else 0)
    accesses: list[HostAccess] = []
    answers: list[list[bool]] = []
    for release in releases.releases:
        # The rules of a single release count all ranges or none.
        answers.append(_judge_areas(sums, RULES[release].range_denies))
        accesses.append(join_areas(areas, answers[-1]))
    if all(access == accesses[0] for access in accesses):
        return accesses[0]
    by_any = [*map(any, zip(*answers, strict=True))]
    united = join_areas(areas, by_any)
    return replace(united, by_release=tuple(zip(releases.releases, accesses, strict=True)))


def _add_up(areas: Sequence[Area], bits: Mapping[Place, int], outermost: int) -> list[int]:
    """Return the bits that apply to each area: its own, and those of the areas around it."""
    sums = [outermost]
    for area in areas:
        if area.place is not None:
            sums.append(sums[area.outer] | bits[area.place])
    return sums


def _judge_areas(sums: Sequence[int], ranges_count: bool) -> list[bool]:
    """Return whether each area is allowed."""
    answers: list[bool] = []
    for bits in sums:
        if ranges_count:
            bits |= bits >> 2
        answers.append(bits & (_ALLOWED | _DENIED) == _ALLOWED)
    return answers
