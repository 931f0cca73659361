"""The JSON of the hosts from which something is allowed, in searches and in the command line."""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.search.hosts import HostAccess

CHARACTERS_MAX: Final = 1024 * 1024
"""The maximum length of the hosts of one result together. Kafka does not limit a host's length."""


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
    """Return the document of ``hosts``.

    Raises:
        SearchLimitError: their names are too long.
    """
    if sum(map(len, hosts.hosts)) > CHARACTERS_MAX:
        raise SearchLimitError(
            f"the hosts of one answer have more than {CHARACTERS_MAX} characters: ask about one"
            " host with a decision"
        )
    if hosts.others:
        return Hosts(any=True, excepted=hosts.hosts)
    return Hosts(any=False, only=hosts.hosts)
