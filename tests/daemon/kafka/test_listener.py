"""The Kafka listener over real sockets: valid and invalid requests, and disconnects."""

import logging
import math
import socket
import struct
from typing import Any
from unittest.mock import Mock

import pytest
import trio

from authorizerd.config.jaas import PlainUsers
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.kafka.dispatch import Session
from authorizerd.daemon.net import arrivals
from authorizerd.daemon.net.arrivals import peer_address
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import APIS, ApiKey, served_apis
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.daemon.kafka_listener_service import (
    HEADER,
    REQUEST_BYTES_MAX,
    SOFTWARE,
    USERS,
    Echo,
    Listen,
    answer,
    echoed,
    free_echo,
    send_in_pieces,
    to_echo,
    until,
    with_client,
)


async def test_pipelined_requests_are_answered_in_order_one_at_a_time(
    listen: Listen, nursery: trio.Nursery
) -> None:
    echo = free_echo()
    service, client = await with_client(await listen(echo))
    texts = [b"%d" % number for number in range(200)]
    sent = b"".join(to_echo(text, number) for number, text in enumerate(texts))
    nursery.start_soon(send_in_pieces, client, sent, 7)
    for number, text in enumerate(texts):
        assert await client.receive() == echoed(text, number)
    assert echo.bodies == texts
    assert echo.under_way_max == 1
    assert service.listener.statistics.requests == 200


async def test_slow_request_delays_only_its_own_connection(listen: Listen) -> None:
    echo = Echo()
    service = await listen(echo)
    slow, quick = await service.connect(), await service.connect()
    await slow.send(to_echo(b"slow"))
    await until(lambda: echo.under_way == 1)
    versions = await quick.ask(ApiKey.API_VERSIONS, 0)
    assert versions.error_code == ErrorCode.NONE
    echo.goes_on.set()
    assert await slow.receive() == echoed(b"slow")


async def test_certificate_that_has_expired_identifies_no_further_request(listen: Listen) -> None:
    """The clock is compared for each request, before any sweep."""
    echo = Echo()
    echo.goes_on.set()
    service, client = await with_client(await listen(echo))
    await client.send(to_echo(b"one", 1))
    assert await client.receive() == echoed(b"one", 1)
    (connection,) = service.listener._open
    connection.expires_at = -math.inf
    await client.send(to_echo(b"two", 2))
    assert await client.is_closed()
    assert len(echo.bodies) == 1


async def test_client_that_never_pauses_ends_with_its_certificate(listen: Listen) -> None:
    echo = Echo()
    service, client = await with_client(await listen(echo))
    await client.send(to_echo(b"one", 1), to_echo(b"two", 2))
    await until(lambda: len(echo.bodies) == 1)
    (connection,) = service.listener._open
    connection.expires_at = -math.inf
    await trio.sleep(3 * SWEEP_SECONDS)
    echo.goes_on.set()
    assert await client.receive() == echoed(b"one", 1)
    assert await client.is_closed()
    assert len(echo.bodies) == 1
    assert service.listener.statistics.connections_expired == 1


async def test_clients_are_anonymous_without_log_ins(listen: Listen) -> None:
    """The host is the socket's peer address."""
    echo = free_echo()
    service = await listen(echo)
    await (await service.connect()).echo(b"")
    assert echo.sessions == [
        Session(
            listener_name="TEST",
            security_protocol=SecurityProtocol.PLAINTEXT,
            principal="User:ANONYMOUS",
            host="127.0.0.1",
        )
    ]


@pytest.mark.parametrize("version", APIS[ApiKey.API_VERSIONS].versions)
@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize("is_controller", [False, True])
async def test_api_versions_lists_the_served_apis(
    listen: Listen, version: int, users: PlainUsers | None, is_controller: bool
) -> None:
    """This holds in every version, with or without SASL. A controller's listener lists more."""
    client = await (await listen(users=users, is_controller=is_controller)).connect()
    versions = await client.ask(ApiKey.API_VERSIONS, version, **SOFTWARE)
    assert versions.error_code == ErrorCode.NONE
    assert [(each.api_key, each.min_version, each.max_version) for each in versions.api_keys] == [
        (key, api.first_version, api.last_version)
        for key, api in sorted(served_apis(is_controller=is_controller).items())
    ]


@pytest.mark.parametrize("version", [6, 7, 32767, -1])
async def test_unknown_version_of_api_versions_is_answered_in_version_0(
    listen: Listen, version: int
) -> None:
    """KIP-511: whatever the body, the error is UNSUPPORTED_VERSION, with the supported versions."""
    client = await (await listen()).connect()
    await client.send(frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 1, -1), b"\0future"))
    versions = answer(ApiKey.API_VERSIONS, 0, await client.receive())
    assert versions.error_code == ErrorCode.UNSUPPORTED_VERSION
    (only,) = versions.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (ApiKey.API_VERSIONS, 0, 5)
    assert (await client.ask(ApiKey.API_VERSIONS, only.max_version, **SOFTWARE)).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("ä", "1")]
)
async def test_invalid_client_software_is_refused(listen: Listen, name: str, version: str) -> None:
    """KIP-511: the answer has nothing else; the connection stays open."""
    client = await (await listen()).connect()
    software = {"client_software_name": name, "client_software_version": version}
    refused = await client.ask(ApiKey.API_VERSIONS, 3, **software)
    assert (refused.error_code, refused.api_keys) == (ErrorCode.INVALID_REQUEST, ())
    await client.echo(b"well")


