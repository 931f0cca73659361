"""Envelopes on a controller's listener, byte by byte over real sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import Acl, Operation, PermissionType, ResourceType
from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from tests.daemon.kafka_listener_service import SOFTWARE, Client, keep_open
from tests.daemon.kafka_service import (
    ALICE,
    CLUSTER_NAME,
    ROOT,
    KafkaService,
    acl,
    on_cluster,
    start,
)
from tests.support.daemon_process import new_log, running
from tests.support.envelopes import (
    ALICE as ALICE_BYTES,
)
from tests.support.envelopes import (
    JAVA_ANSWER_V1,
    JAVA_ANSWER_V3,
    JAVA_CREATE_V1,
    JAVA_CREATE_V3,
    envelope,
    inner,
)

USERS = PlainUsers({"root": "r", "broker": "b", "alice": "a"})
ROOT_TOKEN, BROKER_TOKEN, ALICE_TOKEN = b"\0root\0r", b"\0broker\0b", b"\0alice\0a"
MAY_FORWARD = Acl(
    ResourceType.CLUSTER,
    CLUSTER_NAME,
    3,
    "User:broker",
    "*",
    Operation.CLUSTER_ACTION,
    PermissionType.ALLOW,
)
MAY_ALTER = on_cluster(Operation.ALTER)
READS_ORDERS = acl()
HEADER = struct.Struct(">hhih")
CORRELATION_ID = 7
LIMIT = 1024 * 1024
CREATE = bytes.fromhex(JAVA_CREATE_V3)
SECONDS_MAX = 20

each_version = pytest.mark.parametrize("version", [0, 1])


def request(api_key: int, version: int, body: bytes) -> bytes:
    """Return a frame whose header has tags."""
    return frame(HEADER.pack(api_key, version, CORRELATION_ID, -1), b"\0", body)


def answer(body: str) -> bytes:
    """Return what a frame holds whose header has tags."""
    return CORRELATION_ID.to_bytes(4, "big") + b"\0" + bytes.fromhex(body)


def outer(code: int) -> bytes:
    """Return what a frame holds that says no more than an outer error."""
    return answer("00" + code.to_bytes(2, "big", signed=True).hex() + "00")


@asynccontextmanager
async def connected(
    service: KafkaService, token: bytes, name: str = "CONTROLLER"
) -> AsyncIterator[Client]:
    """Serve a listener with log-in; give a client that has logged in."""
    listener = KafkaListener(
        name=name,
        handlers=service.handlers,
        users=USERS,
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
    """Return what the frame holds that answers an Envelope."""
    async with connected(service, token) as client:
        await client.send(request(ApiKey.ENVELOPE, version, body))
        return await client.receive()


@pytest.mark.parametrize(
    ("data", "expected"),
    [(JAVA_CREATE_V1, JAVA_ANSWER_V1), (JAVA_CREATE_V3, JAVA_ANSWER_V3)],
    ids=["rigid", "flexible"],
)
@each_version
async def test_a_forwarded_creation_is_answered_as_kafka_does(
    nursery: trio.Nursery, version: int, data: str, expected: str
) -> None:
    """The bytes are those of Kafka 4.3.1's own classes, throttle times of zero among them."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    body = envelope(bytes.fromhex(data), version=version)
    assert await forwarded(service, version, body) == answer(expected)
    assert service.acls == {MAY_FORWARD, MAY_ALTER, READS_ORDERS}
    nursery.cancel_scope.cancel()


@each_version
async def test_who_may_not_forward_is_told_so(nursery: trio.Nursery, version: int) -> None:
    """Whatever is sent: CLUSTER_ACTION comes before the first byte is looked at."""
    service = await start(nursery, MAY_ALTER)
    for body in (envelope(version=version), b"\xff"):
        assert await forwarded(service, version, body, ALICE_TOKEN) == outer(31)
    nursery.cancel_scope.cancel()


@each_version
async def test_another_api_is_refused(nursery: trio.Nursery, version: int) -> None:
    """Metadata is not for controllers."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    body = envelope(inner(ApiKey.METADATA, 9, b"\1\0\0\0\0"))
    assert await forwarded(service, version, body) == outer(42)
    nursery.cancel_scope.cancel()


@each_version
async def test_an_envelope_in_an_envelope_is_refused(nursery: trio.Nursery, version: int) -> None:
    """Nobody's right to forward is forwarded."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    body = envelope(inner(ApiKey.ENVELOPE, version, envelope()))
    assert await forwarded(service, version, body) == outer(42)
    nursery.cancel_scope.cancel()


