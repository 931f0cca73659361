"""The client for asyncio inside asyncio's own tasks, whose cancellations differ from trio's."""

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.protocol.framing import Frames
from authorizerd_client import Question, TimedOutError
from authorizerd_client import asyncio as asyncio_client
from authorizerd_client.asyncio import Client
from tests.clients.stand_in import FRAME_BYTES_MAX, GREETING
from tests.support.sockets import accepting

ALICE: Final = Question("User:alice", None, "READ", "TOPIC", "orders")
YES: Final = b"\1"
SECONDS_MAX: Final = 60


@contextmanager
def answering(count: int, may_go_on: threading.Event) -> Iterator[str]:
    """Answer the first question once ``count`` have arrived, the others once ``may_go_on`` is set.

    Later questions are answered at once.
    """

    def serve(connection: socket.socket) -> None:
        connection.recv(FRAME_BYTES_MAX)
        connection.sendall(GREETING)
        frames, received = Frames(), 0
        with suppress(OSError):
            while data := connection.recv(FRAME_BYTES_MAX):
                frames.receive_data(data)
                while frames.next(FRAME_BYTES_MAX) is not None:
                    received += 1
                    if received > count:
                        connection.sendall(encode_answer(received, 0, 0, YES))
                    elif received == count:
                        connection.sendall(encode_answer(1, 0, 0, YES))
                        may_go_on.wait(SECONDS_MAX)
                        for number in range(2, count + 1):
                            connection.sendall(encode_answer(number, 0, 0, YES))

    with accepting(serve) as address:
        yield address


def stream_of(client: Client) -> asyncio_client._Stream:
    link = client._links._link
    assert link is not None
    assert isinstance(link._stream, asyncio_client._Stream)
    return link._stream


def run(main: Callable[[Client], Awaitable[None]], address: str) -> None:
    """Run a program with a client. It must leave no open socket behind."""

    async def with_client() -> None:
        async with asyncio.timeout(SECONDS_MAX), Client(address) as client:
            await client.connect()
            await main(client)

    asyncio.run(with_client(), debug=True)
    gc.collect()  # pytest reports a ResourceWarning


def test_reader_that_is_cancelled_before_it_reads_passes_the_reading_on() -> None:
    """A task hands the reading over to the next one, and cancels it before that task runs."""
    may_go_on = threading.Event()

    async def main(client: Client) -> None:
        async def ask_first() -> None:
            assert await client.decide(ALICE)
            second.cancel()
            may_go_on.set()

        first = asyncio.create_task(ask_first())
        second = asyncio.create_task(client.decide(ALICE))
        third = asyncio.create_task(client.decide(ALICE))
        await first
        assert await third
        with pytest.raises(asyncio.CancelledError):
            await second

    with answering(3, may_go_on) as address:
        run(main, address)


def test_answer_that_arrives_with_a_cancellation_is_not_lost() -> None:
    """The bytes arrive, the task that would read them is cancelled, and the next one gets them."""
    may_go_on = threading.Event()

    async def main(client: Client) -> None:
        first = asyncio.create_task(client.decide(ALICE))
        second = asyncio.create_task(client.decide(ALICE))
        stream = stream_of(client)
        receive = stream.data_received

        def cancel_and_receive(data: bytes) -> None:
            receive(data)
            first.cancel()

        stream.data_received = cancel_and_receive  # type: ignore[method-assign]
        may_go_on.set()
        assert await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await client.decide(ALICE)

    with answering(2, may_go_on) as address:
        run(main, address)


def test_callers_own_time_limit_keeps_the_connection() -> None:
    """The late answer is not taken for that of the next question."""
    may_go_on = threading.Event()

    async def main(client: Client) -> None:
        other = asyncio.create_task(client.decide(ALICE))
        await asyncio.sleep(0)  # it asks first
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.1):
                await client.decide(ALICE)
        assert not isinstance(raised.value, TimedOutError)
        stream = stream_of(client)
        may_go_on.set()
        assert [await other, await client.decide(ALICE)] == [True, True]
        assert stream_of(client) is stream

    with answering(2, may_go_on) as address:
        run(main, address)


def test_data_that_no_call_reads_is_bounded() -> None:
    is_greeted = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(FRAME_BYTES_MAX)
        connection.sendall(GREETING)
        is_greeted.wait(SECONDS_MAX)
        connection.sendall(bytes(10**8))

    async def main(client: Client) -> None:
        stream = stream_of(client)
        is_greeted.set()
        for _ in range(SECONDS_MAX * 100):
            if not stream._transport.is_reading() or len(stream._received) > 10**7:
                break
            await asyncio.sleep(0.01)
        assert 0 < len(stream._received) < 10**6

    with accepting(serve) as address:
        run(main, address)
