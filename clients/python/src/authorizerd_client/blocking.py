"""The blocking client, for scripts and threads.

    with Client("tcp://127.0.0.1:8183") as client:
        may = client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

Every method blocks its thread until the answer arrives or the time limit expires.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from authorizerd_client.backoff import Backoff
from authorizerd_client.blocking_link import BlockingLink, Deadline, open_socket
from authorizerd_client.errors import (
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
)
from authorizerd_client.protocol import FRAME_BYTES_MAX, Request, encode_request, plan_frames
from authorizerd_client.tls import new_endpoint
from authorizerd_client.values import (
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
        address: ``tls://HOST:PORT``, ``tcp://HOST:PORT``, ``HOST:PORT`` or ``unix:PATH``.
        token: ``ID.SECRET``, if the daemon requires tokens and the client has no certificate.
        tls: how to check the daemon's certificate, and which certificate to present, for
            ``tls://``. None trusts the system's CAs and checks the host's name.
        timeout_seconds: time limit of a call, including waits for other threads and connecting.
        connect_timeout_seconds: time limit of one attempt to connect, with TLS and hello. Looking
            up a host name may take longer, since the operating system sets that limit.
        frame_bytes_max: the largest frame to send, in bytes: the daemon's
            ``authorizerd.stream.frame.max.bytes``. It also limits the frames that are received.

    Attributes:
        offset: the newest log offset that the daemon has named, -1 before the first.

    Raises:
        ValueError: the address is invalid, or ``tls`` is given for an address without TLS.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = 5.0,
        connect_timeout_seconds: float = 5.0,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.offset = -1
        self._address = parse_address(address)
        self._tls = new_endpoint(self._address, tls)
        self._token = token
        self._timeout = timeout_seconds
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._backoff = Backoff()
        self._connect_error = "no attempt to connect was made"
        self._turn = threading.Lock()
        self._link: BlockingLink | None = None
        self._closing = threading.Event()

    def connect(self, *, timeout_seconds: float | None = None) -> None:
        """Connect now rather than with the first question, to find a wrong address or token early.

        Raises:
            ConnectionLostError: the daemon could not be reached in time.
            TlsError: a certificate is refused, or one side is without TLS.
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
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                there is no decision. If the error closes the connection, the next question makes a
                new one.
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
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                as ``decide``.
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
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                as ``decide``. Nothing is returned if one frame fails.
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
    def _take_turn(self, timeout_seconds: float | None) -> Iterator[Deadline]:
        """Wait until no other thread is in a call, and yield the deadline of this call."""
        deadline = Deadline(self._timeout if timeout_seconds is None else timeout_seconds)
        if not self._turn.acquire(timeout=deadline.remaining):
            raise TimedOutError("other threads used the connection until the time limit")
        try:
            yield deadline
        finally:
            self._turn.release()

    def _ask(self, request: Request, deadline: Deadline) -> Decisions:
        link = self._get_link(deadline)
        try:
            decisions = self._exchange(link, request, deadline)
        except ConnectionLostError:
            decisions = self._exchange(self._get_link(deadline), request, deadline)
        self.offset = max(self.offset, decisions.offset)
        return decisions

    def _exchange(self, link: BlockingLink, request: Request, deadline: Deadline) -> Decisions:
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

    def _get_link(self, deadline: Deadline) -> BlockingLink:
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

    def _try_to_connect(self, deadline: Deadline) -> BlockingLink | None:
        """Return a connection, or None if the daemon cannot be reached now."""
        attempt = Deadline(min(self._connect_timeout, deadline.remaining))
        try:
            tls = None if self._tls is None else self._tls.new_session()
            connected = open_socket(self._address, attempt)
            link = BlockingLink(connected, tls, self._frame_bytes_max)
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
