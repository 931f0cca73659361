"""A client of the decision stream that blocks: for scripts, and for threads of their own.

with StreamClient("127.0.0.1:8183") as client:
    decisions = client.ask([("User:alice", None, "READ", "TOPIC", "orders")])
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from authorizerd.protocol.decisions.stream import StreamClientConnection, StreamQuestion
from authorizerd.protocol.errors import DecodeError
from ops.stream_client.decisions import FRAME_BYTES_MAX, Decisions, decided, greeted
from ops.stream_client.errors import ConnectionEndedError

RECEIVE_BYTES = 256 * 1024
UNIX_PREFIX = "unix:"

T = TypeVar("T")


class StreamClient:
    """One connection, not for several threads at once; an error that is no answer closes it.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        token: None where the daemon asks for none.
        timeout_seconds: how long each wait for the daemon may take.

    Raises:
        OSError: the daemon is not there, or does not answer in time.
        StreamError: it does not want this client.
    """

    def __init__(
        self, address: str, *, token: str | None = None, timeout_seconds: float = 5.0
    ) -> None:
        self._socket = _connect(address, timeout_seconds)
        self._connection = StreamClientConnection(FRAME_BYTES_MAX)
        self._correlation_id = 0
        with self._closed_by_errors():
            hello = self._connection.hello(token)
            self.offset = greeted(self._exchange(hello, self._connection.next_greeting))

    def ask(self, questions: Sequence[StreamQuestion], *, min_offset: int = -1) -> Decisions:
        """Return the decisions on ``questions``, all by one state of the ACLs.

        Args:
            min_offset: a log offset that the state must have reached; the daemon waits for it.

        Raises:
            OSError, StreamError: there is no decision.
            ValueError, OverflowError: what no frame can hold; nothing was sent.
        """
        asked = list(questions)
        frame = self._connection.ask(self._correlation_id + 1, asked, min_offset)
        self._correlation_id += 1
        with self._closed_by_errors():
            answer = self._exchange(frame, self._connection.next_answer)
            if answer.correlation_id != self._correlation_id:
                raise ConnectionEndedError("an answer to another question")
        decisions = decided(answer, asked)
        self.offset = decisions.offset
        return decisions

    def close(self) -> None:
        """End the connection; who asks after it gets an OSError."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Close after half a frame, or half an answer: what came next would be misread."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _exchange(self, frame: bytes, take: Callable[[], T | None]) -> T:
        """Send ``frame`` and return what answers it."""
        self._socket.sendall(frame)
        try:
            while (taken := take()) is None:
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionEndedError("the daemon closed the connection")
                self._connection.receive_data(data)
        except DecodeError as error:
            raise ConnectionEndedError(str(error)) from error
        return taken


def _connect(address: str, timeout_seconds: float) -> socket.socket:
    if address.startswith(UNIX_PREFIX):
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.settimeout(timeout_seconds)
            connected.connect(address.removeprefix(UNIX_PREFIX))
        except OSError:
            connected.close()
            raise
        return connected
    host, _, port = address.rpartition(":")
    connected = socket.create_connection((host.strip("[]"), int(port)), timeout_seconds)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
