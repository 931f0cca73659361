"""Where changes are sent, and how a source confirms that it has read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.kafka_client.address import Address


class Destination(Protocol):
    """The node that takes changes."""

    @property
    def address(self) -> Address | None:
        """The active controller, or the pinned broker. None while none is known."""

    def report_lost(self, address: Address) -> None:
        """Look for another node: this one cannot be reached, or is not the active controller."""

    async def confirm(self, created: Sequence[Acl], deleted: Sequence[AclFilter]) -> bool:
        """Return True once the daemon has applied everything that was committed before the call.

        Return False if this cannot be known.

        Args:
            created: bindings that are known to be committed.
            deleted: filters that match only what is known to be deleted.
        """


class QuorumSource(Protocol):
    """What changes need of a source that follows a quorum."""

    @property
    def leader(self) -> tuple[Address, int] | None: ...

    def leader_lost(self, address: Address) -> None: ...

    async def barrier(self) -> None: ...


class QuorumDestination:
    """The active controller: the leader of the quorum."""

    def __init__(self, source: QuorumSource) -> None:
        self._source = source

    @property
    def address(self) -> Address | None:
        """The leader's address, None while it is not known."""
        leader = self._source.leader
        return None if leader is None else leader[0]

    def report_lost(self, address: Address) -> None:
        """Look for the leader."""
        self._source.leader_lost(address)

    async def confirm(self, created: Sequence[Acl], deleted: Sequence[AclFilter]) -> bool:
        """Return True once the high watermark of a later Fetch is applied."""
        await self._source.barrier()
        return True


class BrokersSource(Protocol):
    """What changes need of a source that lists ACLs at brokers."""

    @property
    def broker(self) -> Address | None: ...

    async def barrier(self, created: Sequence[Acl], deleted: Sequence[AclFilter]) -> None: ...


class BrokersDestination:
    """The pinned broker, which passes changes on to the active controller."""

    def __init__(self, source: BrokersSource) -> None:
        self._source = source

    @property
    def address(self) -> Address | None:
        """The pinned broker's address, None while no broker answers."""
        return self._source.broker

    def report_lost(self, address: Address) -> None:
        """Do nothing: the source polls the same broker, and soon replaces it."""

    async def confirm(self, created: Sequence[Acl], deleted: Sequence[AclFilter]) -> bool:
        """Return True once a later listing shows ``created``, and nothing that is ``deleted``."""
        try:
            await self._source.barrier(created, deleted)
        except (UpdateRefusedError, trio.TooSlowError):
            return False
        return True
