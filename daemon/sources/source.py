"""The interface of a source: where committed changes come from, and where new changes go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.actors.record_applier import Message
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.kafka_client.address import Address


class Source(Protocol):
    """Pass on committed changes in order, and CaughtUp once they are complete."""

    @property
    def high_watermark(self) -> int:
        """The last offset that is known to be committed, -1 before the first."""

    @property
    def metadata_version(self) -> int:
        """The level of the feature metadata.version, or -1 if it is not known."""

    @property
    def status(self) -> SourceStatus | None:
        """The contact with the cluster, or None for the daemon's own log."""

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None:
        """Pass on changes; close ``applier`` in any case.

        The source of the daemon's own log returns after CaughtUp. A follower runs until it is
        cancelled.
        """


class Destination(Protocol):
    """The node of a followed cluster that accepts changes, as known to its source."""

    @property
    def address(self) -> Address | None:
        """The active controller, or the pinned broker. None while none is known."""

    def report_lost(self, address: Address) -> None:
        """Look for another node: ``address`` is unreachable, or is not the active controller."""

    async def confirm(
        self,
        created: Sequence[Acl],
        deleted: Sequence[AclFilter],
        *,
        acknowledged_by: Address | None = None,
    ) -> bool:
        """Return True once the daemon has applied everything that was committed before the call.

        Return False if this cannot be known.

        Args:
            created: bindings that are known to be committed.
            deleted: filters that match only bindings known to be deleted.
            acknowledged_by: the node that has committed these changes, if one is known.
        """
