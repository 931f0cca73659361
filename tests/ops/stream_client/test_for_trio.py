"""The client for trio, beside the server and beside one that misbehaves."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import Operation
from authorizerd.daemon.net.binding import bind_unix
from authorizerd.protocol.decisions.stream import StreamQuestion, encode_answer
from authorizerd.protocol.kafka.error_codes import ErrorCode
from ops.stream_client.errors import AnswerError, ConnectionEndedError, StreamError
from ops.stream_client.for_trio import FRAMES_IN_FLIGHT_MAX, open_stream_client
from tests.daemon.decision_place import PROXY, Place, allow
from tests.daemon.stream_questions import at_offset
from tests.daemon.stream_service import new_server, start_on_loopback
from tests.ops.stream_client.stand_in import (
    ALICE,
    BOB,
    ENOUGH_S,
    GREETING,
    NO_ANSWERS,
    NO_GREETINGS,
    start_stand_in,
)

MAY_READ = allow("User:alice", Operation.READ, "orders")
LARGE: list[StreamQuestion] = [("User:a", None, 3, 2, "x" * 200)] * 100_000
"""More than two sockets hold."""


async def test_many_tasks_ask_at_once(nursery: trio.Nursery) -> None:
    """Each gets its own answer, more of them than may be in flight."""
    address = await start_on_loopback(nursery, new_server(Place(None, MAY_READ)))
    right = 0

    async def ask(number: int) -> None:
        nonlocal right
        asked = [ALICE if number >> bit & 1 else BOB for bit in range(10)]
        decisions = await client.ask(asked)
        right += decisions.allowed == [each is ALICE for each in asked]

    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client, trio.open_nursery() as tasks:
            for number in range(2 * FRAMES_IN_FLIGHT_MAX):
                tasks.start_soon(ask, number)
    assert right == 2 * FRAMES_IN_FLIGHT_MAX
    nursery.cancel_scope.cancel()


async def test_it_connects_to_a_unix_socket(nursery: trio.Nursery, tmp_path: Path) -> None:
    """And finds the daemon gone with an OSError."""
    bound = await bind_unix(tmp_path / "stream", "key")
    nursery.start_soon(new_server(Place(None, MAY_READ)).serve, bound.listen())
    async with open_stream_client(bound.address) as client:
        assert (await client.ask([ALICE])).allowed == [True]
    bound.close()
    with pytest.raises(OSError):  # noqa: PT011 - whichever it is
        async with open_stream_client(bound.address):
            pass
    nursery.cancel_scope.cancel()


async def test_it_shows_its_token(nursery: trio.Nursery, tmp_path: Path) -> None:
    """A wrong one is refused; what a good one may not ask is an error of that frame."""
    place = Place(tmp_path, allow(PROXY, Operation.READ, "orders"))
    address = await start_on_loopback(nursery, new_server(place))
    async with open_stream_client(address, token="proxy.secret") as client:
        with pytest.raises(AnswerError) as refused:
            await client.ask([ALICE])
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await client.ask([(PROXY, *ALICE[1:])])).allowed == [True]
    with pytest.raises(AnswerError) as unknown:
        async with open_stream_client(address):
            pass
    assert unknown.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    nursery.cancel_scope.cancel()


async def test_errors_of_the_block_come_out_as_they_are(nursery: trio.Nursery) -> None:
    """In no group, though a task of the client's own runs beside the block."""
    address = await start_on_loopback(nursery, new_server(Place(None)))
    with pytest.raises(KeyError):  # noqa: PT012 - the block is what is tested
        async with open_stream_client(address) as client:
            await client.ask([ALICE])
            raise KeyError
    nursery.cancel_scope.cancel()


