"""The Kafka listener over real sockets: what a peer may send, and what becomes of it."""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acl.steps import finish
from config.jaas import PlainUsers
from daemon.kafka_handlers import Session
from daemon.kafka_listener import (
    FAILED_LOGIN_DELAY_S,
    LOGIN_REQUEST_BYTES_MAX,
    Handlers,
    KafkaListener,
)
from protocol.errors import DecodeError
from protocol.frames import frame
from protocol.kafka_acl_responses import Piece
from protocol.kafka_api import (
    APIS,
    ApiKey,
    decode_response,
    encode_request,
    has_response_tags,
    served_apis,
)
from protocol.kafka_connection import KafkaRequest
from protocol.kafka_errors import ErrorCode

USERS = PlainUsers({"alice": "alice-secret"})
GOOD_TOKEN = b"\0alice\0alice-secret"
BAD_TOKEN = b"\0alice\0wrong"
REQUEST_BYTES_MAX = 1024 * 1024
ENOUGH_S = 20
LARGE_BODY = bytes(64 * 1024 * 1024)
"""More than two sockets hold."""


@dataclass
class Echo:
    """Answers each request by its own body once it may; tells who asked what."""

    sessions: list[Session] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: Callable[[bytes], bytes] = bytes
    goes_on: trio.Event = field(default_factory=trio.Event)
    under_way: int = 0
    under_way_max: int = 0

    async def answer(self, request: KafkaRequest, session: Session) -> list[Piece]:
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
    """Return one that answers at once."""
    echo = Echo()
    echo.goes_on.set()
    return echo


class Service:
    """A listener that serves on ``port`` until it ``has_ended``; its clients go with it."""

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
        """Connections that are open, and those that were broken."""
        seen = self.listener.statistics
        return seen.connections_open, seen.connections_broken

    async def connect(self) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self._nursery.start_soon(keep_open, stream)
        return Client(stream)


