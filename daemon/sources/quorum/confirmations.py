"""Wait until everything that was committed before a call is applied here.

**Invariant:** a wait ends only by an answer that the leader gave after the wait began. A change
that another node acknowledged must also be visible: a deposed leader answers as before until it
hears of its successor, and does not know what the successor has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.steps import finish_in_turns
from authorizerd.daemon.sources.quorum.link import LeaderProbe
from authorizerd.daemon.sources.quorum.machine import Machine
from authorizerd.daemon.sources.quorum.messages import ReleaseBarriers
from authorizerd.daemon.sources.writes.evidence import are_visible
from authorizerd.kafka_client.address import Address

DEPOSED_PAUSE_SECONDS: Final = 0.1
"""The pause before the leader is asked again whether it has an acknowledged change."""


@dataclass(slots=True)
class _Wait:
    """A wait for a barrier, and the leader whose answer ended it."""

    ended: trio.Event = field(default_factory=trio.Event)
    leader: Address | None = None


class Confirmations:
    """The waits for one source.

    Args:
        machine: returns the source's machine, which changes once.
        probe: asks the leader between the usual Fetches.
        applied: the newest state of the applier, also while decisions are stopped.
    """

    def __init__(
        self, machine: Callable[[], Machine], probe: LeaderProbe, applied: View[AclSnapshot | None]
    ) -> None:
        self._machine: Final = machine
        self._probe: Final = probe
        self._applied: Final = applied
        self._waits: Final[dict[int, _Wait]] = {}

    async def wait(
        self,
        created: Sequence[Acl],
        deleted: Sequence[AclFilter],
        acknowledged_by: Address | None,
    ) -> None:
        """Return once all that was committed before the call is applied; see ``Destination``."""
        while True:
            leader = await self._pass_barrier()
            # The machine may already count records that are only about to be passed on.
            offset = self._machine().log.committed_end - 1
            state = await self._applied.wait_until(
                lambda newest: newest is not None and newest.offset >= offset  # noqa: B023 - at once
            )
            assert state is not None
            if acknowledged_by in (None, leader):
                return
            if await finish_in_turns(are_visible(state, created, deleted)):
                return
            del state  # freeing it later would block the loop
            await trio.sleep(DEPOSED_PAUSE_SECONDS)

    async def _pass_barrier(self) -> Address:
        """Return the leader that answered a Fetch sent after the call, once all is passed on."""
        ticket = self._machine().barriers.add()
        wait = self._waits[ticket] = _Wait()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask_leader)
                await wait.ended.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._waits.pop(ticket, None)
        assert wait.leader is not None, "released"
        return wait.leader

    async def _ask_leader(self) -> None:
        """Release barriers sooner than the usual Fetch. One answer serves all waiting tasks."""
        async with self._probe.lock:
            machine = self._machine()
            probe = machine.begin_probe()
            if probe is None:
                return
            answer = await self._probe.fetch(probe, cluster_id=machine.cluster_id)
            release = None if answer is None else machine.end_probe(probe, answer)
            if release is not None:
                self.release(release)

    def release(self, release: ReleaseBarriers) -> None:
        """End the waits for these barriers."""
        for ticket in [each for each in self._waits if each <= release.ticket]:
            wait = self._waits.pop(ticket)
            wait.leader = release.leader
            wait.ended.set()
