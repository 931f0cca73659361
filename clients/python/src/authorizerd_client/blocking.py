"""The blocking client, for scripts and threads.

    with Client("tcp://127.0.0.1:8183") as client:
        may = client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

Every method blocks its thread until the answer arrives or the time limit expires.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from authorizerd_client.backoff import Backoff
from authorizerd_client.errors import (
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
)
from authorizerd_client.protocol import (
    FRAME_BYTES_MAX,
    RECEIVE_BYTES,
    Connection,
    Request,
    encode_request,
    plan_frames,
)
from authorizerd_client.values import (
    Address,
    AnyQuestion,
    Decisions,
    Question,
    parse_address,
    select_allowed,
)


class Client:
    """A client with one connection. Threads may share it; they take turns.

    The first question connects, and so does the first question after a failure. If the connection
    breaks during a question, the client asks once more, within the time limit: questions change
    nothing, so this is safe. While the daemon cannot be reached, attempts to connect wait for
    increasing, random delays of up to 5 seconds. A question fails at once if its time limit ends
    before the next attempt.

    Args:
        address: ``tcp://HOST:PORT``, ``HOST:PORT`` or ``unix:PATH``.
        token: ``ID.SECRET``, if the daemon requires tokens.
        timeout_seconds: time limit of a call, including waits for other threads and connecting.
        connect_timeout_seconds: time limit of one attempt to connect. Looking up a host name may
            take longer, since the operating system sets that limit.
        frame_bytes_max: the largest frame to send, in bytes: the daemon's
            ``authorizerd.stream.frame.max.bytes``. It also limits the frames that are received.

    Attributes:
        offset: the newest log offset that the daemon has named, -1 before the first.

    Raises:
        ValueError: the address is invalid.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        timeout_seconds: float = 5.0,
        connect_timeout_seconds: float = 5.0,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.offset = -1
        self._address = parse_address(address)
        self._token = token
        self._timeout = timeout_seconds
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._backoff = Backoff()
        self._connect_error = "no attempt to connect was made"
        self._turn = threading.Lock()
        self._link: _Link | None = None
        self._closing = threading.Event()

    def connect(self, *, timeout_seconds: float | None = None) -> None:
        """Connect now rather than with the first question, to find a wrong address or token early.

        Raises:
            ConnectionLostError: the daemon could not be reached in time.
            TokenRefusedError, OverloadedError, UnsupportedVersionError: the daemon refuses the
                connection.
            ProtocolError: the peer is not a decision stream.
        """
        with self._take_turn(timeout_seconds) as deadline:
            self._get_link(deadline)

    def decide(
        self, question: AnyQuestion, *, min_offset: int = -1, timeout_seconds: float | None = None
    ) -> bool:
        """Return True if the daemon allows the question, False if it denies it.

        Args:
            min_offset: answer by ACLs that include this log offset; the daemon waits for it.
            timeout_seconds: replaces the client's time limit.

        Raises:
            InvalidQuestionError: the question is invalid.
            ConnectionLostError, TimedOutError, ProtocolError, ClosedError, AnswerError: there is
                no decision. If the error closes the connection, the next question makes a new one.
        """
        decisions = self.decide_many(
            [question], min_offset=min_offset, timeout_seconds=timeout_seconds
        )
        return decisions.is_allowed(0, question)

    def decide_many(
        self,
        questions: Sequence[AnyQuestion],
        *,
        min_offset: int = -1,
        timeout_seconds: float | None = None,
    ) -> Decisions:
        """Return the decisions about all questions, by one state of the ACLs.

        The questions travel in one frame. An invalid question does not raise an error: its code
        is ``INVALID``.

        Raises:
            InvalidQuestionError: the questions do not fit into one frame, or cannot be encoded.
                Nothing was sent.
            ConnectionLostError, TimedOutError, ProtocolError, ClosedError, AnswerError: as
                ``decide``.
        """
        request = encode_request(questions, min_offset, self._frame_bytes_max)
        with self._take_turn(timeout_seconds) as deadline:
            return self._ask(request, deadline)

    def filter_allowed(
        self,
        principal: str,
        host: str | None,
        operation: str | int,
        resource_type: str | int,
        names: Sequence[str],
        *,
        min_offset: int = -1,
        timeout_seconds: float | None = None,
    ) -> list[str]:
        """Return those of ``names`` for which the principal may do the operation, in their order.

        Any number of names may be given. They travel in as many frames as needed; each frame is
        judged by one state of the ACLs, and no later frame by an older state.

        Raises:
            InvalidQuestionError, NotReadyError: a question is invalid or has no decision yet.
            ConnectionLostError, TimedOutError, ProtocolError, ClosedError, AnswerError: as
                ``decide``. Nothing is returned if one frame fails.
        """
        repeated = Question(principal, host, operation, resource_type, "")
        allowed: list[str] = []
        with self._take_turn(timeout_seconds) as deadline:
            for questions in plan_frames(repeated, names, self._frame_bytes_max):
                request = encode_request(questions, min_offset, self._frame_bytes_max)
                decisions = self._ask(request, deadline)
                allowed += select_allowed(questions, decisions)
                min_offset = max(min_offset, decisions.offset)
        return allowed

    def close(self) -> None:
        """Close the connection for good. A call in another thread raises ``ClosedError``."""
        self._closing.set()
        link = self._link
        if link is not None:
            link.shut_down()
        # That wakes a thread that is in a call, which then drops the connection itself.
        if self._turn.acquire(blocking=False):
            try:
                self._drop_link()
            finally:
                self._turn.release()

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
    def _take_turn(self, timeout_seconds: float | None) -> Iterator[_Deadline]:
        """Wait until no other thread is in a call, and yield the deadline of this call."""
        deadline = _Deadline(self._timeout if timeout_seconds is None else timeout_seconds)
        if not self._turn.acquire(timeout=deadline.remaining):
            raise TimedOutError("other threads used the connection until the time limit")
        try:
            yield deadline
        finally:
            self._turn.release()

    def _ask(self, request: Request, deadline: _Deadline) -> Decisions:
        link = self._get_link(deadline)
        try:
            decisions = self._exchange(link, request, deadline)
        except ConnectionLostError:
            decisions = self._exchange(self._get_link(deadline), request, deadline)
        self.offset = max(self.offset, decisions.offset)
        return decisions

    def _exchange(self, link: _Link, request: Request, deadline: _Deadline) -> Decisions:
        try:
            return link.ask(request, deadline)
        finally:
            if link.has_ended:
                self._link = None
            # After `close`, raise ClosedError, not the error of the socket that `close` shut down.
            self._check_is_open()

    def _check_is_open(self) -> None:
        if self._closing.is_set():
            self._drop_link()
            raise ClosedError("the client is closed")

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _get_link(self, deadline: _Deadline) -> _Link:
        """Return the connection. Connect first if necessary."""
        while self._link is None:
            wait = self._backoff.next_attempt - time.monotonic()
            if wait > deadline.remaining or deadline.remaining <= 0:
                raise ConnectionLostError(f"not connected: {self._connect_error}")
            # Why not time.sleep? `close` must end the wait.
            self._closing.wait(max(0.0, wait))
            self._check_is_open()
            self._link = self._try_to_connect(deadline)
        # `close` cannot end a connection that is still being made, so check again.
        self._check_is_open()
        return self._link

    def _try_to_connect(self, deadline: _Deadline) -> _Link | None:
        """Return a connection, or None if the daemon cannot be reached now."""
        attempt = _Deadline(min(self._connect_timeout, deadline.remaining))
        try:
            link = _Link(_open_socket(self._address, attempt), self._frame_bytes_max)
            offset = link.greet(self._token, attempt)
        except (OSError, AuthorizerdError) as error:
            self._backoff.fail(time.monotonic())
            self._connect_error = str(error)
            if isinstance(error, OSError | ConnectionLostError | TimedOutError):
                return None
            raise  # the peer answered, so the caller must know its reason
        self._backoff.succeed()
        # Reported if the connection breaks when no time is left to connect again.
        self._connect_error = "the connection broke at the time limit"
        self.offset = max(self.offset, offset)
        return link


