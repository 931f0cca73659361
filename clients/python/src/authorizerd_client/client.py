"""The client, written once for all runtimes: each of its calls is a coroutine.

It starts no task: a call that waits for its answer also reads the answers for the other calls.
"""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from authorizerd_client.daemons import FAILOVER_SECONDS, Daemon, Daemons, Outcome
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TimedOutError
from authorizerd_client.links import Links
from authorizerd_client.protocol import FRAME_BYTES_MAX, Request, encode_request, plan_frames
from authorizerd_client.runtime import Expired, Runtime
from authorizerd_client.values import (
    AnyQuestion,
    Decisions,
    Question,
    check_offset,
    select_allowed,
)

FRAMES_IN_FLIGHT_MAX: Final = 256

T = TypeVar("T")


class AsyncClient(ABC):
    """A client with one connection at a time, which any number of calls share.

    The first question connects, and so does the first question after a failure. If the connection
    breaks during a question, the client asks again, within the time limit: questions change
    nothing, so this is safe. While no daemon can be reached, attempts to connect wait for
    increasing, random delays of up to 5 seconds. A question fails at once if its time limit ends
    before the next attempt.

    With several addresses, the client asks the first daemon in the list that works. If a daemon
    cannot be reached, is not ready, or is silent for ``failover_timeout_seconds``, the client asks
    the next one, and avoids the failed one for up to 5 seconds, longer with each failure. Every 10
    to 20 seconds, it tries to return to an earlier address; one question then waits up to 0.25
    seconds.

    Cancelling a call does not make other calls fail. If it is cancelled while its frame is being
    sent, the client closes the connection, because the daemon would misread the next frame. The
    other calls then repeat their questions on a new connection.

    Args:
        address: ``tls://HOST:PORT``, ``tcp://HOST:PORT``, ``HOST:PORT`` or ``unix:PATH``; or a
            list of these, for daemons with the same ACLs, in order of preference.
        token: ``ID.SECRET``, if the daemon requires tokens and the client has no certificate.
        tls: how to check the daemon's certificate, and which certificate to present, for
            ``tls://``. None trusts the system's CAs and checks the host's name.
        timeout_seconds: time limit of a call, including waits for other calls and connecting. If
            the oldest frame of the connection has no answer by then, the connection is closed, and
            the other calls repeat their questions on a new one.
        connect_timeout_seconds: time limit of one attempt to connect, with TLS and hello.
        failover_timeout_seconds: with several addresses, how long one daemon may take, to connect
            or to answer, while another one could be asked. If the time that a call has left,
            divided among these daemons, is shorter, then that applies.
        frame_bytes_max: the largest frame to send, in bytes: the daemon's
            ``authorizerd.stream.frame.max.bytes``. It also limits the frames that are received.
        frames_in_flight_max: how many frames may wait for answers. Further calls wait. A cancelled
            call's frame counts until its answer has arrived.

    Raises:
        ValueError: an address is invalid, there is none, or ``tls`` is given for an address
            without TLS.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = 5.0,
        connect_timeout_seconds: float = 5.0,
        failover_timeout_seconds: float = FAILOVER_SECONDS,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        frames_in_flight_max: int = FRAMES_IN_FLIGHT_MAX,
    ) -> None:
        self._runtime = self._new_runtime()
        self._daemons = Daemons(address, tls, failover_timeout_seconds)
        self._links = Links(
            self._runtime,
            self._daemons,
            token=token,
            connect_timeout_seconds=connect_timeout_seconds,
            frame_bytes_max=frame_bytes_max,
            frames_in_flight_max=frames_in_flight_max,
        )
        self._timeout = timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._required_offset = -1

    @property
    def offset(self) -> int:
        """Return the newest log offset that a daemon has named, -1 before the first."""
        return self._links.offset

    async def connect(self, *, timeout_seconds: float | None = None) -> None:
        """Connect now rather than with the first question, to find a wrong address or token early.

        Raises:
            ConnectionLostError: no daemon could be reached in time.
            TlsError: a certificate is refused, or one side is without TLS.
            TokenRefusedError, OverloadedError, UnsupportedVersionError: the daemon refuses the
                connection.
            ProtocolError: the peer is not a decision stream.
        """
        await self._run(timeout_seconds, self._links.get)

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
        request = self._encode(questions, min_offset)
        return await self._run(timeout_seconds, lambda limit: self._ask(request, limit, {}))

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
        judged by one state of the ACLs, and no later frame by an older state of the same daemon.

        Raises:
            InvalidQuestionError, NotReadyError: a question is invalid or has no decision yet.
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                as ``decide``. Nothing is returned if one frame fails.
        """
        repeated = Question(principal, host, operation, resource_type, "")

        async def ask(limit: float) -> list[str]:
            allowed: list[str] = []
            offsets: dict[Daemon, int] = {}
            for questions in plan_frames(repeated, names, self._frame_bytes_max):
                request = self._encode(questions, min_offset)
                decisions = await self._ask(request, limit, offsets)
                allowed += select_allowed(questions, decisions)
            return allowed

        return await self._run(timeout_seconds, ask)

    async def read_offset(self, *, timeout_seconds: float | None = None) -> int:
        """Return the log offset of the ACLs by which the daemon decides now.

        A daemon acknowledges a change of ACLs only after it decides by it. Ask the daemon that
        acknowledged your change: the offset that it returns includes the change.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
            ConnectionLostError, TlsError, TimedOutError, ProtocolError, ClosedError, AnswerError:
                as ``decide``.
        """
        request = encode_request([], -1, self._frame_bytes_max)
        return check_offset(
            await self._run(timeout_seconds, lambda limit: self._ask(request, limit, {}))
        )

    def require_offset(self, offset: int) -> None:
        """From now on, accept only answers by ACLs that include this log offset.

        It is as if every question had a ``min_offset`` of at least ``offset``. Use it to read your
        own writes, with the result of ``read_offset``. The daemons of the client must follow the
        same quorum: offsets of daemons with another source are their own.
        """
        self._required_offset = max(self._required_offset, offset)

    def close(self) -> None:
        """Close the connection for good. Calls that are waiting raise ``ClosedError``."""
        self._links.refuse_calls()
        self._runtime.end_calls(self._links.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @staticmethod
    @abstractmethod
    def _new_runtime() -> Runtime: ...

    async def _run(
        self, timeout_seconds: float | None, call: Callable[[float], Coroutine[Any, Any, T]]
    ) -> T:
        """Return the result of ``call``, which gets its deadline, and is ended then."""
        seconds = self._timeout if timeout_seconds is None else timeout_seconds
        deadline = self._runtime.now() + seconds
        with self._runtime.take_turn(deadline):
            try:
                async with self._runtime.limit(deadline):
                    return await call(deadline)
            except Expired:
                if self._links.are_broken:
                    raise ConnectionLostError(self._daemons.explain()) from None
                self._links.drop_if_overdue()
                raise TimedOutError("the daemon did not answer in time") from None

    def _encode(self, questions: Sequence[AnyQuestion], min_offset: int) -> Request:
        min_offset = max(min_offset, self._required_offset)
        return encode_request(questions, min_offset, self._frame_bytes_max)

    async def _ask(self, request: Request, limit: float, offsets: dict[Daemon, int]) -> Decisions:
        """Ask until a daemon decides, or until no attempt is left.

        Args:
            offsets: the offset of each daemon's last decision for the same call; the new one is
                added.
        """
        for attempts_left in reversed(range(self._daemons.attempts_max)):
            link = await self._links.get(limit)
            daemon, now = link.daemon, self._runtime.now()
            asked = request.with_min_offset(offsets.get(daemon, -1))
            is_last = not attempts_left
            seconds = self._daemons.limit_attempt(daemon, now, limit - now, is_last=is_last)
            outcome: Outcome
            try:
                outcome = await link.ask(asked, limit, seconds)
            except AuthorizerdError as error:
                outcome = error
            if not self._daemons.should_repeat(daemon, outcome, self._runtime.now()):
                break
            self._links.set_aside(link, outcome)
        if isinstance(outcome, AuthorizerdError):
            self._links.check_is_open()
            raise outcome
        daemon.backoff.succeed()
        offsets[daemon] = decided = outcome.offset
        self._links.offset = max(self._links.offset, decided)
        return outcome
