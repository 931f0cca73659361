"""Many tasks over one connection: pipelining, limits and cancellation."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd_client import ConnectionLostError, Question, TimedOutError
from authorizerd_client.trio import Client
from tests.clients.python_clients import SECONDS_MAX
from tests.clients.stand_in import GREETING, start_stand_in
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl, snapshot_of

MAY_READ = acl("User:alice", "READ", topic="orders")
ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")
BOB = Question("User:bob", None, "READ", "TOPIC", "orders")
LARGE = [("User:a", None, 3, 2, "x" * 200)] * 100_000
"""More than the buffers of two sockets hold."""


async def test_many_tasks_share_a_connection(nursery: trio.Nursery) -> None:
    """Each gets the answer to its own questions, though few frames may be in flight."""
    address = await start_on_loopback(nursery, new_server(Place(None, MAY_READ)))
    correct = 0

    async def ask(number: int) -> None:
        nonlocal correct
        asked = [ALICE if number >> bit & 1 else BOB for bit in range(10)]
        decisions = await client.decide_many(asked)
        correct += decisions.allowed == [each is ALICE for each in asked]

    with trio.fail_after(SECONDS_MAX):
        async with (
            Client(address, timeout_seconds=SECONDS_MAX, frames_in_flight_max=16) as client,
            trio.open_nursery() as tasks,
        ):
            for number in range(500):
                tasks.start_soon(ask, number)
    assert correct == 500
    nursery.cancel_scope.cancel()


async def test_broken_connection_fails_all_tasks(nursery: trio.Nursery) -> None:
    """Those that wait for an answer, for room in flight, and those that ask later."""
    address = await start_stand_in(nursery, GREETING, b"")
    failed = 0

    async def ask() -> None:
        nonlocal failed
        with pytest.raises(ConnectionLostError):
            await client.decide(ALICE)
        failed += 1

    with trio.fail_after(SECONDS_MAX):
        async with Client(address, frames_in_flight_max=4) as client:
            async with trio.open_nursery() as tasks:
                for _ in range(20):
                    tasks.start_soon(ask)
            await ask()
    assert failed == 21
    nursery.cancel_scope.cancel()


async def test_cancelled_wait_leaves_other_tasks_alone(nursery: trio.Nursery) -> None:
    """The cancelled task read for all; another task reads on."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    decided: list[bool] = []

    async def ask(question: Question) -> None:
        decided.append(await client.decide(question, min_offset=5))

    with trio.fail_after(SECONDS_MAX):
        async with Client(address) as client, trio.open_nursery() as others:
            async with trio.open_nursery() as given_up:
                given_up.start_soon(ask, BOB)
                await wait_all_tasks_blocked(0.05)
                others.start_soon(ask, ALICE)
                others.start_soon(ask, ALICE)
                await wait_all_tasks_blocked(0.05)
                given_up.cancel_scope.cancel()
            place.snapshot.publish(snapshot_of(MAY_READ, offset=5))
    assert decided == [True, True]
    nursery.cancel_scope.cancel()


async def test_cancelled_questions_count_until_they_are_answered(nursery: trio.Nursery) -> None:
    """Frames in flight stay bounded, and their places become free again."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    with trio.fail_after(SECONDS_MAX):
        async with Client(address, frames_in_flight_max=3) as client:
            async with trio.open_nursery() as given_up:
                for _ in range(5):
                    given_up.start_soon(lambda: client.decide(ALICE, min_offset=5))
                await wait_all_tasks_blocked(0.05)
                given_up.cancel_scope.cancel()
            with pytest.raises(TimedOutError):
                await client.decide(ALICE, timeout_seconds=0.1)
            place.snapshot.publish(snapshot_of(MAY_READ, offset=5))
            assert (await client.decide_many([ALICE, BOB])).allowed == [True, False]
            assert client.offset == 5
    nursery.cancel_scope.cancel()


async def test_cancelled_send_closes_the_connection(nursery: trio.Nursery) -> None:
    """Part of a frame was sent: the other tasks fail rather than send behind it."""
    address = await start_stand_in(nursery, GREETING, then_closes=False)
    failed = 0

    async def ask() -> None:
        nonlocal failed
        with pytest.raises((TimedOutError, ConnectionLostError)):
            await client.decide(ALICE, timeout_seconds=1)
        failed += 1

    async def ask_much() -> None:
        await client.decide_many(LARGE)

    with trio.fail_after(SECONDS_MAX):
        async with Client(address, frame_bytes_max=2**26) as client, trio.open_nursery() as others:
            others.start_soon(ask)  # waits for its answer
            await wait_all_tasks_blocked(0.05)
            async with trio.open_nursery() as sending:
                sending.start_soon(ask_much)
                await wait_all_tasks_blocked(0.05)
                others.start_soon(ask)  # waits for its turn to send
                await wait_all_tasks_blocked(0.05)
                sending.cancel_scope.cancel()
    assert failed == 2
    nursery.cancel_scope.cancel()


async def test_question_of_a_broken_connection_is_sent_once_more(nursery: trio.Nursery) -> None:
    """A frame that is cut off costs every task its connection, but not its answer."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    connections = 0

    async def converse(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        async with stream:
            await stream.receive_some()
            await stream.send_all(GREETING)
            if connections == 1:
                await stream.receive_some()
                return
            for number in (1, 2):
                await stream.receive_some()
                await stream.send_all(encode_answer(number, 0, 0, b"\1"))

    nursery.start_soon(trio.serve_listeners, converse, listeners)
    async with Client(f"127.0.0.1:{port}") as client:
        assert await client.decide(ALICE)
        assert await client.decide(ALICE)
    assert connections == 2
    nursery.cancel_scope.cancel()


async def test_silent_connection_is_replaced(nursery: trio.Nursery) -> None:
    """After a time-out, and also if the callers themselves gave up before the time limit."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    connections = 0

    async def converse(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        async with stream:
            await stream.receive_some()
            await stream.send_all(GREETING)
            await trio.sleep_forever()

    nursery.start_soon(trio.serve_listeners, converse, listeners)
    async with Client(f"127.0.0.1:{port}", timeout_seconds=0.2) as client:
        with pytest.raises(TimedOutError):
            await client.decide(ALICE)
        for expected in (2, 2, 3):
            with trio.move_on_after(0.05):
                await client.decide(ALICE)
            assert connections == expected
            if expected == 2:
                await trio.sleep(0.08)
    nursery.cancel_scope.cancel()


async def test_errors_of_the_block_are_not_wrapped(nursery: trio.Nursery) -> None:
    address = await start_on_loopback(nursery, new_server(Place(None)))
    with pytest.raises(KeyError):  # noqa: PT012 - the block is what is tested
        async with Client(address) as client:
            await client.connect()
            raise KeyError
    nursery.cancel_scope.cancel()
