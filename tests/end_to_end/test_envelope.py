"""Envelopes on a controller's listener, byte by byte over real sockets."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import Operation
from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from tests.daemon.kafka_listener_service import SOFTWARE, Client, keep_open, versions_of
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, on_cluster, start
from tests.support.acls import acl
from tests.support.daemon_process import connect, new_log, running
from tests.support.envelopes import ALICE as ALICE_BYTES
from tests.support.envelopes import (
    JAVA_ANSWER_V1,
    JAVA_ANSWER_V3,
    JAVA_CREATE_V1,
    JAVA_CREATE_V3,
    envelope,
    inner,
)
from tests.support.sasl import LoadedCredentials, sasl_settings

USERS = PlainUsers({"root": "r", "broker": "b", "alice": "a"})
ROOT_TOKEN, BROKER_TOKEN, ALICE_TOKEN = b"\0root\0r", b"\0broker\0b", b"\0alice\0a"
MAY_FORWARD = acl("User:broker", "CLUSTER_ACTION", cluster=True)
MAY_ALTER = on_cluster(Operation.ALTER)
READS_ORDERS = acl(ALICE, topic="orders")
HEADER = struct.Struct(">hhih")
CORRELATION_ID = 7
LIMIT = 1024 * 1024
CREATE = bytes.fromhex(JAVA_CREATE_V3)
SECONDS_MAX = 20

each_version = pytest.mark.parametrize("version", [0, 1])


def request(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request frame with tags in its header."""
    return frame(HEADER.pack(api_key, version, CORRELATION_ID, -1), b"\0", body)


def answer(body: str) -> bytes:
    """Return the content of a response frame with tags in its header."""
    return CORRELATION_ID.to_bytes(4, "big") + b"\0" + bytes.fromhex(body)


def outer(code: int) -> bytes:
    """Return the content of a response frame with only an outer error."""
    return answer("00" + code.to_bytes(2, "big", signed=True).hex() + "00")


@asynccontextmanager
async def connected(
    service: KafkaService, token: bytes, name: str = "CONTROLLER"
) -> AsyncIterator[Client]:
    """Serve a SASL listener; yield a client that has logged in."""
    listener = KafkaListener(
        name=name,
        handlers=service.handlers,
        versions=versions_of(name, is_controller=name == "CONTROLLER"),
        sasl=sasl_settings(users=USERS),
        credentials=LoadedCredentials(),
        failed_login_delay_ms=100,
        request_bytes_max=LIMIT,
        memory_bytes_max=2 * LIMIT,
        limits=ConnectionLimits(
            connections_max=10,
            login_timeout_s=60,
            request_timeout_s=60,
            idle_timeout_s=60,
            drain_timeout_s=SECONDS_MAX,
        ),
        is_super_user=lambda principal: False,
        is_controller=name == "CONTROLLER",
    )
    sockets = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = sockets[0].socket.getsockname()[1]
    async with trio.open_nursery() as serving:
        await serving.start(lambda task_status: listener.serve(sockets, task_status=task_status))
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        serving.start_soon(keep_open, stream)
        client = Client(stream)
        assert (await client.log_in(token)).error_code == 0
        yield client
        serving.cancel_scope.cancel()


async def forwarded(
    service: KafkaService, version: int, body: bytes, token: bytes = BROKER_TOKEN
) -> bytes:
    """Send an Envelope; return the content of the response frame."""
    async with connected(service, token) as client:
        await client.send(request(ApiKey.ENVELOPE, version, body))
        return await client.receive()


