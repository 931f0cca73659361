"""The interface of a source: where committed changes come from."""

from __future__ import annotations

from typing import Protocol

import trio

from authorizerd.actors.record_applier import Message
from authorizerd.daemon.sources.status import SourceStatus


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

        The own log's source returns after CaughtUp. A follower runs until it is cancelled.
        """
