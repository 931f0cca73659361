"""A Kafka listener over real sockets, and a client that a test controls."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import trio
from immutables import Map
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, at_offset
from authorizerd.acl.steps import finish
from authorizerd.actors.published import Published
from authorizerd.config.jaas import PlainUsers
from authorizerd.config.sasl import SaslSettings
from authorizerd.daemon.kafka.api_versions import ApiVersionsHandler
from authorizerd.daemon.kafka.cluster import Cluster, Node
from authorizerd.daemon.kafka.dispatch import Session
from authorizerd.daemon.kafka.listener import Handlers, KafkaListener
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import APIS, ApiKey, has_response_tags
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.support.kio_codec import decode_response, encode_request
from tests.support.sasl import LoadedCredentials, sasl_settings

USERS = PlainUsers({"alice": "alice-secret", "root": "root-secret"})
GOOD_TOKEN = b"\0alice\0alice-secret"
ROOT_TOKEN = b"\0root\0root-secret"
BAD_TOKEN = b"\0alice\0wrong"
REQUEST_BYTES_MAX = 1024 * 1024
ENOUGH_S = 20
SOFTWARE: dict[str, object] = {
    "client_software_name": "a",
    "client_software_version": "1",
    "cluster_id": None,
    "node_id": -1,
}
"""The fields of ApiVersions, in all its versions."""
HEADER = struct.Struct(">hhih")


@dataclass
class Echo:
    """Answer each request with its own body, once ``goes_on`` is set."""

    sessions: list[Session] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: Callable[[bytes], bytes] = bytes
    goes_on: trio.Event = field(default_factory=trio.Event)
    under_way: int = 0
    under_way_max: int = 0

    async def answer(self, request: KafkaRequest, session: Session) -> list[Chunk]:
        self.sessions.append(session)
        self.bodies.append(bytes(request.body))
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        try:
            await self.goes_on.wait()
            await trio.lowlevel.checkpoint()
        finally:
            self.under_way -= 1
        return [self.answers(bytes(request.body))]


def free_echo() -> Echo:
    """Return an ``Echo`` that answers at once."""
    echo = Echo()
    echo.goes_on.set()
    return echo


class Service:
    """A listener on ``port``, and the clients that are closed with it."""

    def __init__(self, listener: KafkaListener, port: int, nursery: trio.Nursery) -> None:
        self.listener = listener
        self.port = port
        self.has_ended = trio.Event()
        self._nursery = nursery

    async def serve(
        self, sockets: list[trio.SocketListener], *, task_status: trio.TaskStatus[None]
    ) -> None:
        await self.listener.serve(sockets, task_status=task_status)
        self.has_ended.set()

    @property
    def statistics(self) -> tuple[int, int]:
        """The numbers of open and of broken connections."""
        seen = self.listener.statistics
        return seen.connections_open, seen.connections_broken

    async def connect(self) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self._nursery.start_soon(keep_open, stream)
        return Client(stream)


class Client:
    """A client that a test controls."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = bytearray()

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def receive(self) -> bytes:
        """Return the content of the next frame."""
        with trio.fail_after(ENOUGH_S):
            while len(self._received) < 4 or len(self._received) < 4 + self._size:
                chunk = await self.stream.receive_some()
                assert chunk, "closed"
                self._received += chunk
        end = 4 + self._size
        held = bytes(self._received[4:end])
        del self._received[:end]
        return held

    @property
    def _size(self) -> int:
        return int.from_bytes(self._received[:4], "big")

    async def ask(self, api_key: ApiKey, version: int, **fields: object) -> Any:  # noqa: ANN401
        """Send a request; return the answer as an entity."""
        await self.send(request(api_key, version, **fields))
        return answer(api_key, version, await self.receive())

    async def choose(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        """Choose a mechanism, which the listener accepts."""
        chosen = await self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
        assert chosen.error_code == ErrorCode.NONE

    async def send_token(self, token: bytes) -> None:
        await self.send(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token))

    async def log_in(self, token: bytes = GOOD_TOKEN) -> Any:  # noqa: ANN401 - an entity
        await self.choose()
        return await self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)

    async def echo(self, text: bytes) -> None:
        """Check that the connection still answers."""
        await self.send(to_echo(text))
        assert await self.receive() == echoed(text)

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; return True if nothing was sent before it."""
        with trio.fail_after(ENOUGH_S):
            try:
                return not self._received and await self.stream.receive_some() == b""
            except trio.BrokenResourceError:
                return True


async def keep_open(stream: trio.SocketStream) -> None:
    async with stream:
        await trio.sleep_forever()


def request(api_key: ApiKey, version: int, **fields: object) -> bytes:
    body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
    tags = b"\0" if APIS[api_key].is_flexible(version) else b""
    return frame(struct.pack(">hhih", api_key, version, 1, -1), tags, body)


def to_echo(text: bytes, correlation_id: int = 1) -> bytes:
    return frame(struct.pack(">hhih", ApiKey.DESCRIBE_ACLS, 0, correlation_id, -1), text)


def echoed(text: bytes, correlation_id: int = 1) -> bytes:
    return correlation_id.to_bytes(4, "big") + text


def answer(api_key: ApiKey, version: int, held: bytes) -> Any:  # noqa: ANN401 - an entity
    start = 5 if has_response_tags(api_key, version) else 4
    assert held[:4] == b"\0\0\0\1"
    return finish(decode_response(api_key, version, held[start:]))


def versions_of(
    name: str = "TEST",
    *,
    cluster_id: str = "cluster-1",
    features: Mapping[str, int] | None = None,
    offset: int | None = None,
    is_controller: bool = False,
) -> ApiVersionsHandler:
    """Return the handler of node 7 for one listener. Without ``offset``, nothing is loaded."""
    controllers = frozenset({name} if is_controller else ())
    return ApiVersionsHandler(
        Cluster(cluster_id, {name: Node(7, "broker.example", 9092)}, controllers),
        Published(ClusterImage(features=Map(features or {}))),
        Published(None if offset is None else at_offset(EMPTY_SNAPSHOT, offset)),
    )


async def start(
    nursery: trio.Nursery,
    handlers: Handlers | None = None,
    *,
    versions: ApiVersionsHandler | None = None,
    users: PlainUsers | None = None,
    sasl: SaslSettings | None = None,
    credentials: LoginCredentials | None = None,
    tokens: TokenCheck | None = None,
    failed_login_delay_ms: int = 100,
    memory_bytes_max: int = 2 * REQUEST_BYTES_MAX,
    max_connections: int = 10,
    reserved: int = 0,
    login_timeout_ms: int = ENOUGH_S * 1000,
    idle_timeout_ms: int = ENOUGH_S * 1000,
    drain_timeout_ms: int = ENOUGH_S * 1000,
    is_controller: bool = False,
) -> Service:
    listener = KafkaListener(
        name="TEST",
        handlers=handlers or free_echo(),
        versions=versions or versions_of(),
        sasl=sasl_settings(users=users) if users is not None else sasl,
        credentials=credentials or LoadedCredentials(),
        tokens=tokens,
        failed_login_delay_ms=failed_login_delay_ms,
        request_bytes_max=REQUEST_BYTES_MAX,
        memory_bytes_max=memory_bytes_max,
        limits=ConnectionLimits(
            connections_max=max_connections + reserved,
            reserved=reserved,
            login_timeout_s=login_timeout_ms / 1000,
            request_timeout_s=idle_timeout_ms / 1000,
            idle_timeout_s=idle_timeout_ms / 1000,
            drain_timeout_s=drain_timeout_ms / 1000,
        ),
        is_super_user=lambda principal: principal == "User:root",
        is_controller=is_controller,
        clock=trio.current_time,
    )
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = sockets[0].socket.getsockname()[1]
    service = Service(listener, port, nursery)
    await nursery.start(lambda task_status: service.serve(sockets, task_status=task_status))
    return service


Listen = Callable[..., Awaitable[Service]]
"""``start`` in the nursery of a test."""


async def with_client(service: Service) -> tuple[Service, Client]:
    return service, await service.connect()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(ENOUGH_S):
        while not condition():
            await wait_all_tasks_blocked(0.001)


async def send_in_pieces(client: Client, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        await client.send(data[start : start + size])