class Client:
    """A client that says what a test tells it to."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = bytearray()

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def receive(self) -> bytes:
        """Return what the next frame holds."""
        with trio.fail_after(ENOUGH_S):
            while len(self._received) < 4 or len(self._received) < 4 + self._size:
                piece = await self.stream.receive_some()
                assert piece, "closed"
                self._received += piece
        end = 4 + self._size
        held = bytes(self._received[4:end])
        del self._received[:end]
        return held

    @property
    def _size(self) -> int:
        return int.from_bytes(self._received[:4], "big")

    async def ask(self, api_key: ApiKey, version: int, **fields: object) -> Any:  # noqa: ANN401
        """Return the entity that answers."""
        await self.send(request(api_key, version, **fields))
        return answer(api_key, version, await self.receive())

    async def log_in(self, token: bytes = GOOD_TOKEN) -> Any:  # noqa: ANN401 - an entity
        chosen = await self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert chosen.error_code == ErrorCode.NONE
        return await self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)

    async def echo(self, text: bytes) -> None:
        """See that the connection is well."""
        await self.send(to_echo(text))
        assert await self.receive() == echoed(text)

    async def is_closed(self) -> bool:
        """Wait for the end of what is sent; say whether nothing came before."""
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


async def start(
    nursery: trio.Nursery,
    handlers: Handlers | None = None,
    *,
    users: PlainUsers | None = None,
    room_bytes: int = 2 * REQUEST_BYTES_MAX,
    max_connections: int = 10,
    idle_timeout_ms: int = ENOUGH_S * 1000,
    drain_timeout_ms: int = ENOUGH_S * 1000,
    is_controller: bool = False,
) -> Service:
    listener = KafkaListener(
        name="TEST",
        handlers=handlers or free_echo(),
        users=users,
        request_bytes_max=REQUEST_BYTES_MAX,
        room_bytes=room_bytes,
        max_connections=max_connections,
        idle_timeout_ms=idle_timeout_ms,
        drain_timeout_ms=drain_timeout_ms,
        is_controller=is_controller,
    )
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = sockets[0].socket.getsockname()[1]
    service = Service(listener, port, nursery)
    await nursery.start(lambda task_status: service.serve(sockets, task_status=task_status))
    return service


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(ENOUGH_S):
        while not condition():
            await wait_all_tasks_blocked(0.001)


async def test_pipelined_requests_are_answered_in_order_one_at_a_time(
    nursery: trio.Nursery,
) -> None:
    """However the bytes were cut."""
    echo = free_echo()
    service = await start(nursery, echo)
    client = await service.connect()
    texts = [b"%d" % number for number in range(200)]
    sent = b"".join(to_echo(text, number) for number, text in enumerate(texts))
    nursery.start_soon(send_in_pieces, client, sent, 7)
    for number, text in enumerate(texts):
        assert await client.receive() == echoed(text, number)
    assert echo.bodies == texts
    assert echo.under_way_max == 1
    assert service.listener.statistics.requests == 200
    nursery.cancel_scope.cancel()


async def send_in_pieces(client: Client, data: bytes, size: int) -> None:
    for start in range(0, len(data), size):
        await client.send(data[start : start + size])


async def test_connections_do_not_wait_for_one_another(nursery: trio.Nursery) -> None:
    """A slow request holds up what its own connection sends next, and nothing else."""
    echo = Echo()
    service = await start(nursery, echo)
    slow, quick = await service.connect(), await service.connect()
    await slow.send(to_echo(b"slow"))
    await until(lambda: echo.under_way == 1)
    versions = await quick.ask(ApiKey.API_VERSIONS, 0)
    assert versions.error_code == ErrorCode.NONE
    echo.goes_on.set()
    assert await slow.receive() == echoed(b"slow")
    nursery.cancel_scope.cancel()


async def test_everyone_is_anonymous_where_nobody_has_to_log_in(nursery: trio.Nursery) -> None:
    """From the address that the socket has."""
    echo = free_echo()
    service = await start(nursery, echo)
    await (await service.connect()).echo(b"")
    assert echo.sessions == [
        Session(listener_name="TEST", principal="User:ANONYMOUS", host="127.0.0.1")
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize("is_controller", [False, True])
async def test_api_versions_tells_what_is_served(
    nursery: trio.Nursery, version: int, users: PlainUsers | None, is_controller: bool
) -> None:
    """In every version, log-in or not; a controller's listener has more."""
    service = await start(nursery, users=users, is_controller=is_controller)
    client = await service.connect()
    software = {"client_software_name": "tests", "client_software_version": "1.0"}
    versions = await client.ask(ApiKey.API_VERSIONS, version, **software)
    assert versions.error_code == ErrorCode.NONE
    assert [(each.api_key, each.min_version, each.max_version) for each in versions.api_keys] == [
        (key, api.first_version, api.last_version)
        for key, api in sorted(served_apis(is_controller=is_controller).items())
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [5, 6, 32767, -1])
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    nursery: trio.Nursery, version: int
) -> None:
    """KIP-511: UNSUPPORTED_VERSION and the versions that there are; whatever else it held."""
    client = await (await start(nursery)).connect()
    await client.send(frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 1, -1), b"\0future"))
    versions = answer(ApiKey.API_VERSIONS, 0, await client.receive())
    assert versions.error_code == ErrorCode.UNSUPPORTED_VERSION
    (only,) = versions.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (ApiKey.API_VERSIONS, 0, 4)
    assert (await client.ask(ApiKey.API_VERSIONS, only.max_version, **SOFTWARE)).error_code == 0
    nursery.cancel_scope.cancel()


SOFTWARE = {"client_software_name": "a", "client_software_version": "1"}


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("ä", "1")]
)
async def test_software_by_a_bad_name_is_an_invalid_request(
    nursery: trio.Nursery, name: str, version: str
) -> None:
    """KIP-511: and no more is said; the connection stays."""
    client = await (await start(nursery)).connect()
    software = {"client_software_name": name, "client_software_version": version}
    refused = await client.ask(ApiKey.API_VERSIONS, 3, **software)
    assert (refused.error_code, refused.api_keys) == (ErrorCode.INVALID_REQUEST, ())
    await client.echo(b"well")
    nursery.cancel_scope.cancel()


