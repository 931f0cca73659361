"""A story's daemon: its configuration, and its endpoints on a simulated network.

It has no sockets, signals and timers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final, cast

import trio

from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.daemon.lifespan import Daemon
from authorizerd.daemon.net.binding import BoundEndpoint
from authorizerd.daemon.process.forced_end import ForcedEnd
from authorizerd.daemon.process.stages import Stage
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.protocol.worker_feed import WorkerAddress
from tests.model.invariants import check
from tests.model.machine import LOG_DIR
from tests.model.network import MemoryListener
from tests.model.story import EARLY, LATE, USERS, Life

if TYPE_CHECKING:
    from tests.model.process import Process

GATED: Final = (LATE, DECISION_HTTP, DECISION_STREAM)
"""The endpoints that open once the ACLs are loaded."""
PASSWORD: Final = "secret"

_LOG_IN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_JAAS: Final = " ".join(f'user_{each.removeprefix("User:")}="{PASSWORD}"' for each in USERS)

_QUORUM: Final = (
    "controller.listener.names=CONTROLLER\n"
    "controller.quorum.bootstrap.servers=controller1:9093,controller2:9093\n"
)
_BROKERS: Final = (
    "authorizerd.source=brokers\n"
    "authorizerd.source.bootstrap.servers=broker11:9092,broker12:9092\n"
    "authorizerd.source.request.timeout.ms=2000\n"
    "authorizerd.source.poll.ms={}\n"
)
_FORWARD: Final = (
    "authorizerd.writes=forward\nauthorizerd.writes.forward.principals={}\n"
    "authorizerd.writes.forward.privileged=local-users,super-users\n"
)


def configure(
    life: Life, super_users: tuple[str, ...], everyone: bool, source: SourceKind
) -> Configuration:
    """Return the configuration of a life; ``everyone`` may do everything no ACL is about."""
    text = (
        f"node.id=1\nlog.dirs=/log\nsuper.users={';'.join(super_users)}\n"
        f"allow.everyone.if.no.acl.found={str(everyone).lower()}\n"
        f"authorizerd.update.timeout.ms={life.timeout_ms}\n"
        f"listeners={EARLY}://127.0.0.1:1,{LATE}://127.0.0.1:2\n"
        f"listener.security.protocol.map={EARLY}:SASL_PLAINTEXT,{LATE}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        f"sasl.enabled.mechanisms=PLAIN\nearly.start.listeners={EARLY}\n"
        f"listener.name.early.plain.sasl.jaas.config={_LOG_IN} {_JAAS};\n"
        f"listener.name.late.plain.sasl.jaas.config={_LOG_IN} {_JAAS};\n"
        "authorizerd.decision.stream=tcp://127.0.0.1:3\n"
        "metadata.log.max.snapshot.interval.ms=0\n"
        "metadata.max.retention.ms=-1\n"  # otherwise it would depend on the clock
        f"queued.max.requests={life.requests_max}\n"
        "connection.failed.authentication.delay.ms=0\n"
        f"authorizerd.workers={life.workers}\n"
        f"authorizerd.worker.timeout.ms={life.worker_timeout_ms}\n"
    )
    if source is not SourceKind.LOG:
        text += (
            f"authorizerd.source.stale.max.ms={life.stale_max_ms}\n"
            f"authorizerd.source.serve.copy={str(life.serves_copy).lower()}\n"
        )
        text += _BROKERS.format(life.poll_ms) if source is SourceKind.BROKERS else _QUORUM
        forwarded = ";".join(life.forwards)
        text += _FORWARD.format(forwarded) if forwarded else "authorizerd.writes=as-self\n"
    return replace(
        _parse(text),
        metadata_log_dir=str(LOG_DIR),
        metadata_log_segment_bytes=life.segment_bytes,
        metadata_log_max_record_bytes_between_snapshots=life.checkpoint_bytes,
        metadata_max_retention_bytes=life.retention_bytes,
    )


@cache
def _parse(text: str) -> Configuration:
    return parse(text, source="server.properties")


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

    def check_in_place(self) -> None:
        """Do nothing: there is no path."""

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
