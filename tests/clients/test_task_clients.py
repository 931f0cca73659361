"""Many tasks over one connection: pipelining, limits and cancellation."""

import pytest
import trio

from authorizerd.protocol.framing import Frames
from authorizerd_client import ConnectionLostError, Question, TimedOutError
from tests.clients.python_clients import SECONDS_MAX, NewTaskClient, wait_until_quiet
from tests.clients.stand_in import GREETING, allow_all, start_server, start_stand_in
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.support.acls import acl, snapshot_of

pytestmark = pytest.mark.parametrize("new_client", ["trio", "asyncio"], indirect=True)

MAY_READ = acl("User:alice", "READ", topic="orders")
ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")
BOB = Question("User:bob", None, "READ", "TOPIC", "orders")
LARGE = [("User:a", None, 3, 2, "x" * 200)] * 100_000
"""More than the buffers of two sockets hold."""


async def test_many_tasks_share_a_connection(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
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
            new_client(address, timeout_seconds=SECONDS_MAX, frames_in_flight_max=16) as client,
            trio.open_nursery() as tasks,
        ):
            for number in range(500):
                tasks.start_soon(ask, number)
    assert correct == 500


async def test_broken_connection_fails_all_tasks(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    """This includes tasks that wait for room in flight, and tasks that ask later."""
    address = await start_stand_in(nursery, GREETING, b"")
    failed = 0

    async def ask() -> None:
        nonlocal failed
        with pytest.raises(ConnectionLostError):
            await client.decide(ALICE)
        failed += 1

    with trio.fail_after(SECONDS_MAX):
        async with new_client(address, frames_in_flight_max=4) as client:
            async with trio.open_nursery() as tasks:
                for _ in range(20):
                    tasks.start_soon(ask)
            await ask()
    assert failed == 21


async def test_cancelled_wait_does_not_affect_other_tasks(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    """The cancelled task was reading for all tasks; another task takes over."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    decided: list[bool] = []

    async def ask(question: Question) -> None:
        decided.append(await client.decide(question, min_offset=5))

    with trio.fail_after(SECONDS_MAX):
        async with new_client(address) as client, trio.open_nursery() as others:
            async with trio.open_nursery() as given_up:
                given_up.start_soon(ask, BOB)
                await wait_until_quiet()
                others.start_soon(ask, ALICE)
                others.start_soon(ask, ALICE)
                await wait_until_quiet()
                given_up.cancel_scope.cancel()
            place.snapshot.publish(snapshot_of(MAY_READ, offset=5))
    assert decided == [True, True]


async def test_frames_in_flight_are_bounded(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    """Frames of cancelled calls count until they are answered."""
    received: list[bytes] = []

    async def converse(number: int, stream: trio.SocketStream) -> None:
        frames = Frames()
        while data := await stream.receive_some():
            frames.receive_data(bytes(data))
            while (frame := frames.next(1000)) is not None:
                received.append(bytes(frame))

    async with new_client(await start_server(nursery, converse), frames_in_flight_max=3) as client:
        for _ in range(2):
            async with trio.open_nursery() as given_up:
                for _ in range(5):
                    given_up.start_soon(client.decide, ALICE)
                await wait_until_quiet()
                given_up.cancel_scope.cancel()
            assert len(received) == 3


async def test_answers_to_cancelled_questions_make_room(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    with trio.fail_after(SECONDS_MAX):
        async with new_client(address, frames_in_flight_max=3) as client:
            async with trio.open_nursery() as given_up:
                for _ in range(5):
                    given_up.start_soon(lambda: client.decide(ALICE, min_offset=5))
                await wait_until_quiet()
                given_up.cancel_scope.cancel()
            with pytest.raises(TimedOutError):
                await client.decide(ALICE, timeout_seconds=0.1)
            place.snapshot.publish(snapshot_of(MAY_READ, offset=5))
            assert (await client.decide_many([ALICE, BOB])).allowed == [True, False]
            assert client.offset == 5


async def test_cancelled_send_closes_the_connection(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    """Part of a frame was sent: the other tasks ask on a new connection."""

    async def converse(number: int, stream: trio.SocketStream) -> None:
        if number == 1:
            await trio.sleep_forever()
        await allow_all(stream)

    async def ask_much() -> None:
        await client.decide_many(LARGE)

    decided: list[bool] = []

    async def ask() -> None:
        decided.append(await client.decide(ALICE))

    address = await start_server(nursery, converse)
    with trio.fail_after(SECONDS_MAX):
        async with (
            new_client(address, frame_bytes_max=2**26) as client,
            trio.open_nursery() as others,
        ):
            others.start_soon(ask)  # waits for its answer
            await wait_until_quiet()
            async with trio.open_nursery() as sending:
                sending.start_soon(ask_much)
                await wait_until_quiet()
                others.start_soon(ask)  # waits for its turn to send
                await wait_until_quiet()
                sending.cancel_scope.cancel()
    assert decided == [True, True]


async def test_question_of_a_broken_connection_is_sent_once_more(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    connections = []

    async def converse(number: int, stream: trio.SocketStream) -> None:
        connections.append(number)
        if number == 1:
            await stream.receive_some()
            return
        await allow_all(stream)

    async with new_client(await start_server(nursery, converse)) as client:
        assert await client.decide(ALICE)
        assert await client.decide(ALICE)
    assert connections == [1, 2]


async def test_silent_connection_is_replaced(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    """It is replaced after a time-out, and also if each caller cancels before the time limit."""
    closed = 0

    async def converse(_: int, stream: trio.SocketStream) -> None:
        nonlocal closed
        while await stream.receive_some():
            pass  # never answer
        closed += 1

    with trio.fail_after(SECONDS_MAX):
        async with new_client(await start_server(nursery, converse), timeout_seconds=0.5) as client:
            with pytest.raises(TimedOutError):
                await client.decide(ALICE)
            while closed < 3:
                with trio.move_on_after(0.2):
                    await client.decide(ALICE)
                await trio.sleep(0.1)


async def test_errors_of_the_block_are_not_wrapped(
    new_client: NewTaskClient, nursery: trio.Nursery
) -> None:
    address = await start_on_loopback(nursery, new_server(Place(None)))
    with pytest.raises(KeyError):  # noqa: PT012 - the block is what is tested
        async with new_client(address) as client:
            await client.connect()
            raise KeyError