class _Deadline:
    """The end of a time limit, in seconds of the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Return the seconds that remain, 0 if none do."""
        return max(0.0, self._end - time.monotonic())


class _Link:
    """One connection with its socket. Any error closes it, except an answer with an error code."""

    def __init__(self, connected: socket.socket, frame_bytes_max: int) -> None:
        self._socket = connected
        self._connection = Connection(frame_bytes_max)

    @property
    def has_ended(self) -> bool:
        return self._connection.has_ended

    def greet(self, token: str | None, deadline: _Deadline) -> int:
        """Send the hello, and return the offset in its answer."""
        with self._closed_by_errors():
            self._send(self._connection.encode_hello(token), deadline)
            while self._connection.offset is None:
                self._receive(deadline)
        return self._connection.offset

    def ask(self, request: Request, deadline: _Deadline) -> Decisions:
        """Return the decisions about the questions of one request."""
        with self._closed_by_errors():
            exchange, frame = self._connection.ask(request)
            self._send(frame, deadline)
            while not exchange.is_settled:
                self._receive(deadline)
        return exchange.get_decisions()

    def shut_down(self) -> None:
        """End the connection while another thread may be using it."""
        try:
            # Why not close it? That would not wake a thread that is receiving.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the socket is closed or disconnected already

    def close(self) -> None:
        self._connection.end(lambda: ConnectionLostError("the connection was closed"))
        self._socket.close()

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Close the connection if the block raises.

        A frame may have been sent in part, or its answer may still arrive.
        """
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise TimedOutError("the daemon did not answer in time") from error
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"the connection broke: {error}") from error
        except BaseException:
            self.close()
            raise

    def _send(self, data: bytes, deadline: _Deadline) -> None:
        self._limit(deadline)
        self._socket.sendall(data)

    def _receive(self, deadline: _Deadline) -> None:
        self._limit(deadline)
        self._connection.receive_data(self._socket.recv(RECEIVE_BYTES))

    def _limit(self, deadline: _Deadline) -> None:
        remaining = deadline.remaining
        if remaining <= 0:  # a timeout of 0 would make the socket non-blocking
            raise TimeoutError
        self._socket.settimeout(remaining)


def _open_socket(address: Address, deadline: _Deadline) -> socket.socket:
    if address.path is None:
        place = (address.host, address.port)
        # Never 0, which would make the socket non-blocking.
        connected = socket.create_connection(place, max(deadline.remaining, 0.001))
        # Otherwise a small frame may wait until the peer has acknowledged the one before.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(max(deadline.remaining, 0.001))
        connected.connect(address.path)
    except BaseException:
        connected.close()
        raise
    return connected
