"""The JSON of the hosts from which something is allowed, in searches and in the command line."""

from __future__ import annotations

import msgspec

from authorizerd.acl.search.hosts import HostAccess


class Hosts(msgspec.Struct, frozen=True, gc=False, rename={"excepted": "except"}):
    """From where something is allowed.

    With ``any``, from every host except those in ``except``; without, only from those in ``only``.
    """

    any: bool
    excepted: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def access(self) -> HostAccess:
        """The hosts that this document describes."""
        return HostAccess(self.any, self.excepted or self.only)


def new_hosts(hosts: HostAccess) -> Hosts:
    """Return the document of ``hosts``."""
    if hosts.others:
        return Hosts(any=True, excepted=hosts.hosts)
    return Hosts(any=False, only=hosts.hosts)
