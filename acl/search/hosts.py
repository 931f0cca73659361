"""From which hosts something is allowed."""

from __future__ import annotations

from typing import Final

import msgspec


class HostAccess(msgspec.Struct, frozen=True, gc=False):
    """The hosts from which something is allowed.

    If ``others`` is set, these are all hosts except ``hosts``; else only ``hosts``. ``hosts`` is
    sorted.
    """

    others: bool
    hosts: tuple[str, ...] = ()

    def allows(self, host: str | None) -> bool:
        """Return True if ``host`` is allowed.

        None is an unknown host. As in ``acl.decision``, it is allowed only if every host is.
        """
        if host is None:
            return self.is_everywhere
        return (host in self.hosts) != self.others

    def may_allow(self, host: str | None) -> bool:
        """Return True if ``host`` is allowed; for None, if any host at all is."""
        return not self.is_nowhere if host is None else self.allows(host)

    @property
    def is_nowhere(self) -> bool:
        """Whether no host is allowed."""
        return not (self.others or self.hosts)

    @property
    def is_everywhere(self) -> bool:
        """Whether every host is allowed."""
        return self.others and not self.hosts

    def __str__(self) -> str:
        """Return a phrase such as ``from any host except 10.0.0.9``."""
        listed = ", ".join(self.hosts)
        if self.others:
            return f"from any host except {listed}" if listed else "from any host"
        return f"only from {listed}" if listed else "from no host"


NOWHERE: Final = HostAccess(False)
EVERYWHERE: Final = HostAccess(True)


def covers(wider: HostAccess, narrower: HostAccess) -> bool:
    """Return True if ``wider`` allows every host that ``narrower`` allows."""
    if wider.is_everywhere or narrower.is_nowhere or wider is narrower:
        return True
    if narrower.others:
        return wider.others and set(wider.hosts).issubset(narrower.hosts)
    if wider.others:
        return set(wider.hosts).isdisjoint(narrower.hosts)
    return set(narrower.hosts).issubset(wider.hosts)
