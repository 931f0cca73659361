"""The rules that apply to a name, joined into the hosts from which they allow something.

**Invariant:** rules only add up. More rules for the same name never remove a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from authorizerd.acl.bits import ALLOWS, DENIES
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.search.hosts import EVERYWHERE, NOWHERE, HostAccess
from authorizerd.acl.search.sorting import sort_in_steps
from authorizerd.acl.steps import Steps

HOSTS_MAX: Final = 10_000
"""The most single hosts that the rules of one answer may name, so that each step stays short."""

_NO_HOSTS: Final[frozenset[str]] = frozenset()


class JoinedRules:
    """The effect of the rules for some principal, operation and name. Do not change it.

    Attributes:
        allows: whether a rule allows every host. Single allowed hosts do not count then.
        denies: whether a rule denies every host. Nothing else counts then.
        allowed_hosts: hosts with an ALLOW of their own, and without a DENY.
        denied_hosts: hosts with a DENY of their own.
        access: the result, once ``find_access`` has made it.
    """

    __slots__ = ("_with_allow", "access", "allowed_hosts", "allows", "denied_hosts", "denies")

    def __init__(
        self,
        allows: bool = False,
        denies: bool = False,
        allowed_hosts: frozenset[str] = _NO_HOSTS,
        denied_hosts: frozenset[str] = _NO_HOSTS,
    ) -> None:
        self.allows = allows
        self.denies = denies
        self.allowed_hosts = allowed_hosts
        self.denied_hosts = denied_hosts
        self.access: HostAccess | None = None
        # Thousands of names may add the same rule to the same others: they share the result.
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
            self._with_allow = JoinedRules(allows=True, denied_hosts=self.denied_hosts)
        return self._with_allow

    def join_hosts(self, allowed: Iterable[str], denied: Iterable[str]) -> Steps[JoinedRules]:
        """Return these rules and others for single hosts; ``self`` if they change nothing.

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
        # Usually nothing is new. Finding that out must not take as long as joining all hosts.
        if self.denies or not (new_denied or new_allowed):
            return self
        yield
        denied_hosts = self.denied_hosts.union(new_denied)
        yield
        allowed_hosts = _NO_HOSTS
        if not self.allows:
            allowed_hosts = self.allowed_hosts.union(new_allowed)
            yield
            allowed_hosts = allowed_hosts.difference(new_denied)
            yield
        check_hosts(len(denied_hosts) + len(allowed_hosts))
        return JoinedRules(self.allows, False, allowed_hosts, denied_hosts)


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
) -> Steps[JoinedRules]:
    """Return ``rules`` and those of the index's bits, for every host and for single hosts.

    Raises:
        SearchLimitError: they name too many hosts.
    """
    allows, denies = ALLOWS[operation], DENIES[operation]
    joined = rules.join(any_host & allows != 0, any_host & denies != 0)
    if not hosts:
        return joined
    allowed = [host for host, bits in hosts.items() if bits & allows]
    yield
    denied = [host for host, bits in hosts.items() if bits & denies]
    yield
    return (yield from joined.join_hosts(allowed, denied))


def find_access(rules: JoinedRules) -> Steps[HostAccess]:
    """Return, in steps, the hosts from which the rules allow."""
    if rules.access is None:
        hosts = rules.denied_hosts if rules.allows else rules.allowed_hosts
        rules.access = HostAccess(rules.allows, (yield from sort_in_steps(hosts)))
    return rules.access
