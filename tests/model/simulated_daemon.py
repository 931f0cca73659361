"""The daemon without sockets, signals and timers: its endpoints are on a simulated network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import trio

from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.daemon.lifespan import Daemon
from authorizerd.daemon.net.binding import BoundEndpoint
from authorizerd.daemon.process.forced_end import ForcedEnd
from authorizerd.daemon.process.stages import Stage
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.protocol.worker_feed import WorkerAddress
from tests.model.invariants import check
from tests.model.network import MemoryListener
from tests.model.story import EARLY, LATE

if TYPE_CHECKING:
    from tests.model.process import Process

GATED: Final = (LATE, DECISION_HTTP, DECISION_STREAM)
"""The endpoints that open once the ACLs are loaded."""


class _Endpoint:
    """A ``BoundEndpoint`` of the simulated network."""

    port = 1
    path = None

    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._listening = trio.Event()
        self._listener: MemoryListener | None = None
        self.name = self.host = name
        self.address = f"{name}:1"

    def listen(self) -> list[MemoryListener]:
        self._process.check_opening(self.name)
        self._listening.set()
        self._listener = self._process.network.listen(self.name)
        return [self._listener]

    def place(self, name: str) -> WorkerAddress:
        return WorkerAddress(name)

    @property
    def is_listening(self) -> bool:
        return self._listening.is_set()

    async def wait_until_listening(self) -> None:
        await self._listening.wait()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


class _NoForcedEnd(ForcedEnd):
    def begin(self, seconds: int) -> None:
        """Start no timer: ``LIFE_S_MAX`` limits a life."""


class SimulatedDaemon(Daemon):
    """The daemon without sockets and signals."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.parts, None, ServiceManager({}), {}, _NoForcedEnd())
        self._process = process

    async def _bind(self, stack: ExitStack) -> dict[str, BoundEndpoint]:
        found = {}
        for name in (EARLY, *GATED, ADMIN_HTTP):
            found[name] = endpoint = _Endpoint(self._process, name)
            stack.callback(endpoint.close)
        return cast(dict[str, BoundEndpoint], found)

    def _start_authorizer(self, cluster: Cluster) -> ListenerGate:
        self._process.gate = super()._start_authorizer(cluster)
        self._process.started = self._process.gate._started
        check(self._process.started[EARLY].is_done, "an early endpoint does not open at once")
        return self._process.gate

    def _acting(self) -> Stage:
        stage = super()._acting()
        return replace(stage, services=(self._process.relay, *stage.services))

    async def _wait_for_end(self, signals: AsyncIterator[int]) -> None:
        await self._process.serve()
