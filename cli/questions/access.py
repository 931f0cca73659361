"""Whether the hosts of an answer allow what a question asks about."""

from __future__ import annotations

from authorizerd.acl.search.hosts import HostAccess


def is_allowed(hosts: HostAccess, host: str | None) -> bool:
    """Return True if something is allowed from ``host``, or without one, from any host at all."""
    return not hosts.is_nowhere if host is None else hosts.allows(host)