async def test_it_waits_for_an_offset_and_remembers_the_newest(nursery: trio.Nursery) -> None:
    """So that who asks next may ask for no older state."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    async with open_stream_client(address) as client:
        assert client.offset == 0
        place.snapshot.publish(at_offset(5, MAY_READ))
        decisions = await client.ask([ALICE], min_offset=5)
        assert (decisions.offset, client.offset, decisions.allowed) == (5, 5, [True])
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("greeting", NO_GREETINGS.values(), ids=NO_GREETINGS)
async def test_what_is_no_greeting_is_an_error(nursery: trio.Nursery, greeting: bytes) -> None:
    """The block is never entered."""
    address = await start_stand_in(nursery, greeting)
    with trio.fail_after(ENOUGH_S), pytest.raises(StreamError):
        async with open_stream_client(address):
            raise AssertionError("entered")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
@pytest.mark.parametrize("then_closes", [True, False])
async def test_what_is_no_answer_is_never_an_allow(
    nursery: trio.Nursery, answer: bytes, then_closes: bool
) -> None:
    """An error, at the latest when the connection ends; nobody waits for ever."""
    if answer in (b"", NO_ANSWERS["closes within the answer"]) and not then_closes:
        return
    address = await start_stand_in(nursery, GREETING, answer, then_closes=then_closes)
    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client:
            with pytest.raises(StreamError):
                await client.ask([ALICE])
    nursery.cancel_scope.cancel()


async def test_when_the_connection_ends_everybody_is_told(nursery: trio.Nursery) -> None:
    """Those who wait for an answer, for a slot, and those who come later."""
    address = await start_stand_in(nursery, GREETING, b"\xff\xff\xff\xff")
    told = 0

    async def ask() -> None:
        nonlocal told
        with pytest.raises(ConnectionEndedError):
            await client.ask([ALICE])
        told += 1

    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client:
            async with trio.open_nursery() as tasks:
                for _ in range(2 * FRAMES_IN_FLIGHT_MAX):
                    tasks.start_soon(ask)
            await ask()
    assert told == 2 * FRAMES_IN_FLIGHT_MAX + 1
    nursery.cancel_scope.cancel()


async def test_who_is_cancelled_while_waiting_leaves_the_others_alone(
    nursery: trio.Nursery,
) -> None:
    """Its answer comes for nobody; the answers behind it go where they belong."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    decided: list[list[bool]] = []

    async def ask(question: StreamQuestion) -> None:
        decided.append((await client.ask([question], min_offset=5)).allowed)

    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client, trio.open_nursery() as others:
            async with trio.open_nursery() as given_up:
                given_up.start_soon(ask, BOB)
                await wait_all_tasks_blocked()
                others.start_soon(ask, ALICE)
                await wait_all_tasks_blocked()
                given_up.cancel_scope.cancel()
            place.snapshot.publish(at_offset(5, MAY_READ))
    assert decided == [[True]]
    nursery.cancel_scope.cancel()


async def test_who_is_cancelled_while_sending_ends_the_connection(nursery: trio.Nursery) -> None:
    """Half a frame was sent: the others are told, and nothing is sent behind it."""
    address = await start_stand_in(nursery, GREETING, then_closes=False)
    told = 0

    async def ask() -> None:
        nonlocal told
        with pytest.raises(ConnectionEndedError):
            await client.ask([ALICE])
        told += 1

    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client, trio.open_nursery() as others:
            others.start_soon(ask)  # waits for its answer
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as sending:
                sending.start_soon(client.ask, LARGE)
                await wait_all_tasks_blocked(0.05)
                others.start_soon(ask)  # waits for its turn to send
                await wait_all_tasks_blocked(0.05)
                sending.cancel_scope.cancel()
            await ask()
    assert told == 3
    nursery.cancel_scope.cancel()


async def test_a_cancelled_question_keeps_no_slot(nursery: trio.Nursery) -> None:
    """Nor is it forgotten that its answer is still to come."""
    place = Place(None)
    address = await start_on_loopback(nursery, new_server(place))
    with trio.fail_after(ENOUGH_S):
        async with open_stream_client(address) as client:
            async with trio.open_nursery() as given_up:
                for _ in range(FRAMES_IN_FLIGHT_MAX):
                    given_up.start_soon(lambda: client.ask([ALICE], min_offset=5))
                await wait_all_tasks_blocked(0.01)
                given_up.cancel_scope.cancel()
            place.snapshot.publish(at_offset(5, MAY_READ))
            assert (await client.ask([ALICE, BOB])).allowed == [True, False]
    nursery.cancel_scope.cancel()


async def test_a_decision_that_nobody_knows_is_no_allow(nursery: trio.Nursery) -> None:
    """Only 1 allows."""
    address = await start_stand_in(nursery, GREETING, encode_answer(1, 0, 0, b"\0\1\2\3\7\xff"))
    async with open_stream_client(address) as client:
        decisions = await client.ask([ALICE] * 6)
        assert decisions.allowed == [False, True, False, False, False, False]
    nursery.cancel_scope.cancel()