HEADER = struct.Struct(">hhih")
BAD_BYTES = {
    "unknown API": frame(HEADER.pack(9999, 0, 1, -1)),
    "API that is not served": frame(HEADER.pack(0, 9, 1, -1)),
    "API of controllers": frame(HEADER.pack(ApiKey.ENVELOPE, 1, 1, -1), b"\0\1\1\1\0"),
    "unknown version": frame(HEADER.pack(ApiKey.METADATA, 99, 1, -1)),
    "negative version": frame(HEADER.pack(ApiKey.METADATA, -1, 1, -1)),
    "oversized": (REQUEST_BYTES_MAX + 1).to_bytes(4, "big"),
    "huge": b"\x7f\xff\xff\xff",
    "negative size": b"\xff\xff\xff\xff",
    "nothing": bytes(4),
    "truncated header": frame(b"\0\x1d\0\0"),
    "client id past the end": frame(HEADER.pack(ApiKey.METADATA, 0, 1, 5), b"abc"),
    "truncated tags": frame(HEADER.pack(ApiKey.METADATA, 9, 1, -1)),
    "truncated body": frame(HEADER.pack(ApiKey.API_VERSIONS, 3, 1, -1), b"\0\x05ab"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303"),
}


@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize("bad", BAD_BYTES.values(), ids=BAD_BYTES)
async def test_what_is_no_request_closes_its_own_connection_only(
    nursery: trio.Nursery, bad: bytes, users: PlainUsers | None
) -> None:
    """Unanswered, as Kafka does; what stands behind it is not looked at."""
    echo = free_echo()
    service = await start(nursery, echo, users=users)
    other, client = await service.connect(), await service.connect()
    if users is not None:
        await other.log_in()
    await client.send(bad + to_echo(b"behind"))
    assert await client.is_closed()
    assert service.listener.statistics.connections_broken == 1
    await other.echo(b"well")
    assert echo.bodies == [b"well"]
    nursery.cancel_scope.cancel()


async def test_what_came_before_is_answered_first(nursery: trio.Nursery) -> None:
    """Then the connection ends."""
    client = await (await start(nursery)).connect()
    await client.send(to_echo(b"good"), BAD_BYTES["unknown API"])
    assert await client.receive() == echoed(b"good")
    assert await client.is_closed()
    nursery.cancel_scope.cancel()


class Faulty:
    """Handlers with a fault."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def answer(self, request: KafkaRequest, session: Session) -> list[Piece]:
        raise self._error


@pytest.mark.parametrize(
    ("error", "level"), [(DecodeError("bad", 3), "INFO"), (RuntimeError("fault"), "ERROR")]
)
async def test_a_fault_of_an_answer_costs_one_connection(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    """The peer's is told in a line, the daemon's own with its traceback."""
    caplog.set_level(logging.INFO)
    service = await start(nursery, Faulty(error))
    client, other = await service.connect(), await service.connect()
    await client.send(to_echo(b""))
    assert await client.is_closed()
    assert [record.levelname for record in caplog.records] == [level]
    assert (caplog.records[0].exc_info is not None) is (level == "ERROR")
    assert (await other.ask(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert service.statistics == (1, 1)
    nursery.cancel_scope.cancel()


async def test_a_client_that_goes_away_is_forgotten(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, within or after a request, by end or by reset: no fault and no trace in the log."""
    caplog.set_level(logging.INFO)
    service = await start(nursery)
    for sent in (b"", b"\0\0", to_echo(b"x")[:-1], to_echo(b"x")):
        for is_reset in (False, True):
            client = await service.connect()
            if is_reset:
                linger = struct.pack("ii", 1, 0)
                client.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if sent:
                await client.send(sent)
            await client.stream.aclose()
    await (await service.connect()).echo(b"well")
    await until(lambda: service.statistics[0] <= 1)
    assert service.statistics[1] == 0
    assert caplog.records == []
    nursery.cancel_scope.cancel()


async def test_a_peer_that_is_gone_before_it_is_looked_at_is_forgotten(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address is not known any more, which is no fault of ours."""

    def getpeername(self: object) -> Any:  # noqa: ANN401 - a socket's address
        raise OSError("not connected")

    service = await start(nursery)
    client = await service.connect()
    monkeypatch.setattr(type(client.stream.socket), "getpeername", getpeername)
    second = await service.connect()
    assert await second.is_closed()
    assert caplog.records == []
    nursery.cancel_scope.cancel()


async def test_a_log_in_makes_a_principal(nursery: trio.Nursery) -> None:
    """SaslHandshake version 1, SaslAuthenticate of any version, then requests."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    for version in range(3):
        client = await service.connect()
        chosen = await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.NONE, ("PLAIN",))
        taken = await client.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=GOOD_TOKEN)
        assert (taken.error_code, taken.error_message) == (ErrorCode.NONE, "")
        await client.echo(b"")
    assert {session.principal for session in echo.sessions} == {"User:alice"}
    assert service.listener.statistics.logins_failed == 0
    nursery.cancel_scope.cancel()


