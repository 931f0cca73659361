"""The HTTP server of one port: connections in, a handler's answers out.

Whatever a peer does costs it its own connection and no more: time, memory and turns on the loop
are bounded for each connection, and so is the number of connections.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec
import trio

from config.configuration import Reloadable
from daemon.http_stream import RECEIVE_BYTES, SocketStream, send_last
from daemon.request_room import RequestRoom, Share
from daemon.turn_clock import PAUSE_SECONDS, Admission, TurnClock
from protocol.http import Event, Interim, ServerConnection
from protocol.http_head import BadRequest, HttpLimits
from protocol.http_messages import (
    CONNECTION_CLOSE,
    Request,
    Response,
    encode_response,
    text_response,
)

Handler = Callable[[Request], Awaitable[Response]]

ANSWERS_IN_A_TURN_MAX: Final = 64
ANSWER_BYTES_IN_A_TURN_MAX: Final = 64 * 1024
REFUSALS_AT_ONCE_MAX: Final = 64
SWEEP_SECONDS: Final = 0.25

_TOO_MANY: Final = encode_response(
    text_response(503, "too many connections"), connection=CONNECTION_CLOSE
)
_TOO_SLOW: Final = encode_response(
    text_response(408, "request timed out"), connection=CONNECTION_CLOSE
)
_OVERLOADED: Final = msgspec.structs.replace(
    text_response(503, "overloaded"), headers=((b"Retry-After", b"1"),)
)
_NO_ROOM: Final = text_response(503, "no room for so large a request or answer just now")
_NO_ROOM_TO_READ: Final = encode_response(_NO_ROOM, connection=CONNECTION_CLOSE)
_FORBIDDEN_HOST: Final = text_response(403, "host not allowed")
_INTERNAL_ERROR: Final = text_response(500, "internal error")

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HttpStatistics:
    """What one server has seen so far; only it writes here.

    ``requests`` were handled, and of them ``requests_failed`` by an error of the handler;
    ``requests_bad`` never reached it, nor did ``requests_refused``, for want of time or room.
    """

    connections_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_timed_out: int = 0
    requests: int = 0
    requests_bad: int = 0
    requests_refused: int = 0
    requests_failed: int = 0


class _Phase(Enum):
    IDLE = auto()
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()


class _Peer:
    """One connection's place in time: what it is doing, until when it may, and how to end it."""

    __slots__ = ("admission", "connection", "cut", "deadline", "phase", "scope", "share")

    def __init__(self, limits: HttpLimits, room: RequestRoom, clock: TurnClock) -> None:
        self.connection = ServerConnection(limits)
        self.share = Share(room)
        self.admission = Admission(clock)
        self.scope = trio.CancelScope()
        self.phase = _Phase.IDLE
        self.deadline = math.inf
        self.cut = False

    def end(self) -> None:
        """End the connection at its next wait."""
        self.cut = True
        self.scope.cancel()