@pytest.mark.parametrize(
    ("data", "expected"),
    [(JAVA_CREATE_V1, JAVA_ANSWER_V1), (JAVA_CREATE_V3, JAVA_ANSWER_V3)],
    ids=["rigid", "flexible"],
)
@each_version
async def test_forwarded_creation_has_kafkas_response(
    nursery: trio.Nursery, version: int, data: str, expected: str
) -> None:
    """The bytes are those of Kafka 4.3.1's own classes."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    body = envelope(bytes.fromhex(data), version=version)
    assert await forwarded(service, version, body) == answer(expected)
    assert service.acls == {MAY_FORWARD, MAY_ALTER, READS_ORDERS}


@each_version
async def test_forwarding_requires_cluster_action(nursery: trio.Nursery, version: int) -> None:
    """The right is checked before the content is read."""
    service = await start(nursery, MAY_ALTER)
    for body in (envelope(version=version), b"\xff"):
        assert await forwarded(service, version, body, ALICE_TOKEN) == outer(31)


REFUSED = {
    "an API that is not forwarded": (envelope(inner(ApiKey.METADATA, 9, b"\1\0\0\0\0")), 42),
    "an Envelope v0": (envelope(inner(ApiKey.ENVELOPE, 0, envelope())), 42),
    "an Envelope v1": (envelope(inner(ApiKey.ENVELOPE, 1, envelope())), 42),
    "an empty address": (envelope(address=b""), 42),
    "an address of 5 bytes": (envelope(address=bytes(5)), 42),
    "no request": (envelope(b""), 35),
    "half a header": (envelope(CREATE[:12]), 35),
    "half a body": (envelope(CREATE[:-3]), 35),
    "trailing bytes": (envelope(CREATE + b"\0"), 35),
    "an unknown version": (envelope(inner(ApiKey.CREATE_ACLS, 4, b"\1\0")), 35),
    "no principal": (envelope(principal=None), 97),
    "half a principal": (envelope(principal=ALICE_BYTES[:-2]), 97),
    "a principal of an unknown version": (envelope(principal=b"\0\1" + ALICE_BYTES[2:]), 97),
}


@pytest.mark.parametrize(("body", "code"), REFUSED.values(), ids=REFUSED)
@each_version
async def test_invalid_envelope_is_refused(
    nursery: trio.Nursery, version: int, body: bytes, code: int
) -> None:
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    assert await forwarded(service, version, body) == outer(code)
    assert service.running.log.appends == []


@pytest.mark.parametrize(("version", "code"), [(0, -1), (1, 801)])
async def test_forwarder_is_refused_before_loading(
    nursery: trio.Nursery, version: int, code: int
) -> None:
    """Version 0 has the older error."""
    service = await start(nursery, is_loaded=False)
    assert await forwarded(service, version, envelope()) == outer(code)


@pytest.mark.parametrize(("version", "code"), [(0, -1), (1, 801)])
async def test_inner_principal_is_refused_before_loading(
    nursery: trio.Nursery, version: int, code: int
) -> None:
    """The error is also in the outer response, so that the forwarder tries again."""
    service = await start(nursery, is_loaded=False)
    assert await forwarded(service, version, envelope(), ROOT_TOKEN) == outer(code)
    await service.load()
    assert service.acls == set()


@each_version
async def test_inner_error_is_only_in_the_inner_response(
    nursery: trio.Nursery, version: int
) -> None:
    """The inner principal lacks a right; the outer code is 0."""
    service = await start(nursery, MAY_FORWARD)
    text = b"Cluster authorization failed."
    refused = b"\0\0\0\x2a\0" + bytes(4) + b"\2\0\x1f" + bytes((len(text) + 1,)) + text + b"\0\0"
    expected = bytes((len(refused) + 1,)) + refused + b"\0\0\0"
    assert await forwarded(service, version, envelope()) == answer(expected.hex())


@each_version
async def test_malformed_envelope_closes_the_connection(
    nursery: trio.Nursery, version: int
) -> None:
    service = await start(nursery, MAY_FORWARD)
    async with connected(service, BROKER_TOKEN) as client:
        await client.send(request(ApiKey.ENVELOPE, version, envelope()[:-1]))
        assert await client.is_closed()


@pytest.mark.parametrize("version", [-1, 2])
async def test_unknown_version_closes_the_connection(nursery: trio.Nursery, version: int) -> None:
    service = await start(nursery, MAY_FORWARD)
    async with connected(service, BROKER_TOKEN) as client:
        await client.send(request(ApiKey.ENVELOPE, version, envelope()))
        assert await client.is_closed()


@each_version
async def test_only_controllers_listeners_have_the_api(nursery: trio.Nursery, version: int) -> None:
    """Others do not list it and close the connection, even for super users."""
    service = await start(nursery)
    for name, is_listed in (("CONTROLLER", True), ("BROKER", False)):
        async with connected(service, ROOT_TOKEN, name) as client:
            listed = await client.ask(ApiKey.API_VERSIONS, 3, **SOFTWARE)
            versions = {
                each.api_key: (each.min_version, each.max_version) for each in listed.api_keys
            }
            assert versions.get(ApiKey.ENVELOPE) == ((0, 1) if is_listed else None)
            await client.send(request(ApiKey.ENVELOPE, version, envelope()))
            if is_listed:
                assert (await client.receive())[-4:] == bytes(4)
            else:
                assert await client.is_closed()


async def test_envelopes_of_one_connection_are_answered_in_order(nursery: trio.Nursery) -> None:
    """A later forwarded request sees an earlier creation."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    delete = inner(ApiKey.DELETE_ACLS, 3, bytes.fromhex("02 02 00 03 00 00 01 01 00 00"))
    async with connected(service, BROKER_TOKEN) as client:
        sent = [request(ApiKey.ENVELOPE, 1, envelope(data)) for data in (CREATE, delete)]
        await client.send(*sent)
        assert await client.receive() == answer(JAVA_ANSWER_V3)
        assert b"orders" in await client.receive()
    assert service.acls == {MAY_FORWARD, MAY_ALTER}


def exchange(address: str, sent: bytes) -> bytes:
    """Return the content of the response frame, or b"" if the daemon closes the connection."""
    with connect(address) as stream:
        stream.sendall(sent)
        received = stream.makefile("rb")
        return received.read(int.from_bytes(received.read(4), "big"))


def test_daemon_serves_envelopes_on_controller_listeners_only(tmp_path: Path) -> None:
    """A forwarded ACL is visible on the other listeners."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "super.users": f"User:ANONYMOUS;{ALICE};{ROOT}",
    }
    sent = request(ApiKey.ENVELOPE, 1, envelope())
    describe = request(ApiKey.DESCRIBE_ACLS, 3, bytes.fromhex("01 00 01 00 00 01 01 00"))
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        listeners = daemon.ready["listeners"]
        assert exchange(listeners["PLAINTEXT"], sent) == b""
        assert exchange(listeners["CONTROLLER"], sent) == answer(JAVA_ANSWER_V3)
        assert b"orders" in exchange(listeners["PLAINTEXT"], describe)
