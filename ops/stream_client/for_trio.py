"""A client of the decision stream for trio: many tasks ask over one connection at once.

async with open_stream_client("127.0.0.1:8183") as client:
    decisions = await client.ask([("User:alice", None, "READ", "TOPIC", "orders")])
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from authorizerd.protocol.decisions.stream import Answer, StreamClientConnection, StreamQuestion
from authorizerd.protocol.errors import DecodeError
from ops.stream_client.decisions import FRAME_BYTES_MAX, Decisions, decided, greeted
from ops.stream_client.errors import ConnectionEndedError, StreamError

FRAMES_IN_FLIGHT_MAX = 256
RECEIVE_BYTES = 64 * 1024
UNIX_PREFIX = "unix:"


class _Asked:
    """A frame that was sent, or is being sent; ``answered`` with no answer: there is none."""

    __slots__ = ("answer", "answered", "correlation_id")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.answered = trio.Event()
        self.answer: Answer | None = None


class TrioStreamClient:
    """One connection; made by ``open_stream_client``."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._connection = StreamClientConnection(FRAME_BYTES_MAX)
        self._sending = trio.Lock()
        self._slots = trio.Semaphore(FRAMES_IN_FLIGHT_MAX)
        self._unanswered: deque[_Asked] = deque()
        self._ended: str | None = None
        self._correlation_id = 0
        self.offset = -1

    async def greet(self, token: str | None) -> None:
        """Say hello; raises StreamError, where the daemon does not want this client."""
        await self._send(self._connection.hello(token))
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
            ValueError, OverflowError: what no frame can hold; nothing was sent.
        """
        questions = list(questions)
        async with self._slots:
            self._correlation_id += 1
            asked = _Asked(self._correlation_id)
            frame = self._connection.ask(asked.correlation_id, questions, min_offset)
            async with self._sending:
                self._unanswered.append(asked)
                await self._send(frame)
            await asked.answered.wait()
        if asked.answer is None:
            raise ConnectionEndedError(f"no answer: {self._ended}")
        decisions = decided(asked.answer, questions)
        self.offset = max(self.offset, decisions.offset)
        return decisions

    async def run(self) -> None:
        """Take answers until the connection ends; then nobody waits any more."""
        try:
            while True:
                await self._receive()
                while (answer := self._connection.next_answer()) is not None:
                    self._take(answer)
        except (StreamError, DecodeError) as error:
            self._end(str(error))
        finally:
            self._end("the connection was closed")

    def _take(self, answer: Answer) -> None:
        """Hand on an answer; they come in the order of what was asked, asked in vain or not."""
        if not self._unanswered or self._unanswered[0].correlation_id != answer.correlation_id:
            raise ConnectionEndedError("an answer to another question")
        asked = self._unanswered.popleft()
        asked.answer = answer
        asked.answered.set()

    def _end(self, reason: str) -> None:
        """Close; whoever has no answer gets none."""
        self._ended = self._ended or reason
        self._stream.socket.close()
        for asked in self._unanswered:
            asked.answered.set()

    async def _send(self, frame: bytes) -> None:
        try:
            await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionEndedError("the connection has ended") from error
        except trio.Cancelled:
            self._end("a frame was cut off")
            raise

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some(RECEIVE_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionEndedError("the connection has ended") from error
        if not data:
            raise ConnectionEndedError("the daemon closed the connection")
        self._connection.receive_data(data)


@asynccontextmanager
async def open_stream_client(
    address: str, *, token: str | None = None
) -> AsyncIterator[TrioStreamClient]:
    """Connect to ``host:port`` or ``unix:PATH``; the connection is closed when the block ends.

    Raises:
        OSError: the daemon is not there.
        StreamError: it does not want this client.
    """
    failure: Exception | None = None
    async with await _connect(address) as stream:
        client = TrioStreamClient(stream)
        await client.greet(token)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run)
            try:
                yield client
            except Exception as error:  # noqa: BLE001 - raised below, where it makes no group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _connect(address: str) -> trio.SocketStream:
    if address.startswith(UNIX_PREFIX):
        return await trio.open_unix_socket(address.removeprefix(UNIX_PREFIX))
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))