BAD_BYTES = {
    "unknown API": frame(HEADER.pack(9999, 0, 1, -1)),
    "API of controllers": frame(HEADER.pack(ApiKey.ENVELOPE, 1, 1, -1), b"\0\1\1\1\0"),
    "unknown version": frame(HEADER.pack(ApiKey.METADATA, 99, 1, -1)),
    "oversized": (REQUEST_BYTES_MAX + 1).to_bytes(4, "big"),
    "truncated header": frame(b"\0\x1d\0\0"),
    "truncated body": frame(HEADER.pack(ApiKey.API_VERSIONS, 3, 1, -1), b"\0\x05ab"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("users", [None, USERS])
@pytest.mark.parametrize("bad", BAD_BYTES.values(), ids=BAD_BYTES)
async def test_malformed_request_closes_only_its_connection(
    listen: Listen, bad: bytes, users: PlainUsers | None
) -> None:
    """As in Kafka it gets no answer; bytes after it are ignored."""
    echo = free_echo()
    service = await listen(echo, users=users)
    other, client = await service.connect(), await service.connect()
    if users is not None:
        await other.log_in()
    await client.send(bad + to_echo(b"behind"))
    assert await client.is_closed()
    assert service.listener.statistics.connections_broken == 1
    await other.echo(b"well")
    assert echo.bodies == [b"well"]


async def test_requests_before_a_malformed_one_are_answered(listen: Listen) -> None:
    client = await (await listen()).connect()
    await client.send(to_echo(b"good"), BAD_BYTES["unknown API"])
    assert await client.receive() == echoed(b"good")
    assert await client.is_closed()


class Faulty:
    """Handlers that raise an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def answer(self, request: KafkaRequest, session: Session) -> list[Chunk]:
        raise self._error


@pytest.mark.parametrize(
    ("error", "level"), [(DecodeError("bad", 3), "INFO"), (RuntimeError("fault"), "ERROR")]
)
async def test_fault_ends_one_connection_and_is_logged(
    listen: Listen, caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    """A peer's fault is logged as one line, a fault of the daemon with its traceback."""
    caplog.set_level(logging.INFO)
    service = await listen(Faulty(error))
    client, other = await service.connect(), await service.connect()
    await client.send(to_echo(b""))
    assert await client.is_closed()
    assert [record.levelname for record in caplog.records] == [level]
    assert (caplog.records[0].exc_info is not None) is (level == "ERROR")
    assert (await other.ask(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert service.statistics == (1, 1)


async def test_disconnected_client_leaves_no_log_line(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """It may disconnect before, within or after a request, by end or by reset."""
    caplog.set_level(logging.INFO)
    service = await listen()
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


async def test_peer_that_disconnects_before_its_address_is_read_is_not_a_fault(
    listen: Listen, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:

    def get_address(_: object) -> None:
        raise trio.BrokenResourceError("not connected")

    service = await listen()
    monkeypatch.setattr(arrivals, "peer_address", get_address)
    assert await (await service.connect()).is_closed()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        (("10.0.0.1", 9), "10.0.0.1"),
        (("::ffff:10.0.0.1", 9, 0, 0), "10.0.0.1"),
        (("2001:db8::9", 9, 7, 0), "2001:db8:0:0:0:0:0:9"),
        (("fe80::1", 9, 0, 4), "fe80:0:0:0:0:0:0:1%4"),
    ],
)
async def test_peer_host_is_formatted_as_in_java(
    listen: Listen, monkeypatch: pytest.MonkeyPatch, peer: tuple[Any, ...], host: str
) -> None:
    """A link-local address ends with the number of the interface that leads to the peer."""
    echo = free_echo()
    service = await listen(echo)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connected = Mock(spec=socket.socket, family=family, getpeername=lambda: peer)
    monkeypatch.setattr(arrivals, "peer_address", lambda _: peer_address(connected))
    await (await service.connect()).echo(b"x")
    assert echo.sessions[-1].host == host


@pytest.mark.parametrize(
    "api_key",
    [ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS],
)
async def test_controller_listener_closes_on_broker_apis(listen: Listen, api_key: ApiKey) -> None:
    header = struct.pack(">hhih", api_key, 0, 7, -1)
    for is_controller in (True, False):
        echo = free_echo()
        client = await (await listen(echo, is_controller=is_controller)).connect()
        await client.send(frame(header + b"x"))
        if is_controller:
            assert await client.is_closed()
            assert echo.bodies == []
        else:
            assert await client.receive()
            assert echo.bodies == [b"x"]
