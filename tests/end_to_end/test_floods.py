"""Small floods of a real daemon: excess connections are refused, all others are answered.

Memory stays below the initial size plus the computed bound, and everything is freed afterwards.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace as Fields

import msgspec
import pytest

from authorizerd.acl.steps import finish
from authorizerd.config.bounds import ADMIN_CONNECTIONS_MAX, memory_bound_bytes
from authorizerd.config.configuration import parse
from authorizerd.protocol.decisions.stream import encode_answer, encode_hello
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX
from authorizerd.protocol.primitives import unsigned_varint
from tests.support.daemon_process import DaemonProcess, new_log, running, wait_until, write_config
from tests.support.daemon_process import connect as open_connection
from tests.support.flood_surfaces import ADMIN, HTTP, KAFKA, STREAM, Surface, surfaces
from tests.support.kio_codec import encode_request
from tools.bench.protocols import ANSWERED, reader_of
from tools.bench.sets import kind

CONNECTIONS_MAX = 100
IDLE = 300
NEWCOMERS = 5
SLOW = 50
COSTLY = 20
ROOM_BYTES = 1 << 20
ENDLESS_BYTES = 64 << 20
LARGE_BYTES = 600_000
ANSWER_BYTES_MAX = 1 << 20
CONFIG = {
    "max.connections": str(CONNECTIONS_MAX),
    "queued.max.request.bytes": str(ROOM_BYTES),
    "socket.request.max.bytes": str(ROOM_BYTES),
    "authorizerd.http.request.max.bytes": str(ROOM_BYTES),
    "authorizerd.stream.frame.max.bytes": str(ROOM_BYTES),
    "authorizerd.overload.turn.ms": "3600000",  # never shed load because the machine is slow
    "super.users": "User:ANONYMOUS",
}
TOO_MUCH = ErrorCode.THROTTLING_QUOTA_EXCEEDED
NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 60\r\nConnection: close\r\n\r\n"
    b"memory limit reached: retry later, or send smaller requests\n"
)
KIND_OF = {HTTP: "http", ADMIN: "http", STREAM: "stream", KAFKA: "kafka"}
NAMES = ("AuthZEN", "OPA's API", "decision stream", "Kafka listener", "admin HTTP")
HTTP_NAMES = ("AuthZEN", "OPA's API", "admin HTTP")


class Flooded:
    """A daemon, its surfaces by name, and its memory at the beginning."""

    def __init__(self, daemon: DaemonProcess, config_file: Path) -> None:
        self.daemon = daemon
        configuration = parse(config_file.read_text(), source="test")
        listeners = daemon.ready["listeners"]
        self.hosts = {name: daemon.ready[name] for name in (HTTP, STREAM, ADMIN)} | listeners
        question = next(kind().questions())
        self.surfaces = {each.name: each for each in surfaces(configuration, question, self.hosts)}
        self.allowed_bytes = memory_bound_bytes(configuration, ANSWER_BYTES_MAX)
        for surface in self.surfaces.values():
            with Client(self, surface) as client:
                client.ask()
        self.base_bytes = self.peak_bytes()

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.daemon.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024

    def metric(self, surface: Surface, name: str, labels: str = "") -> float:
        labels = f'listener="{surface.endpoint}"{labels}'
        return self.daemon.metric(f"authorizerd_{KIND_OF[surface.endpoint]}_{name}{{{labels}}}")

    def open(self, surface: Surface) -> float:
        """Return the number of open connections, without the one that reads metrics."""
        return self.metric(surface, "connections") - (surface.endpoint == ADMIN)

    def evicted(self, surface: Surface) -> float:
        return self.metric(surface, "connections_ended_total", ',reason="evicted"')

    def refused(self, surface: Surface) -> float:
        return self.metric(surface, "connections_ended_total", ',reason="refused"')


class Client:
    """One connection that is served."""

    def __init__(self, flooded: Flooded, surface: Surface) -> None:
        self._surface = surface
        self._reader = reader_of(surface.protocol)
        self._socket = connect(flooded, surface, surface.opening)

    def ask(self) -> None:
        """Check that a request is answered without an error."""
        self._socket.sendall(self._surface.request)
        outcomes: list[str | bytes] = []
        while not outcomes:
            data = self._socket.recv(65536)
            assert data, "closed"
            outcomes += self._reader.feed(data)
        assert outcomes == [ANSWERED]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def connect(flooded: Flooded, surface: Surface, first: bytes = b"") -> socket.socket:
    connection = open_connection(flooded.hosts[surface.endpoint])
    connection.sendall(first)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return everything until the connection is closed or reset."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def connections_max(surface: Surface) -> int:
    return ADMIN_CONNECTIONS_MAX if surface.endpoint == ADMIN else CONNECTIONS_MAX


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    folder = tmp_path_factory.mktemp("flooded")
    log_dir = new_log(folder)
    with running(folder, log_dir, CONFIG) as daemon:
        yield Flooded(daemon, write_config(folder, log_dir, CONFIG))


@pytest.fixture
def surface(flooded: Flooded, request: pytest.FixtureRequest) -> Iterator[Surface]:
    """Yield a surface; check afterwards that nothing of the flood is left."""
    surface = flooded.surfaces[request.param]
    yield surface
    wait_until(lambda: flooded.open(surface) == 0, "the flood")
    with Client(flooded, surface) as client:
        client.ask()
    wait_until(lambda: flooded.open(surface) == 0, "the flood")
    peak, allowed = flooded.peak_bytes(), flooded.base_bytes + flooded.allowed_bytes
    sys.stdout.write(f"{surface.name}: {peak >> 20} MiB, {allowed >> 20} MiB allowed\n")
    assert peak < allowed


@pytest.mark.parametrize("surface", NAMES, indirect=True)
def test_silent_connections_beyond_the_limit_are_evicted(
    flooded: Flooded, surface: Surface
) -> None:
    """The oldest are closed first. Served connections stay, and new ones are served."""
    evicted_before = flooded.evicted(surface)
    too_many = IDLE + 1 - connections_max(surface)
    with ExitStack() as stack:
        client = stack.enter_context(Client(flooded, surface))
        client.ask()
        idle = [stack.enter_context(connect(flooded, surface)) for _ in range(IDLE)]
        wait_until(lambda: flooded.evicted(surface) - evicted_before >= too_many, "the flood")
        assert flooded.open(surface) <= connections_max(surface)
        for connection in idle[:too_many]:
            assert received(connection) == b""
        with Client(flooded, surface) as newcomer:
            newcomer.ask()
        client.ask()


@pytest.mark.parametrize("surface", NAMES[:-1], indirect=True)
def test_callers_that_nobody_knows_give_way(flooded: Flooded, surface: Surface) -> None:
    """If all others are served, a newcomer replaces one that waits, and is served."""
    evicted_before, refused_before = flooded.evicted(surface), flooded.refused(surface)
    with ExitStack() as stack:
        for _ in range(connections_max(surface)):
            stack.enter_context(Client(flooded, surface)).ask()
        for _ in range(NEWCOMERS):
            with Client(flooded, surface) as newcomer:
                newcomer.ask()
            wait_until(lambda: flooded.open(surface) < connections_max(surface), "a newcomer")
            stack.enter_context(Client(flooded, surface)).ask()
        assert flooded.evicted(surface) - evicted_before == NEWCOMERS
        assert flooded.refused(surface) == refused_before


@pytest.mark.parametrize("surface", NAMES[:-1], indirect=True)
def test_half_sent_requests_beyond_the_memory_budget_are_refused(
    flooded: Flooded, surface: Surface
) -> None:
    """One fits, unless a refused one still holds its memory. Small requests are served."""
    before = flooded.metric(surface, "requests_refused_total")
    half = surface.opening + surface.largest[:LARGE_BYTES]
    with ExitStack() as stack:
        slow = [Slow(stack.enter_context(connect(flooded, surface)), half) for _ in range(SLOW)]
        wait_until(lambda: sum(each.has_ended() for each in slow) >= SLOW - 1, "the flood")
        assert SLOW - 1 <= flooded.metric(surface, "requests_refused_total") - before <= SLOW
        for each in slow:
            if each.has_ended():
                assert is_memory_refusal(surface, each.received)
        with Client(flooded, surface) as client:
            client.ask()
        wait_until(lambda: flooded.open(surface) <= 1, "the flood")


class Slow:
    """A connection that sends and receives without waiting."""

    def __init__(self, connection: socket.socket, sending: bytes) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._sending = sending
        self.received = b""

    def has_ended(self) -> bool:
        """Send and receive; return True if the daemon has closed the connection."""
        try:
            while self._sending:
                self._sending = self._sending[self._socket.send(self._sending) :]
        except BlockingIOError:
            pass
        except (ConnectionResetError, BrokenPipeError):
            self._sending = b""
        try:
            while data := self._socket.recv(65536):
                self.received += data
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        return True


def is_memory_refusal(surface: Surface, answer: bytes) -> bool:
    """Return True if memory was lacking for ``answer``; a stream may refuse the hello."""
    if surface.endpoint != STREAM:
        return answer == (NO_ROOM if surface.endpoint == HTTP else b"")
    if answer == encode_hello(TOO_MUCH, -1):
        return True
    offset = offset_of(answer)
    greeted = encode_hello(ErrorCode.NONE, offset)
    return answer == greeted + encode_answer(-1, TOO_MUCH, offset, b"")


def offset_of(answer: bytes) -> int:
    size = int.from_bytes(answer[:4], "big")
    _, _, _, offset = msgspec.msgpack.decode(answer[4 : 4 + size], type=tuple[str, int, int, int])
    return offset


@pytest.mark.parametrize("surface", NAMES, indirect=True)
def test_unread_answers_do_not_block_others(flooded: Flooded, surface: Surface) -> None:
    """Fifty clients send costly requests and read no answer."""
    with ExitStack() as stack:
        for _ in range(SLOW):
            slow = stack.enter_context(connect(flooded, surface, surface.opening))
            slow.setblocking(False)
            for _ in range(100):
                try:
                    slow.send(surface.costly)
                except (BlockingIOError, ConnectionResetError, BrokenPipeError):
                    break
        with Client(flooded, surface) as client:
            for _ in range(10):
                client.ask()


def kafka_requests() -> dict[str, bytes]:
    """Return the costliest request per byte, for each kind of request that can have many items."""
    names = [f"{number:x}" for number in range(REQUEST_ITEMS_MAX // 4)]
    acls = b"".join(
        b"\x02" + unsigned_varint(len(name) + 1) + name.encode() + b"\x03\x04U:a\x02*\x03\x03\0"
        for name in names
    )
    count = unsigned_varint(len(names) + 1)
    bodies: dict[str, tuple[ApiKey, int, bytes]] = {
        "creations": (ApiKey.CREATE_ACLS, 3, count + acls + b"\0"),
        "filters": (ApiKey.DELETE_ACLS, 3, count + bytes(8 * len(names)) + b"\0"),
    }
    resource = {"resource_type": 4, "resource_name": ""}
    alterations = [Fields(name=name, config_operation=0, value="") for name in names]
    topics = [Fields(topic_id=None, name=name) for name in names]
    described = [Fields(configuration_keys=None, resource_type=2, resource_name=n) for n in names]
    entities: dict[str, tuple[ApiKey, int, Fields]] = {
        "alterations": (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, Fields(
            resources=[Fields(configs=alterations, **resource)], validate_only=False,
        )),
        "a quorum": (ApiKey.DESCRIBE_QUORUM, 2, Fields(
            topics=[Fields(topic_name="", partitions=[])] * len(names),
        )),
        "topics": (ApiKey.METADATA, 12, Fields(
            topics=topics, allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )),
        "coordinators": (ApiKey.FIND_COORDINATOR, 6, Fields(
            key_type=0, coordinator_keys=[""] * len(names),
        )),
        "groups": (ApiKey.DESCRIBE_GROUPS, 6, Fields(
            groups=[""] * len(names), include_authorized_operations=True,
        )),
        "configs": (ApiKey.DESCRIBE_CONFIGS, 4, Fields(
            resources=described, include_synonyms=True, include_documentation=True,
        )),
    }  # fmt: skip
    for name, (api_key, version, fields) in entities.items():
        bodies[name] = api_key, version, finish(encode_request(api_key, version, fields))
    head = struct.Struct(">hhihB")  # a flexible header without a client id
    return {
        name: frame(head.pack(api_key, version, 1, -1, 0), body)
        for name, (api_key, version, body) in bodies.items()
    }


KAFKA_REQUESTS = kafka_requests()


@pytest.mark.parametrize("surface", ["Kafka listener"], indirect=True)
@pytest.mark.parametrize("costly", KAFKA_REQUESTS)
def test_requests_that_grow_most_stay_within_the_bound(
    flooded: Flooded, surface: Surface, costly: str
) -> None:
    """The requests need the most memory per byte, and many are sent at once."""
    with ExitStack() as stack:
        slow = [
            Slow(stack.enter_context(connect(flooded, surface)), KAFKA_REQUESTS[costly])
            for _ in range(COSTLY)
        ]
        wait_until(
            lambda: sum(each.has_ended() or bool(each.received) for each in slow) == COSTLY,
            "the flood",
        )
        assert any(each.received for each in slow)


@pytest.mark.parametrize("surface", NAMES, indirect=True)
def test_oversized_request_is_refused_by_its_announced_size(
    flooded: Flooded, surface: Surface
) -> None:
    with connect(flooded, surface, surface.opening + surface.oversized) as oversized:
        answer = received(oversized)
    if KIND_OF[surface.endpoint] == "http":
        phrase = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase  # it differs between Python versions
        assert (
            answer
            == (
                f"HTTP/1.1 413 {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 23\r\nConnection: close\r\n\r\nrequest body too large\n"
            ).encode()
        )
    elif surface.endpoint == STREAM:
        assert answer == encode_hello(ErrorCode.NONE, offset_of(answer))
    else:
        assert answer == b""


@pytest.mark.parametrize("surface", HTTP_NAMES, indirect=True)
def test_endless_request_is_refused_early(flooded: Flooded, surface: Surface) -> None:
    """An endless head, chunked body or request line."""
    (head, more), (chunked, chunk) = surface.endless
    line = b"GET /" + b"x" * 1024
    for first, again, refusal in (
        (head, more, b"431"),
        (chunked, chunk, b"413"),
        (line, b"x" * 1024, b"414"),
    ):
        with connect(flooded, surface, first) as endless:
            sent = 0
            while sent < ENDLESS_BYTES and not select.select([endless], [], [], 0)[0]:
                try:
                    sent += endless.send(again)
                except (ConnectionResetError, BrokenPipeError):
                    break
            assert received(endless).startswith(b"HTTP/1.1 " + refusal)
            assert sent < ENDLESS_BYTES
