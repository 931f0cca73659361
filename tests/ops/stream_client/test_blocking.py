"""The client that blocks, beside the server and beside one that misbehaves."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from authorizerd.acl.model import Operation
from authorizerd.daemon.net.binding import bind_unix
from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.protocol.kafka.error_codes import ErrorCode
from ops.stream_client.blocking import StreamClient
from ops.stream_client.errors import AnswerError, StreamError
from tests.daemon.decision_place import PROXY, Place, allow
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
T = TypeVar("T")


async def blocking(do: Callable[[], T]) -> T:
    with trio.fail_after(ENOUGH_S):
        return await trio.to_thread.run_sync(do, abandon_on_cancel=True)


async def test_it_gets_the_daemons_decisions(nursery: trio.Nursery) -> None:
    """Allowed is what the daemon allows, in the order of what was asked."""
    place = Place(None, MAY_READ)
    address = await start_on_loopback(nursery, new_server(place))

    def ask() -> None:
        with StreamClient(address) as client:
            for count in range(5):
                decisions = client.ask([ALICE, BOB] * count, min_offset=0)
                assert decisions.allowed == [True, False] * count
            assert client.ask([("nobody", None, 1, 2, "")]).codes == b"\2"
            assert client.ask([("nobody", None, 1, 2, "")]).allowed == [False]
            assert client.offset == 0

    await blocking(ask)
    nursery.cancel_scope.cancel()


async def test_it_connects_to_a_unix_socket(nursery: trio.Nursery, tmp_path: Path) -> None:
    """And finds the daemon gone with an OSError."""
    bound = await bind_unix(tmp_path / "stream", "key")
    server = new_server(Place(None, MAY_READ))
    nursery.start_soon(server.serve, bound.listen())

    def ask() -> None:
        with StreamClient(bound.address) as client:
            assert client.ask([ALICE]).allowed == [True]

    await blocking(ask)
    bound.close()
    for address in (bound.address, f"127.0.0.1:{unused_port()}"):
        with pytest.raises(OSError):  # noqa: PT011 - whichever it is
            StreamClient(address)
    nursery.cancel_scope.cancel()


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_it_shows_its_token(nursery: trio.Nursery, tmp_path: Path) -> None:
    """A wrong one is refused; what a good one may not ask is an error."""
    place = Place(tmp_path, allow(PROXY, Operation.READ, "orders"))
    address = await start_on_loopback(nursery, new_server(place))

    def ask() -> None:
        with StreamClient(address, token="proxy.secret") as client:
            with pytest.raises(AnswerError) as refused:
                client.ask([ALICE])
            assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert client.ask([(PROXY, *ALICE[1:])]).allowed == [True]
        with pytest.raises(AnswerError) as unknown:
            StreamClient(address, token="proxy.wrong")
        assert unknown.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED

    await blocking(ask)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("greeting", NO_GREETINGS.values(), ids=NO_GREETINGS)
async def test_what_is_no_greeting_is_an_error(nursery: trio.Nursery, greeting: bytes) -> None:
    """There is no client then, and no socket is left open."""
    address = await start_stand_in(nursery, greeting)

    def ask() -> None:
        with pytest.raises((StreamError, ConnectionError)):
            StreamClient(address)

    await blocking(ask)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_is_no_answer_is_never_an_allow(nursery: trio.Nursery, answer: bytes) -> None:
    """An error each time, and the next question is not answered by what was left."""
    address = await start_stand_in(nursery, GREETING, answer)

    def ask() -> None:
        with StreamClient(address) as client:
            for _ in range(2):
                with pytest.raises((StreamError, OSError)):
                    client.ask([ALICE])

    await blocking(ask)
    nursery.cancel_scope.cancel()


async def test_a_decision_that_nobody_knows_is_no_allow(nursery: trio.Nursery) -> None:
    """Only 1 allows."""
    answer = encode_answer(1, 0, 0, bytes(range(256)))
    address = await start_stand_in(nursery, GREETING, answer)

    def ask() -> None:
        with StreamClient(address) as client:
            decisions = client.ask([ALICE] * 256)
            assert decisions.allowed == [number == 1 for number in range(256)]

    await blocking(ask)
    nursery.cancel_scope.cancel()


async def test_a_daemon_that_does_not_answer_is_an_error(nursery: trio.Nursery) -> None:
    """After the time-out the connection is closed: a late answer is for nobody."""
    address = await start_stand_in(nursery, GREETING, then_closes=False)

    def ask() -> None:
        with StreamClient(address, timeout_seconds=0.05) as client:
            with pytest.raises(TimeoutError):
                client.ask([ALICE])
            with pytest.raises(OSError):  # noqa: PT011 - a closed socket's
                client.ask([ALICE])

    await blocking(ask)
    nursery.cancel_scope.cancel()


async def test_what_no_frame_can_hold_leaves_the_connection_alone(nursery: trio.Nursery) -> None:
    """Nothing of it is sent."""
    address = await start_on_loopback(nursery, new_server(Place(None, MAY_READ)))

    def ask() -> None:
        with StreamClient(address) as client:
            with pytest.raises(ValueError, match="surrogates"):
                client.ask([("User:\ud800", None, 3, 2, "orders")])
            assert client.ask([ALICE]).allowed == [True]

    await blocking(ask)
    nursery.cancel_scope.cancel()
