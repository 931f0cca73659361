"""A second connection to the leader, on which a Fetch never waits for new records."""

from __future__ import annotations

from typing import Final

import trio

from authorizerd.daemon.sources.quorum.link import Link
from authorizerd.daemon.sources.quorum.messages import Connected, FetchAnswered, Probe
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.fetch import FetchAnswer

ATTEMPTS: Final = 2
"""A leader closes idle connections, so a failure on an old one is followed by a second try."""


class LeaderProbe:
    """Send one probe at a time; keep the connection for the next one."""

    def __init__(self, link: Link) -> None:
        self._link: Final = link
        self._address: Address | None = None
        self.lock: Final = trio.Lock()

    async def close(self) -> None:
        """Close the connection, if there is one."""
        self._address = None
        await self._link.close()

    async def fetch(self, probe: Probe, *, cluster_id: str | None) -> FetchAnswer | None:
        """Return the answer to a probe, None if there is none. The caller holds the lock.

        If cancelled, the connection is closed.
        """
        for _ in range(ATTEMPTS):
            try:
                answer = await self._try(probe, cluster_id)
            except BaseException:
                await self.close()
                raise
            if answer is not None:
                return answer
            await self.close()
        return None

    async def _try(self, probe: Probe, cluster_id: str | None) -> FetchAnswer | None:
        if self._address != probe.address:
            if not isinstance(await self._link.connect(probe.address), Connected):
                return None
            self._address = probe.address
        event = await self._link.ask(probe.request, cluster_id=cluster_id, is_behind=False)
        return event.answer if isinstance(event, FetchAnswered) else None