@each_version
async def test_a_bad_address_is_refused(nursery: trio.Nursery, version: int) -> None:
    """It has 4 bytes or 16."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    for size in (0, 5):
        assert await forwarded(service, version, envelope(address=bytes(size))) == outer(42)
    nursery.cancel_scope.cancel()


@each_version
async def test_an_inner_request_that_cannot_be_read_is_refused(
    nursery: trio.Nursery, version: int
) -> None:
    """Its header, its body, trailing bytes, its version."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    unknown_version = inner(ApiKey.CREATE_ACLS, 4, b"\1\0")
    for data in (b"", CREATE[:12], CREATE[:-3], CREATE + b"\0", unknown_version):
        assert await forwarded(service, version, envelope(data)) == outer(35)
    assert service.running.log.appends == []
    nursery.cancel_scope.cancel()


@each_version
async def test_a_bad_principal_is_refused(nursery: trio.Nursery, version: int) -> None:
    """None, half of one, and one of an unknown version."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    for principal in (None, ALICE_BYTES[:-2], b"\0\1" + ALICE_BYTES[2:]):
        assert await forwarded(service, version, envelope(principal=principal)) == outer(97)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("version", "code"), [(0, -1), (1, 801)])
async def test_a_forwarder_is_refused_before_loading(
    nursery: trio.Nursery, version: int, code: int
) -> None:
    """In version 0 by the error that every client knows."""
    service = await start(nursery, is_loaded=False)
    assert await forwarded(service, version, envelope()) == outer(code)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("version", "code"), [(0, -1), (1, 801)])
async def test_an_inner_principal_is_refused_before_loading(
    nursery: trio.Nursery, version: int, code: int
) -> None:
    """Outside too, though the forwarder is a super user: it is to try again."""
    service = await start(nursery, is_loaded=False)
    assert await forwarded(service, version, envelope(), ROOT_TOKEN) == outer(code)
    await service.load()
    assert service.acls == set()
    nursery.cancel_scope.cancel()


@each_version
async def test_an_inner_error_stays_inside(nursery: trio.Nursery, version: int) -> None:
    """CLUSTER_AUTHORIZATION_FAILED of the inner principal's, behind an outer 0."""
    service = await start(nursery, MAY_FORWARD)
    text = b"Cluster authorization failed."
    refused = b"\0\0\0\x2a\0" + bytes(4) + b"\2\0\x1f" + bytes((len(text) + 1,)) + text + b"\0\0"
    expected = bytes((len(refused) + 1,)) + refused + b"\0\0\0"
    assert await forwarded(service, version, envelope()) == answer(expected.hex())
    nursery.cancel_scope.cancel()


@each_version
async def test_what_is_no_envelope_closes_the_connection(
    nursery: trio.Nursery, version: int
) -> None:
    """As Kafka does."""
    service = await start(nursery, MAY_FORWARD)
    async with connected(service, BROKER_TOKEN) as client:
        await client.send(request(ApiKey.ENVELOPE, version, envelope()[:-1]))
        assert await client.is_closed()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [-1, 2])
async def test_another_version_closes_the_connection(nursery: trio.Nursery, version: int) -> None:
    """There are two."""
    service = await start(nursery, MAY_FORWARD)
    async with connected(service, BROKER_TOKEN) as client:
        await client.send(request(ApiKey.ENVELOPE, version, envelope()))
        assert await client.is_closed()
    nursery.cancel_scope.cancel()


@each_version
async def test_a_listener_that_is_no_controllers_lacks_the_api(
    nursery: trio.Nursery, version: int
) -> None:
    """It is not listed, and who sends it all the same is hung up on, a super user too."""
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
    nursery.cancel_scope.cancel()


async def test_envelopes_of_one_connection_are_answered_in_order(nursery: trio.Nursery) -> None:
    """A creation shows in what is forwarded behind it."""
    service = await start(nursery, MAY_FORWARD, MAY_ALTER)
    delete = inner(ApiKey.DELETE_ACLS, 3, bytes.fromhex("02 02 00 03 00 00 01 01 00 00"))
    async with connected(service, BROKER_TOKEN) as client:
        sent = [request(ApiKey.ENVELOPE, 1, envelope(data)) for data in (CREATE, delete)]
        await client.send(*sent)
        assert await client.receive() == answer(JAVA_ANSWER_V3)
        assert b"orders" in await client.receive()
    assert service.acls == {MAY_FORWARD, MAY_ALTER}
    nursery.cancel_scope.cancel()


def exchange(address: str, sent: bytes) -> bytes:
    """Return what the frame holds that a daemon answers; nothing where it hangs up."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as stream:
        stream.sendall(sent)
        received = stream.makefile("rb")
        return received.read(int.from_bytes(received.read(4), "big"))


def test_a_daemon_takes_envelopes_where_its_configuration_says(tmp_path: Path) -> None:
    """On the listeners of controller.listener.names, and an ACL from there shows on the others."""
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
