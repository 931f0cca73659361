"""A client of the decision stream that blocks: for scripts, and for threads of their own.

with StreamClient("127.0.0.1:8183") as client:
    decisions = client.ask([("User:alice", None, "READ", "TOPIC", "orders")])
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from ops.stream_client.decisions import FRAME_BYTES_MAX, Decisions, decided, greeted
from ops.stream_client.errors import ConnectionEndedError
from protocol.decision_stream import StreamClientConnection, StreamQuestion
from protocol.errors import DecodeError

RECEIVE_BYTES = 256 * 1024
UNIX_PREFIX = "unix:"

T = TypeVar("T")


class StreamClient:
    """One connection; not for several threads at once.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        token: None where the daemon asks for none.
        timeout_seconds: how long each wait for the daemon may take.

    Raises (everything): OSError, where the daemon is not there or does not answer; StreamError.
    """

    def __init__(
        self, address: str, *, token: str | None = None, timeout_seconds: float = 5.0
    ) -> None:
        self._socket = _connect(address, timeout_seconds)
        self._connection = StreamClientConnection(FRAME_BYTES_MAX)
        self._correlation_id = 0
        try:
            self._socket.sendall(self._connection.hello(token))
            self.offset = greeted(self._wait_for(self._connection.next_greeting))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, questions: Sequence[StreamQuestion], *, min_offset: int = -1) -> Decisions:
        """Return the decisions on ``questions``, all by one state of the ACLs.

        Args:
            min_offset: a log offset that the state must have reached; the daemon waits for it.
        """
        self._correlation_id += 1
        asked = list(questions)
        self._socket.sendall(self._connection.ask(self._correlation_id, asked, min_offset))
        answer = self._wait_for(self._connection.next_answer)
        if answer.correlation_id != self._correlation_id:
            raise ConnectionEndedError("an answer to another question")
        decisions = decided(answer, asked)
        self.offset = decisions.offset
        return decisions

    def close(self) -> None:
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

    def _wait_for(self, take: Callable[[], T | None]) -> T:
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
        connected.settimeout(timeout_seconds)
        connected.connect(address.removeprefix(UNIX_PREFIX))
        return connected
    host, _, port = address.rpartition(":")
    connected = socket.create_connection((host.strip("[]"), int(port)), timeout_seconds)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
