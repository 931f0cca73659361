"""The JSON of the hosts from which something is allowed, in searches and on the command line."""

from __future__ import annotations

import msgspec

from authorizerd.acl.releases import Release
from authorizerd.acl.search.hosts import HostAccess, read_places


class ReleaseHosts(msgspec.Struct, frozen=True, gc=False, rename={"excepted": "except"}):
    """The hosts from which something is allowed.

    ``except`` and ``only`` have addresses, and ranges of addresses such as ``10.0.0.0/8``. The
    narrowest one that contains a host decides: in ``only``, it is allowed; in ``except``, it is
    not. A host outside all of them is allowed if ``any`` is true.
    """

    any: bool
    excepted: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def access(self) -> HostAccess:
        """The hosts that this document describes."""
        return read_places(self.any, (*self.excepted, *self.only))


class Hosts(ReleaseHosts, frozen=True, gc=False, rename={"excepted": "except"}):
    """The hosts from which something is allowed.

    ``except`` and ``only`` have addresses, and ranges of addresses such as ``10.0.0.0/8``. The
    narrowest one that contains a host decides: in ``only``, it is allowed; in ``except``, it is
    not. A host outside all of them is allowed if ``any`` is true.

    If several Kafka releases may be in force and they differ, these are the hosts from which any of
    them allows it, and ``releases`` has those of each release.
    """

    releases: dict[str, ReleaseHosts] | msgspec.UnsetType = msgspec.UNSET

    @property
    def access(self) -> HostAccess:
        """The hosts that this document describes."""
        access = super().access
        if self.releases is msgspec.UNSET:
            return access
        each = tuple((Release(name), hosts.access) for name, hosts in self.releases.items())
        return msgspec.structs.replace(access, by_release=each)


def new_hosts(hosts: HostAccess) -> Hosts:
    """Return the document of ``hosts``."""
    own = _split(hosts)
    if not hosts.by_release:
        return Hosts(hosts.others, *own)
    releases: dict[str, ReleaseHosts] = {}
    for release, each in hosts.by_release:
        releases[str(release)] = ReleaseHosts(each.others, *_split(each))
    return Hosts(hosts.others, *own, releases)


def _split(hosts: HostAccess) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the denied hosts and ranges, and the allowed ones."""
    if not hosts.ranges:
        return (hosts.hosts, ()) if hosts.others else ((), hosts.hosts)
    places = hosts.list_places()
    return (
        tuple(text for allowed, text in places if not allowed),
        tuple(text for allowed, text in places if allowed),
    )
