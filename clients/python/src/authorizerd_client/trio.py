"""The client for trio: many tasks ask over one connection at once.

    async with Client("tcp://127.0.0.1:8183") as client:
        may = await client.decide(Question("User:alice", "10.0.0.7", "READ", "TOPIC", "orders"))

The client starts no task and needs no nursery: a task that waits for its answer also reads the
answers for the other tasks.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import trio

from authorizerd_client.backoff import Backoff
from authorizerd_client.errors import (
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
)
from authorizerd_client.protocol import FRAME_BYTES_MAX, Request, encode_request, plan_frames
from authorizerd_client.tls import new_endpoint
from authorizerd_client.trio_link import TrioLink
from authorizerd_client.values import (
    AnyQuestion,
    Decisions,
    Question,
    parse_address,
    select_allowed,
)

FRAMES_IN_FLIGHT_MAX = 256


class Client:
    """A client with one connection, for any number of tasks of one trio program.

    The first question connects, and so does the first question after a failure. If the connection
    breaks during a question, the client asks once more, within the time limit: questions change
    nothing, so this is safe. While the daemon cannot be reached, attempts to connect wait for
    increasing, random delays of up to 5 seconds. A question fails at once if its time limit ends
    before the next attempt.

    Cancelling a call does not make other calls fail. If it is cancelled while its frame is being
    sent, the client closes the connection, because the daemon would misread the next frame. The
    other calls then repeat their questions on a new connection.

    Args:
        address: ``tls://HOST:PORT``, ``tcp://HOST:PORT``, ``HOST:PORT`` or ``unix:PATH``.
        token: ``ID.SECRET``, if the daemon requires tokens and the client has no certificate.
        tls: how to check the daemon's certificate, and which certificate to present, for
            ``tls://``. None trusts the system's CAs and checks the host's name.
        timeout_seconds: time limit of a call, including waits for other tasks and connecting. If
            the oldest frame of the connection has no answer by then, the connection is closed, and
            the other calls repeat their questions on a new one.
        connect_timeout_seconds: time limit of one attempt to connect, with TLS and hello.
        frame_bytes_max: the largest frame to send, in bytes: the daemon's
            ``authorizerd.stream.frame.max.bytes``. It also limits the frames that are received.
        frames_in_flight_max: how many frames may wait for answers. Further calls wait. A cancelled
            call's frame counts until its answer has arrived.

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
        frames_in_flight_max: int = FRAMES_IN_FLIGHT_MAX,
    ) -> None:
        self.offset = -1
        self._address = parse_address(address)
        self._tls = new_endpoint(self._address, tls)
        self._token = token
        self._timeout = timeout_seconds
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._frames_in_flight_max = frames_in_flight_max
        self._backoff = Backoff()
        self._connect_error: str | None = None
        self._connecting = trio.Lock()
        self._link: TrioLink | None = None
        self._is_closed = False

    async def connect(self, *, timeout_seconds: float | None = None) -> None:
        """Connect now rather than with the first question, to find a wrong address or token early.

        Raises:
            ConnectionLostError: the daemon could not be reached in time.
            TlsError: a certificate is refused, or one side is without TLS.
            TokenRefusedError, OverloadedError, UnsupportedVersionError: the daemon refuses the
                connection.
            ProtocolError: the peer is not a decision stream.
        """
        with self._limit_time(timeout_seconds):
            await self._get_link()

    async def decide(
        self, question: AnyQuestion, *, min_offset: int = -1, timeout_seconds: float | None = None
    ) -> bool:
        """Return True if the daemon allows the question, False if it denies it.

        Args:
            min_offset: answer by ACLs that include this log offset; the daemon waits for it, and
                later frames of this client wait behind it.
            timeout_seconds: replaces the client's time limit.

        Raises:
            InvalidQuestionError: the question is invalid.
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                there is no decision.
        """
        decisions = await self.decide_many(
            [question], min_offset=min_offset, timeout_seconds=timeout_seconds
        )
        return decisions.is_allowed(0, question)

    async def decide_many(
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
        with self._limit_time(timeout_seconds) as limit:
            return await self._ask(request, limit)

    async def filter_allowed(
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
        with self._limit_time(timeout_seconds) as limit:
            for questions in plan_frames(repeated, names, self._frame_bytes_max):
                request = encode_request(questions, min_offset, self._frame_bytes_max)
                decisions = await self._ask(request, limit)
                allowed += select_allowed(questions, decisions)
                min_offset = max(min_offset, decisions.offset)
        return allowed

    def close(self) -> None:
        """Close the connection for good. Calls of other tasks raise ``ClosedError``."""
        self._is_closed = True
        if self._link is not None:
            self._link.end(_closed_error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _limit_time(self, timeout_seconds: float | None) -> Iterator[float]:
        """Limit the time of the block; yield its deadline."""
        seconds = self._timeout if timeout_seconds is None else timeout_seconds
        with trio.move_on_after(seconds) as scope:
            yield scope.deadline
        if not scope.cancelled_caught:
            return
        if self._connect_error is not None:
            raise ConnectionLostError(f"not connected: {self._connect_error}")
        if self._link is not None:
            self._link.end_if_overdue()
        raise TimedOutError("the daemon did not answer in time")

    async def _ask(self, request: Request, limit: float) -> Decisions:
        link = await self._get_link()
        try:
            decisions = await link.ask(request, limit)
        except ConnectionLostError:
            link = await self._get_link()
            decisions = await link.ask(request, limit)
        self.offset = max(self.offset, decisions.offset)
        return decisions

    async def _get_link(self) -> TrioLink:
        """Return the connection. Connect first if necessary."""
        if self._link is not None:
            # Callers that cancel before their time limit do not notice a silent daemon: check here.
            self._link.end_if_overdue()
            if not self._link.has_ended:
                return self._link
        async with self._connecting:
            # Another task may have connected while this one waited for the lock.
            while self._link is None or self._link.has_ended:
                self._check_is_open()
                if self._backoff.next_attempt > trio.current_effective_deadline():
                    raise ConnectionLostError(f"not connected: {self._connect_error}")
                await trio.sleep_until(max(self._backoff.next_attempt, trio.current_time()))
                self._link = await self._try_to_connect()
                # `close` cannot end a connection that is still being made, so check again.
                self._check_is_open()
            return self._link

    def _check_is_open(self) -> None:
        if self._is_closed:
            if self._link is not None:
                self._link.end(_closed_error)
            raise _closed_error()

    async def _try_to_connect(self) -> TrioLink | None:
        """Return a connection, or None if the daemon cannot be reached now."""
        # Reported if the time limit of the call ends this attempt.
        self._connect_error = "the daemon did not answer in time"
        try:
            with trio.fail_after(self._connect_timeout):
                link = await self._connect_and_greet()
        except (OSError, trio.TooSlowError, AuthorizerdError) as error:
            self._backoff.fail(trio.current_time())
            self._connect_error = str(error) or self._connect_error
            if isinstance(error, AuthorizerdError) and not isinstance(error, ConnectionLostError):
                raise  # the peer answered, so the caller must know its reason
            return None
        except trio.Cancelled:  # also raised by the time limit of the call
            self._backoff.fail(trio.current_time())
            raise
        self._backoff.succeed()
        self._connect_error = None
        return link

    async def _connect_and_greet(self) -> TrioLink:
        if self._address.path is None:
            stream = await trio.open_tcp_stream(self._address.host, self._address.port)
        else:
            stream = await trio.open_unix_socket(self._address.path)
        link = TrioLink(
            stream,
            None if self._tls is None else self._tls.new_session(),
            self._frame_bytes_max,
            self._frames_in_flight_max,
        )
        try:
            self.offset = max(self.offset, await link.greet(self._token))
        except BaseException:
            link.end(lambda: ConnectionLostError("the daemon did not answer the hello"))
            raise
        return link


def _closed_error() -> ClosedError:
    return ClosedError("the client is closed")