class HttpServer:
    """Answers each request with what ``handler`` returns for it.

    Args:    name: what the log calls this server.
             handler: called with one request of a connection at a time. What it raises is logged
             and answered with 500.
             header_timeout_ms: from a request's first byte to its last.
             idle_timeout_ms: without a request, or without the peer reading its answer.
             room_bytes: what all connections may hold of requests and answers.
             turn_ms_max: how much work may be done before a request that came with it; beyond,
             it is refused. Infinite: none ever is.
             drain_timeout_ms: how long requests under way may take once ``drain`` is called.
             allowed_hosts: what a Host header must match in full; None lets any pass. Without it
             a web page could ask us through its reader's browser (DNS rebinding).

    Timeouts are kept to half a second: one task looks at all connections four times a second,
    which costs a request nothing.
    """

    def __init__(
        self,
        *,
        name: str,
        handler: Handler,
        limits: HttpLimits,
        room_bytes: int,
        turn_ms_max: float,
        max_connections: int,
        header_timeout_ms: int,
        idle_timeout_ms: int,
        drain_timeout_ms: int,
        allowed_hosts: re.Pattern[bytes] | None,
    ) -> None:
        self.statistics = HttpStatistics()
        self._name = name
        self._handler = handler
        self._limits = limits
        self._room = RequestRoom(room_bytes)
        self._clock = TurnClock(turn_ms_max)
        self._max_connections = max_connections
        self._header_timeout = header_timeout_ms / 1000
        self._idle_timeout = idle_timeout_ms / 1000
        self._drain_timeout = drain_timeout_ms / 1000
        self._allowed_hosts = allowed_hosts
        self._next_sweep = math.inf
        self._peers: set[_Peer] = set()
        self._refusals = 0
        self._accepting = trio.CancelScope()
        self._draining = False
        self._drained = trio.Event()

    def reconfigure(self, settings: Reloadable) -> None:
        """Take over other limits, for what begins from now on."""
        self._max_connections = settings.max_connections
        self._header_timeout = settings.http_header_timeout_ms / 1000
        self._idle_timeout = settings.connections_max_idle_ms / 1000
        self._drain_timeout = settings.http_drain_timeout_ms / 1000

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until drained or cancelled; the listeners are closed then.

        Cancelled, it cuts its connections at once.
        """
        async with trio.open_nursery() as nursery:
            self._next_sweep = trio.current_time() + SWEEP_SECONDS
            nursery.start_soon(self._sweep)
            task_status.started()
            with self._clock.running():
                with self._accepting:
                    await trio.serve_listeners(
                        self._serve_stream, list(listeners), handler_nursery=nursery
                    )
                await self._drained.wait()
            nursery.cancel_scope.cancel()

    async def drain(self) -> None:
        """Accept no more, close idle connections, and return when the last request is answered.

        Requests that take longer than the drain timeout are cut.
        """
        self._draining = True
        self._accepting.cancel()
        # Two turns of the loop, so that what had arrived before is no longer taken for idle.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        for peer in self._peers:
            if peer.phase is _Phase.IDLE:
                peer.end()
        self._notice_drained()
        with trio.move_on_after(self._drain_timeout):
            await self._drained.wait()
        for peer in self._peers:
            peer.end()
        await self._drained.wait()

    def _notice_drained(self) -> None:
        if self._draining and not self._peers:
            self._drained.set()

    async def _sweep(self) -> None:
        """End the connections whose time is up."""
        while True:
            await trio.sleep_until(self._next_sweep)
            now = trio.current_time()
            self._next_sweep = now + SWEEP_SECONDS
            for peer in self._peers:
                if peer.deadline <= now and not peer.cut:
                    self.statistics.connections_timed_out += 1
                    peer.end()

    async def _serve_stream(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.statistics.connections_accepted += 1
        if isinstance(stream, trio.SocketStream):
            stream = SocketStream(stream)
        try:
            if len(self._peers) >= self._max_connections:
                await self._refuse(stream)
            else:
                await self._serve_peer(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer went away, which is its right

    async def _refuse(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.statistics.connections_refused += 1
        if self._refusals >= REFUSALS_AT_ONCE_MAX:
            await stream.send_all(_TOO_MANY)  # which a new connection has room for
            return
        self._refusals += 1
        try:
            await send_last(stream, _TOO_MANY)
        finally:
            self._refusals -= 1

    async def _serve_peer(self, stream: trio.abc.HalfCloseableStream) -> None:
        peer = _Peer(self._limits, self._room, self._clock)
        self._peers.add(peer)
        self.statistics.connections_open += 1
        try:
            with peer.scope:
                await self._converse(stream, peer)
            if peer.cut and peer.phase is _Phase.RECEIVING and not self._draining:
                await send_last(stream, _TOO_SLOW)
        finally:
            peer.share.cover(0)
            self._peers.remove(peer)
            self.statistics.connections_open -= 1
            self._notice_drained()

    async def _converse(self, stream: trio.abc.HalfCloseableStream, peer: _Peer) -> None:
        """Read and answer by turns: a peer that does not read its answers is not read from."""
        connection = peer.connection
        while not connection.closed:
            if not connection.receiving:
                if self._draining:
                    return
                peer.phase = _Phase.IDLE
                peer.deadline = self._next_sweep + self._idle_timeout
            elif peer.phase is not _Phase.RECEIVING:
                peer.phase = _Phase.RECEIVING
                peer.deadline = self._next_sweep + self._header_timeout
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            connection.receive_data(data)
            if not peer.share.cover(connection.bytes_held):
                await self._refuse_to_hold(stream, peer)
                return
            await self._answer_all(stream, peer)
            while peer.admission.is_put_off:
                await self._put_off(peer)
                await self._answer_all(stream, peer)
        await send_last(stream, b"")

    async def _refuse_to_hold(self, stream: trio.abc.HalfCloseableStream, peer: _Peer) -> None:
        """Drop what has come of a request, and say that there is no room for it."""
        self.statistics.requests_refused += 1
        peer.connection.close()
        peer.share.cover(0)
        peer.phase = _Phase.SENDING
        await send_last(stream, _NO_ROOM_TO_READ)

    async def _put_off(self, peer: _Peer) -> None:
        """Let a moment go by before more is looked at of what a peer asks that was refused."""
        peer.admission.is_put_off = False
        peer.phase = _Phase.IDLE
        peer.deadline = math.inf
        await trio.sleep(PAUSE_SECONDS)

    async def _answer_all(self, stream: trio.abc.HalfCloseableStream, peer: _Peer) -> None:
        """Answer what has been received, in as few sends as keep turns and memory short."""
        answers: list[bytes] = []
        size = 0
        admission = peer.admission
        while not admission.is_put_off and (event := peer.connection.next_event()) is not None:
            peer.phase = _Phase.ANSWERING
            peer.deadline = math.inf
            answer = await self._answer(peer, event)
            answers.append(answer)
            size += len(answer)
            if len(answers) >= ANSWERS_IN_A_TURN_MAX or size >= ANSWER_BYTES_IN_A_TURN_MAX:
                await self._send(stream, peer, answers)
                await trio.lowlevel.checkpoint()
                answers, size = [], 0
        if answers:
            await self._send(stream, peer, answers)

    async def _send(
        self, stream: trio.abc.HalfCloseableStream, peer: _Peer, answers: list[bytes]
    ) -> None:
        peer.phase = _Phase.SENDING
        peer.deadline = self._next_sweep + self._idle_timeout
        await stream.send_all(b"".join(answers))
        peer.share.cover(peer.connection.bytes_held)

    async def _answer(self, peer: _Peer, event: Event) -> bytes:
        connection = peer.connection
        if isinstance(event, Interim):
            return event.data
        if isinstance(event, BadRequest):
            self.statistics.requests_bad += 1
            return connection.send(text_response(event.status, event.reason))
        self.statistics.requests += 1
        hosts = self._allowed_hosts
        if hosts is not None and not hosts.fullmatch(event.headers.get(b"host", b"")):
            return connection.send(_FORBIDDEN_HOST, close=True)
        has_sent_more = connection.bytes_held > 0
        if not self._draining and not peer.admission.admits(has_sent_more=has_sent_more):
            self.statistics.requests_refused += 1
            return connection.send(_OVERLOADED)
        try:
            response = await self._handler(event)
            if not peer.share.cover_answer(len(response.body)):
                self.statistics.requests_refused += 1
                response = _NO_ROOM
            return connection.send(response, close=self._draining)
        except Exception:  # the fault of one answer is not the daemon's end
            self.statistics.requests_failed += 1
            _logger.exception("%s: no answer to %s %.200s", self._name, event.method, event.path)
            return connection.send(_INTERNAL_ERROR, close=True)