async def test_a_log_in_by_raw_tokens(nursery: trio.Nursery) -> None:
    """After SaslHandshake version 0 a token comes in no request, and an empty one answers it."""
    echo = free_echo()
    client = await (await start(nursery, echo, users=USERS)).connect()
    chosen = await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    assert chosen.error_code == ErrorCode.NONE
    await client.send(frame(GOOD_TOKEN), to_echo(b"pipelined"))
    assert await client.receive() == b""
    assert await client.receive() == echoed(b"pipelined")
    assert echo.sessions[0].principal == "User:alice"
    nursery.cancel_scope.cancel()


async def test_a_failed_log_in_waits_and_is_closed(nursery: trio.Nursery) -> None:
    """Answered after the delay; what was pipelined behind it is never looked at."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    client = await service.connect()
    await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    started = trio.current_time()
    await client.send(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=BAD_TOKEN))
    refused = answer(ApiKey.SASL_AUTHENTICATE, 2, await client.receive())
    assert trio.current_time() - started >= FAILED_LOGIN_DELAY_S
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.error_message == "Authentication failed: Invalid username or password"
    assert await client.is_closed()
    impatient = await service.connect()
    await impatient.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    await impatient.send(
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=BAD_TOKEN),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN),
        to_echo(b"in"),
    )
    await impatient.receive()
    assert await impatient.is_closed()
    assert service.listener.statistics.logins_failed == 2
    assert echo.bodies == []
    nursery.cancel_scope.cancel()


async def test_a_failed_raw_token_is_closed_unanswered(nursery: trio.Nursery) -> None:
    """There is nothing that could say why."""
    service = await start(nursery, users=USERS)
    client = await service.connect()
    await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    started = trio.current_time()
    await client.send(frame(BAD_TOKEN))
    assert await client.is_closed()
    assert trio.current_time() - started >= FAILED_LOGIN_DELAY_S
    assert service.listener.statistics.logins_failed == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [0, 1])
async def test_an_unsupported_mechanism_is_told_what_there_is(
    nursery: trio.Nursery, version: int
) -> None:
    """Then closed, as Kafka does."""
    client = await (await start(nursery, users=USERS)).connect()
    refused = await client.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="SCRAM-SHA-256")
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == ("PLAIN",)
    assert await client.is_closed()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "early",
    [
        to_echo(b"early"),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN),
        frame(GOOD_TOKEN),
    ],
    ids=["request", "authenticate", "raw token"],
)
@pytest.mark.parametrize("has_handshake", [False, True])
async def test_what_comes_before_its_turn_closes(
    nursery: trio.Nursery, early: bytes, has_handshake: bool
) -> None:
    """A request before the log-in, a token before the handshake, or of the other kind."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    client = await service.connect()
    if has_handshake:
        handshake_version = 0 if b"early" not in early and early != frame(GOOD_TOKEN) else 1
        await client.ask(ApiKey.SASL_HANDSHAKE, handshake_version, mechanism="PLAIN")
    await client.send(early)
    assert await client.is_closed()
    assert echo.sessions == []
    assert service.listener.statistics.connections_broken == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("users", [None, USERS])
async def test_nobody_logs_in_twice(nursery: trio.Nursery, users: PlainUsers | None) -> None:
    """ILLEGAL_SASL_STATE, also where everyone is ANONYMOUS; the connection stays who it is."""
    echo = free_echo()
    client = await (await start(nursery, echo, users=users)).connect()
    if users is not None:
        await client.log_in()
    for version in (0, 1):
        refused = await client.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
        again = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN)
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    await client.echo(b"well")
    principal = "User:ANONYMOUS" if users is None else "User:alice"
    assert [session.principal for session in echo.sessions] == [principal]
    nursery.cancel_scope.cancel()


