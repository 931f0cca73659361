"""Refusals for overload or lack of memory, with an explanation if the protocol allows one."""

import logging
import socket
import struct
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from authorizerd.config.bounds import ANSWERS_AT_ONCE_MAX, FREE_BYTES
from authorizerd.daemon.decisions.stream_server import NO_CORRELATION_ID, QUESTIONS_PER_TURN
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.daemon.net.turns import PAUSE_SECONDS, Turns
from authorizerd.protocol.decisions.stream import Answer
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon import http_service, kafka_listener_service, stream_service
from tests.daemon.decision_place import Place
from tests.daemon.http_service import GET, receive_until
from tests.daemon.kafka_listener_service import Echo, free_echo, to_echo, until
from tests.daemon.serving import MemoryListener, serve_in_memory
from tests.daemon.stream_service import FRAME_BYTES_MAX, IDLE_TIMEOUT_S
from tests.support.acls import acl

TURN_MS_MAX = 25
HALF = 20_000
ROOM_BYTES = 3 * HALF // 2
TOO_MUCH = ErrorCode.THROTTLING_QUOTA_EXCEEDED
MAY = ("User:alice", "10.0.0.1", 3, 2, "orders")
NO_ROOM = b"memory limit reached: retry later, or send smaller requests\n"


class Overload:
    """A switch that makes connections wait for a long time until it is their turn."""

    is_there = False


