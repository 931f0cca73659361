"""A client of the decision stream for trio: many tasks ask over one connection at once.

async with open_stream_client("127.0.0.1:8183") as client:
    decisions = await client.ask([("User:alice", None, "READ", "TOPIC", "orders")])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from ops.stream_client.decisions import FRAME_BYTES_MAX, Decisions, decided, greeted
from ops.stream_client.errors import ConnectionEndedError, StreamError
from protocol.decision_stream import Answer, StreamClientConnection, StreamQuestion
from protocol.errors import DecodeError

FRAMES_IN_FLIGHT_MAX = 256
UNIX_PREFIX = "unix:"


class TrioStreamClient:
    """One connection; made by ``open_stream_client``."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._connection = StreamClientConnection(FRAME_BYTES_MAX)
        self._sending = trio.Lock()
        self._slots = trio.Semaphore(FRAMES_IN_FLIGHT_MAX)
        self._waiting: dict[int, trio.Event] = {}
        self._answers: dict[int, Answer] = {}
        self._ended: StreamError | None = None
        self._correlation_id = 0
        self.offset = -1

    async def greet(self, token: str | None) -> None:
        """Say hello; raises StreamError, where the daemon does not want this client."""
        await self._stream.send_all(self._connection.hello(token))
        try:
            while (greeting := self._connection.next_greeting()) is None:
                await self._receive()
        except DecodeError as error:
            raise ConnectionEndedError(str(error)) from error
        self.offset = greeted(greeting)

    async def ask(self, questions: Sequence[StreamQuestion], *, min_offset: int = -1) -> Decisions:
        """Return the decisions on ``questions``, all by one state of the ACLs.

        Waits where too many frames are in flight. Cancelled while it waits, it leaves the others
        alone; while it sends, it ends the connection, since half a frame would garble the next.

        Raises:
            StreamError: there is no decision.
        """
        asked = list(questions)
        async with self._slots:
            self._correlation_id += 1
            number = self._correlation_id
            answered = self._waiting[number] = trio.Event()
            try:
                frame = self._connection.ask(number, asked, min_offset)
                async with self._sending:
                    await self._send(frame)
                await answered.wait()
            finally:
                del self._waiting[number]
            answer = self._answers.pop(number, None)
        if answer is None:
            raise self._ended or ConnectionEndedError("the connection has ended")
        decisions = decided(answer, asked)
        self.offset = max(self.offset, decisions.offset)
        return decisions

    async def run(self) -> None:
        """Take answers until the connection ends; then nobody waits any more."""
        try:
            while True:
                await self._receive()
                while (answer := self._connection.next_answer()) is not None:
                    waiting = self._waiting.get(answer.correlation_id)
                    if waiting is not None:
                        self._answers[answer.correlation_id] = answer
                        waiting.set()
        except StreamError as error:
            self._end(error)
        except DecodeError as error:
            self._end(ConnectionEndedError(str(error)))
        finally:
            self._end(ConnectionEndedError("the connection was closed"))

    def _end(self, error: StreamError) -> None:
        self._ended = self._ended or error
        for waiting in self._waiting.values():
            waiting.set()

    async def _send(self, frame: bytes) -> None:
        if self._ended is not None:
            raise self._ended
        try:
            await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionEndedError("the connection has ended") from error
        except trio.Cancelled:
            self._end(ConnectionEndedError("a frame was cut off"))
            raise

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionEndedError("the connection has ended") from error
        if not data:
            raise ConnectionEndedError("the daemon closed the connection")
        self._connection.receive_data(bytes(data))


@asynccontextmanager
async def open_stream_client(
    address: str, *, token: str | None = None
) -> AsyncIterator[TrioStreamClient]:
    """Connect to ``host:port`` or ``unix:PATH``; the connection is closed when the block ends.

    Raises:
        OSError: the daemon is not there.
        StreamError: it does not want this client.
    """
    stream = await _connect(address)
    async with stream, trio.open_nursery() as nursery:
        client = TrioStreamClient(stream)
        await client.greet(token)
        nursery.start_soon(client.run)
        try:
            yield client
        finally:
            nursery.cancel_scope.cancel()


async def _connect(address: str) -> trio.SocketStream:
    if address.startswith(UNIX_PREFIX):
        return await trio.open_unix_socket(address.removeprefix(UNIX_PREFIX))
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))
