"""The HTTP server of one port: requests in, a handler's answers out.

The time, the memory and the turns of the event loop that a connection may use are bounded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import trio

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.socket_stream import send_last
from authorizerd.protocol.http.connection import Interim, Pause, ServerConnection
from authorizerd.protocol.http.messages import (
    CONNECTION_CLOSE,
    Request,
    Response,
    encode_response,
    text_response,
)
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits
from authorizerd.tls.server import TlsServer

Handler = Callable[[Request], Awaitable[Response]]

ANSWERS_IN_A_TURN_MAX: Final = 16
ANSWER_BYTES_IN_A_TURN_MAX: Final = 64 * 1024

_TOO_MANY: Final = encode_response(
    text_response(503, "too many connections"), connection=CONNECTION_CLOSE
)
_TLS_EXPECTED: Final = encode_response(
    text_response(400, "this port expects TLS: use https://"), connection=CONNECTION_CLOSE
)
_TOO_SLOW: Final = encode_response(
    text_response(408, "request timed out"), connection=CONNECTION_CLOSE
)
_OVERLOADED: Final = msgspec.structs.replace(
    text_response(503, "overloaded"), headers=((b"Retry-After", b"1"),)
)
_NO_MEMORY: Final = text_response(
    503, "memory limit reached: retry later, or send smaller requests"
)
_NO_MEMORY_TO_READ: Final = encode_response(_NO_MEMORY, connection=CONNECTION_CLOSE)
_FORBIDDEN_HOST: Final = text_response(403, "host not allowed")
_INTERNAL_ERROR: Final = text_response(500, "internal error")
_IDLE, _RECEIVING, _ANSWERING, _SENDING = Phase
_FIRST_ERROR_STATUS: Final = 400
"""A response with this status or above, such as 401, does not establish the connection."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HttpStatistics(ConnectionStatistics):
    """The counters of one HTTP server.

    ``requests`` counts complete, valid requests, and ``requests_failed`` those of them that ended
    in an internal error. ``requests_bad`` counts invalid or too large requests; ``requests`` does
    not include these.
    """

    requests_bad: int = 0
    requests_failed: int = 0


class HttpServer(ConnectionServer):
    """Answer each request with the response that ``handler`` returns.

    Args:
        handler: called with one request of a connection at a time. Its exceptions are logged and
            answered with 500.
        http_limits: the limits of a request's size.
        allowed_hosts: the accepted values of a Host header; None accepts any. Without this check
            a web page could send requests through its visitor's browser (DNS rebinding).
    """

    def __init__(
        self,
        *,
        name: str,
        handler: Handler,
        limits: ConnectionLimits,
        http_limits: HttpLimits,
        memory_bytes_max: int,
        turn_ms_max: float,
        allowed_hosts: re.Pattern[bytes] | None,
        tls: TlsServer | None = None,
    ) -> None:
        super().__init__(
            name=name,
            limits=limits,
            memory_bytes_max=memory_bytes_max,
            turn_ms_max=turn_ms_max,
            too_many=_TOO_MANY,
            too_slow=_TOO_SLOW,
            tls_expected=_TLS_EXPECTED,
            tls=tls,
        )
        self.statistics: HttpStatistics = HttpStatistics()
        self.handler: Final = handler
        self.http_limits: Final = http_limits
        self.allowed_hosts: Final = allowed_hosts

    async def converse(self, connection: Connection) -> None:
        await _Conversation(self, connection).run()


class _Conversation:
    """One connection, from its first byte to its last."""

    __slots__ = ("_connection", "_protocol", "_server", "_stream")

    def __init__(self, server: HttpServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._stream = connection.stream
        self._protocol = ServerConnection(server.http_limits, connection.principal)

    async def run(self) -> None:
        """Read and answer in turn: if the peer does not read answers, the server stops reading."""
        connection, protocol, server = self._connection, self._protocol, self._server
        reserve = connection.reservation.reserve  # looked up once: it runs for every request
        while not protocol.closed:
            # ``Connection.receive``, inlined: calls would take half of a small request's time.
            if not protocol.receiving:
                if server.is_draining:
                    return
                connection.phase = _IDLE
                connection.since = server.next_sweep
            elif connection.phase is not _RECEIVING:
                connection.enter(_RECEIVING)
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                return
            protocol.receive_data(data)
            held = protocol.bytes_held
            if not reserve(held) and not connection.reserve(held):
                await self._refuse_to_hold()
                return
            await self._answer_all()
            while connection.admission.is_deferred:
                await connection.pause()
                await self._answer_all()
        await send_last(self._stream, b"")

    async def _refuse_to_hold(self) -> None:
        """Drop the received part of a request, and answer that there is no memory for it."""
        self._server.statistics.requests_refused += 1
        self._protocol.close()
        self._connection.keep(0)
        self._connection.enter(_SENDING)
        await send_last(self._stream, _NO_MEMORY_TO_READ)

    async def _answer_all(self) -> None:
        """Answer the received requests with few sends, but keep turns short and memory small."""
        answers: list[bytes] = []
        size = 0
        connection, protocol = self._connection, self._protocol
        admission = connection.admission
        while not admission.is_deferred and (event := protocol.next_event()) is not None:
            if isinstance(event, Pause):
                if connection.phase is not _RECEIVING:
                    connection.enter(_RECEIVING)
                await trio.lowlevel.checkpoint()
                continue
            connection.phase = _ANSWERING
            answer = await self._answer(event)
            answers.append(answer)
            size += len(answer)
            if len(answers) >= ANSWERS_IN_A_TURN_MAX or size >= ANSWER_BYTES_IN_A_TURN_MAX:
                await self._send(answers)
                await trio.lowlevel.checkpoint()
                answers, size = [], 0
        if answers:
            await self._send(answers)

    async def _send(self, answers: list[bytes]) -> None:
        connection = self._connection
        connection.phase = _SENDING
        connection.since = self._server.next_sweep
        await self._stream.send_all(b"".join(answers))
        connection.reservation.reserve(self._protocol.bytes_held)
        if connection.ending is not None:
            connection.finish_answer()

    async def _answer(self, event: Request | BadRequest | Interim) -> bytes:
        server, connection, protocol = self._server, self._connection, self._protocol
        if isinstance(event, Interim):
            return event.data
        if isinstance(event, BadRequest):
            server.statistics.requests_bad += 1
            return protocol.send(text_response(event.status, event.reason))
        server.statistics.requests += 1
        hosts = server.allowed_hosts
        if hosts is not None and not hosts.fullmatch(event.headers.get(b"host", b"")):
            return protocol.send(_FORBIDDEN_HOST, close=True)
        has_sent_more = protocol.bytes_held > 0
        # A draining server refuses nothing, because these are the last requests.
        if not server.is_draining and not connection.admission.admits(has_sent_more=has_sent_more):
            server.statistics.requests_refused += 1
            return protocol.send(_OVERLOADED)
        try:
            response = await server.handler(event)
            if not connection.is_established and response.status < _FIRST_ERROR_STATUS:
                server.establish(connection)
            size = len(response.body)
            if not connection.reservation.reserve_answer(size) and not connection.reserve_answer(
                size
            ):
                server.statistics.requests_refused += 1
                response = _NO_MEMORY
            return protocol.send(response, close=server.is_draining)
        except Exception:  # a fault in one answer must not end the daemon
            server.statistics.requests_failed += 1
            _logger.exception("%s: no answer to %s %.200s", server.name, event.method, event.path)
            return protocol.send(_INTERNAL_ERROR, close=True)