@pytest.fixture
def overload(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> Overload:
    said = Overload()
    wait, begin_slice = Turns.wait, Turns.begin_slice

    async def wait_long(turns: Turns, slice_ns: int = 0) -> int:
        return await wait(turns, slice_ns) + said.is_there * 2 * TURN_MS_MAX * 1_000_000

    monkeypatch.setattr(Turns, "wait", wait_long)
    monkeypatch.setattr(
        Turns, "begin_slice", lambda turns: not said.is_there and begin_slice(turns)
    )
    return said


def post(body_bytes: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % body_bytes


async def test_http_refuses_pipelined_requests_under_overload(
    nursery: trio.Nursery, overload: Overload
) -> None:
    """It answers 503 with Retry-After, and reads the peer's later bytes after the pause."""
    server = http_service.new_server(turn_ms_max=TURN_MS_MAX)
    client = (await serve_in_memory(nursery, server)).connect()
    overload.is_there = True
    await client.send_all(GET * 3)
    started = trio.current_time()
    refused = await receive_until(client, b"overloaded\n")
    assert refused.startswith(b"HTTP/1.1 200 OK\r\n")
    assert refused.count(b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain") == 1
    assert b"\r\nRetry-After: 1\r\n" in refused
    assert (server.statistics.requests_refused, server.statistics.requests) == (1, 2)
    assert b"HTTP/1.1 503 " in await receive_until(client, b"overloaded\n")
    assert trio.current_time() - started == PAUSE_SECONDS
    overload.is_there = False
    await client.send_all(GET)
    assert b"200 OK" in await receive_until(client, b"\r\n\r\n/")
    assert trio.current_time() - started == 2 * PAUSE_SECONDS
    assert (server.statistics.requests_refused, server.statistics.requests) == (2, 4)


async def test_http_client_that_waits_for_answers_is_never_refused(
    nursery: trio.Nursery, overload: Overload
) -> None:
    """Not even if it has been refused before."""
    server = http_service.new_server(turn_ms_max=TURN_MS_MAX)
    client = (await serve_in_memory(nursery, server)).connect()
    overload.is_there = True
    await client.send_all(GET * 2)
    await receive_until(client, b"overloaded\n")
    for _ in range(3):
        await client.send_all(GET)
        assert b"200 OK" in await receive_until(client, b"\r\n\r\n/")
    assert server.statistics.requests_refused == 1


async def test_stream_client_that_waits_for_answers_is_never_refused(
    nursery: trio.Nursery, overload: Overload
) -> None:
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    server = stream_service.new_server(place, turn_ms_max=TURN_MS_MAX)
    client = (await stream_service.start(nursery, server)).connect_client()
    overload.is_there = True
    await client.stream.send_all(client.frames.hello() + client.frames.ask(7, [MAY]))
    assert (await client.greeting()).error_code == ErrorCode.NONE
    assert await client.answer() == Answer(7, ErrorCode.NONE, 0, b"\1")
    questions = 3 * QUESTIONS_PER_TURN
    for number in range(3):
        answer = await client.ask([MAY] * questions, number)
        assert answer == Answer(number, ErrorCode.NONE, 0, b"\1" * questions)
    assert server.statistics.requests_refused == 0


async def test_overload_refuses_nothing_in_drain(nursery: trio.Nursery, overload: Overload) -> None:
    """These are the last requests, and the answer is already under way."""
    server = http_service.new_server()
    client = (await serve_in_memory(nursery, server)).connect()
    await client.send_all(GET[:-2])
    await wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    await wait_all_tasks_blocked()
    overload.is_there = True
    await client.send_all(GET[-2:])
    assert b" 200 OK" in await receive_until(client, b"\r\n\r\n/")


async def test_http_refuses_requests_above_the_memory_limit(nursery: trio.Nursery) -> None:
    """The second half-sent request exceeds the budget; once the first is answered, it fits."""
    server = http_service.new_server(body_bytes_max=HALF, memory_bytes_max=ROOM_BYTES)
    listener = await serve_in_memory(nursery, server)
    first, second = listener.connect(), listener.connect()
    await first.send_all(post(HALF) + bytes(HALF - 1))
    await wait_all_tasks_blocked()
    await second.send_all(post(HALF) + bytes(HALF - 1))
    refused = await receive_until(second, NO_ROOM)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nConnection: close\r\n" in refused
    assert await second.receive_some() == b""
    await first.send_all(b"\0")
    assert b"200 OK" in await receive_until(first, b"\r\n\r\n/")
    third = listener.connect()
    await third.send_all(post(HALF) + bytes(HALF))
    assert b"200 OK" in await receive_until(third, b"\r\n\r\n/")
    assert server.statistics.requests_refused == 1


async def test_http_refuses_large_answers_while_others_are_unread(nursery: trio.Nursery) -> None:

    async def answer(request: Request) -> Response:
        return Response(status=200, body=bytes(1 if request.path == "/small" else HALF))

    server = http_service.new_server(answer, memory_bytes_max=HALF // 2)
    listener = await serve_in_memory(nursery, server, MemoryListener(lockstep_stream_pair))
    slow, other = listener.connect(), listener.connect()
    await slow.send_all(GET)
    await wait_all_tasks_blocked()
    await other.send_all(GET)
    assert await receive_until(other, NO_ROOM)
    await other.send_all(GET.replace(b"/", b"/small", 1))
    assert b"200 OK" in await receive_until(other, b"\0")
    await receive_until(slow, bytes(HALF))
    await wait_all_tasks_blocked()
    await other.send_all(GET)
    assert b"200 OK" in await receive_until(other, bytes(HALF))


async def test_stream_refuses_pipelined_frames_under_overload(
    nursery: trio.Nursery, overload: Overload
) -> None:
    """Each frame is refused with its own number; the connection continues after a pause."""
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    server = stream_service.new_server(place, turn_ms_max=TURN_MS_MAX)
    client = (await stream_service.start(nursery, server)).connect_client()
    await client.greet()
    overload.is_there = True
    started = trio.current_time()
    frames = [client.frames.ask(number, [MAY]) for number in (6, 7, 8, 9)]
    await client.stream.send_all(b"".join(frames))
    assert await client.answer() == Answer(6, ErrorCode.NONE, 0, b"\1")
    assert await client.answer() == Answer(7, TOO_MUCH, 0, b"")
    assert await client.answer() == Answer(8, TOO_MUCH, 0, b"")
    overload.is_there = False
    assert await client.answer() == Answer(9, ErrorCode.NONE, 0, b"\1")
    assert trio.current_time() - started == 2 * PAUSE_SECONDS
    assert server.statistics.requests_refused == 2
    overload.is_there = True
    frames = [client.frames.ask(number, [MAY]) for number in (10, 11, 12)]
    await client.stream.send_all(b"".join(frames))
    started = trio.current_time()
    await server.drain()
    assert trio.current_time() == started


async def test_stream_refuses_frames_above_the_memory_limit(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """An incomplete frame has no number; its memory is released."""
    caplog.set_level(logging.INFO)
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    server = stream_service.new_server(place, memory_bytes_max=ROOM_BYTES)
    listener = await stream_service.start(nursery, server)
    first, second = listener.connect_client(), listener.connect_client()
    for client in (first, second):
        await client.greet()
        await client.stream.send_all(FRAME_BYTES_MAX.to_bytes(4, "big") + bytes(HALF))
        await wait_all_tasks_blocked()
    assert await second.answer() == Answer(NO_CORRELATION_ID, TOO_MUCH, 0, b"")
    assert await second.is_closed()
    assert (
        f"the memory limit is reached: cannot hold a request of at least {HALF + 4} bytes"
        in caplog.text
    )
    assert server.memory.bytes_held == HALF + 4 - FREE_BYTES
    await first.stream.aclose()
    await until(lambda: server.statistics.connections_open == 0)
    assert (server.memory.bytes_held, server.statistics.requests_refused) == (0, 1)


async def test_incomplete_frame_times_out(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    server = stream_service.new_server(Place(None))
    client = (await stream_service.start(nursery, server)).connect_client()
    await client.greet()
    await trio.sleep(IDLE_TIMEOUT_S - 1)
    started = trio.current_time()
    with suppress(trio.BrokenResourceError):
        for byte in FRAME_BYTES_MAX.to_bytes(4, "big") + bytes(1000):
            await client.stream.send_all(bytes([byte]))
            await trio.sleep(10)
    assert IDLE_TIMEOUT_S <= trio.current_time() - started <= IDLE_TIMEOUT_S + 10


async def test_listener_closes_on_requests_above_the_memory_limit(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's protocol has no such error, so only the log has the reason. Small requests work."""
    caplog.set_level(logging.INFO)
    service = await kafka_listener_service.start(nursery, free_echo(), memory_bytes_max=ROOM_BYTES)
    first, second, small = [await service.connect() for _ in range(3)]
    large = to_echo(bytes(HALF))
    await first.send(large[:-1])
    await until(lambda: service.listener.memory.bytes_held == len(large) - 1 - FREE_BYTES)
    await second.send(large[:-1])
    assert await second.is_closed()
    assert (
        f"the memory limit is reached: cannot hold a request of at least {HALF + 13}" in caplog.text
    )
    await small.echo(b"small")
    await first.send(large[-1:])
    assert len(await first.receive()) == HALF + 4
    await until(lambda: service.listener.memory.bytes_held == 0)


async def test_listener_refuses_large_answers_if_others_are_unread(nursery: trio.Nursery) -> None:
    """One answer may exceed the bound. Until it is read, the next large answer is refused."""
    echo = free_echo()
    echo.answers = lambda body: body if body == b"small" else bytes(16 << 20)
    service = await kafka_listener_service.start(nursery, echo, memory_bytes_max=1 << 20)
    slow, other, small = [await service.connect() for _ in range(3)]
    await slow.send(to_echo(b""))
    await until(lambda: service.listener.memory.bytes_held > 1 << 20)
    await other.send(to_echo(b""))
    assert await other.is_closed()
    await small.echo(b"small")
    assert len(await slow.receive()) == 4 + (16 << 20)
    await until(lambda: service.listener.memory.bytes_held == 0)
    assert service.listener.statistics.requests_refused == 1


async def test_listener_creates_few_lists_at_once(nursery: trio.Nursery) -> None:
    """The size of an unfinished answer is unknown, so no memory can be reserved for it."""
    echo = Echo()
    service = await kafka_listener_service.start(
        nursery, echo, max_connections=2 * ANSWERS_AT_ONCE_MAX
    )
    clients = [await service.connect() for _ in range(2 * ANSWERS_AT_ONCE_MAX)]
    for client in clients:
        await client.send(to_echo(b"list"))
    statistics = service.listener.statistics
    await until(lambda: statistics.requests == len(clients))
    assert echo.under_way == ANSWERS_AT_ONCE_MAX
    echo.goes_on.set()
    for client in clients:
        assert (await client.receive()).endswith(b"list")
    assert echo.under_way_max == ANSWERS_AT_ONCE_MAX


async def test_hello_above_its_limit_is_refused_and_uses_free_bytes(nursery: trio.Nursery) -> None:
    server = stream_service.new_server(Place(None), memory_bytes_max=1)
    listener = await stream_service.start(nursery, server)
    client, half = listener.connect_client(), listener.connect_client()
    await half.stream.send_all(LOGIN_BYTES_MAX.to_bytes(4, "big") + bytes(LOGIN_BYTES_MAX - 1))
    await client.stream.send_all((LOGIN_BYTES_MAX + 1).to_bytes(4, "big") + bytes(HALF))
    assert await client.is_closed()
    assert server.statistics.connections_broken == 1
    assert (server.memory.bytes_held, server.statistics.connections_open) == (0, 1)


@pytest.mark.parametrize("is_reset", [True, False])
async def test_no_list_for_a_disconnected_client(nursery: trio.Nursery, is_reset: bool) -> None:
    echo = Echo()
    service = await kafka_listener_service.start(nursery, echo, max_connections=20)
    for _ in range(ANSWERS_AT_ONCE_MAX):
        await (await service.connect()).send(to_echo(b"before"))
    await until(lambda: echo.under_way == ANSWERS_AT_ONCE_MAX)
    gone, waiting = await service.connect(), await service.connect()
    await gone.send(to_echo(b"gone"))
    await waiting.send(to_echo(b"waiting"))
    await until(lambda: service.listener.statistics.requests == ANSWERS_AT_ONCE_MAX + 2)
    if is_reset:
        gone.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.stream.socket.close()
    echo.goes_on.set()
    assert (await waiting.receive()).endswith(b"waiting")
    await until(lambda: service.statistics[0] == ANSWERS_AT_ONCE_MAX + 1)
    assert b"gone" not in echo.bodies


async def test_memory_of_an_answer_is_freed_before_the_next_request(nursery: trio.Nursery) -> None:
    echo = free_echo()
    held: list[int] = []
    service = await kafka_listener_service.start(nursery, echo)
    room = service.listener.memory

    def answer(body: bytes) -> bytes:
        held.append(room.bytes_held)
        return bytes(HALF)

    echo.answers = answer
    client = await service.connect()
    await client.send(to_echo(b""), to_echo(b""), to_echo(b""))
    for _ in range(3):
        assert len(await client.receive()) == 4 + HALF
    assert held == [0, 0, 0]