async def test_strangers_send_small_requests(nursery: trio.Nursery) -> None:
    """512 KiB before the log-in, more after it."""
    service = await start(nursery, users=USERS)
    client = await service.connect()
    await client.send((LOGIN_REQUEST_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await client.is_closed()
    known = await service.connect()
    await known.log_in()
    await known.echo(bytes(LOGIN_REQUEST_BYTES_MAX + 1))
    at_most = await service.connect()
    padding = bytes(LOGIN_REQUEST_BYTES_MAX - 10)
    await at_most.send(frame(HEADER.pack(ApiKey.API_VERSIONS, 0, 1, -1), padding))
    assert answer(ApiKey.API_VERSIONS, 0, await at_most.receive()).error_code == 0
    nursery.cancel_scope.cancel()


async def test_connections_beyond_the_most_are_closed(nursery: trio.Nursery) -> None:
    """And counted; as one ends another is taken."""
    service = await start(nursery, max_connections=2)
    first, second = await service.connect(), await service.connect()
    await first.echo(b"1")
    await second.echo(b"2")
    assert await (await service.connect()).is_closed()
    assert service.listener.statistics.connections_refused == 1
    await first.stream.aclose()
    await until(lambda: service.statistics[0] == 1)
    await (await service.connect()).echo(b"3")
    nursery.cancel_scope.cancel()


async def test_an_idle_connection_is_closed(nursery: trio.Nursery) -> None:
    """Between requests, within one, and before the log-in."""
    service = await start(nursery, idle_timeout_ms=50)
    for sent in (b"", to_echo(b"cut")[:-1]):
        client = await service.connect()
        if sent:
            await client.send(sent)
        assert await client.is_closed()
    await until(lambda: service.statistics[0] == 0)
    nursery.cancel_scope.cancel()


async def test_a_slow_answer_is_not_idleness(nursery: trio.Nursery) -> None:
    """A connection is not closed while its request is under way."""
    echo = Echo()
    service = await start(nursery, echo, idle_timeout_ms=50)
    client = await service.connect()
    await client.send(to_echo(b"slow"))
    await trio.sleep(0.1)
    echo.goes_on.set()
    assert await client.receive() == echoed(b"slow")
    nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_is_closed(nursery: trio.Nursery) -> None:
    """It would hold its connection, and its answer's memory, for ever."""
    echo = free_echo()
    echo.answers = lambda body: LARGE_BODY
    service = await start(nursery, echo, idle_timeout_ms=100)
    client = await service.connect()
    await client.send(to_echo(b""))
    await until(lambda: service.statistics == (0, 1))
    nursery.cancel_scope.cancel()


async def test_a_large_answer_comes_whole(nursery: trio.Nursery) -> None:
    """In pieces, to whoever reads it."""
    echo = free_echo()
    echo.answers = lambda body: LARGE_BODY[: 8 * 1024 * 1024] + body
    client = await (await start(nursery, echo)).connect()
    await client.send(to_echo(b"end"), to_echo(b"2", 2))
    held = await client.receive()
    assert len(held) == 4 + 8 * 1024 * 1024 + 3
    assert held.endswith(b"end")
    assert (await client.receive()).endswith(b"2")
    nursery.cancel_scope.cancel()


async def test_a_drain_answers_what_is_under_way(nursery: trio.Nursery) -> None:
    """Idle connections are closed at once, new ones refused; then serve returns."""
    echo = Echo()
    service = await start(nursery, echo)
    idle, busy = await service.connect(), await service.connect()
    await busy.send(to_echo(b"busy"))
    await until(lambda: echo.under_way == 1 and service.statistics[0] == 2)
    nursery.start_soon(service.listener.drain)
    assert await idle.is_closed()
    with pytest.raises(OSError, match="connect"):
        await service.connect()
    assert echo.under_way == 1
    echo.goes_on.set()
    assert await busy.receive() == echoed(b"busy")
    assert await busy.is_closed()
    with trio.fail_after(ENOUGH_S):
        await service.has_ended.wait()
    nursery.cancel_scope.cancel()


async def test_a_drain_answers_what_has_arrived(nursery: trio.Nursery) -> None:
    """A request that nobody has looked at yet does not make its connection idle."""
    service = await start(nursery)
    client = await service.connect()
    await client.echo(b"idle from here")
    await wait_all_tasks_blocked()
    os.write(client.stream.socket.fileno(), to_echo(b"arrived"))
    with trio.fail_after(ENOUGH_S):
        await service.listener.drain()
    assert await client.receive() == echoed(b"arrived")
    assert await client.is_closed()
    nursery.cancel_scope.cancel()


async def test_a_drain_waits_only_so_long(nursery: trio.Nursery) -> None:
    """A request that takes longer is cut off."""
    echo = Echo()
    service = await start(nursery, echo, drain_timeout_ms=50)
    client = await service.connect()
    await client.send(to_echo(b"never"))
    await until(lambda: echo.under_way == 1)
    with trio.fail_after(ENOUGH_S):
        await service.listener.drain()
        assert await client.is_closed()
        await service.has_ended.wait()
    assert echo.under_way == 0
    nursery.cancel_scope.cancel()


async def test_a_drain_of_nobody_ends_at_once(nursery: trio.Nursery) -> None:
    """There is nothing to wait for."""
    service = await start(nursery)
    with trio.fail_after(ENOUGH_S / 2):
        await service.listener.drain()
        await service.has_ended.wait()
