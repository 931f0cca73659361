"""The HTTP server of one port: requests in, a handler's answers out.

The time, the memory and the turns of the event loop that a connection may use are bounded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.daemon.http import refusals
from authorizerd.daemon.http.body_writer import BodyWriter, LiveBodies
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import HttpStatistics
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import SocketStream, send_last
from authorizerd.protocol.http.connection import Event, Interim, Pause, ServerConnection
from authorizerd.protocol.http.messages import Request, Response, text_response
from authorizerd.protocol.http.request_head import BadRequest, HttpLimits, holds_request
from authorizerd.protocol.http.streamed import AnyResponse, Handler, StreamedResponse, complete
from authorizerd.tls.server import TlsServer

REQUEST_NS: Final = 31_250
"""About how long a request takes, so that a slice has at most 16 of them."""
ANSWER_BYTES_IN_A_TURN_MAX: Final = 64 * 1024

_IDLE, _RECEIVING, _ANSWERING, _SENDING, _ = Phase
_FIRST_ERROR_STATUS: Final = 400
"""A response with this status or above, such as 401, does not establish the connection."""

_logger = logging.getLogger(__name__)


class HttpServer(ConnectionServer):
    """Answer each request with the response that ``handler`` returns.

    If a request arrives complete and alone, and ``handler`` answers without waiting, no task runs.

    Args:
        handler: called with one request of a connection at a time. An exception of the handler, or
            of the awaitable that it returns, is logged and answered with 500.
        http_limits: the limits of a request's size.
        allowed_hosts: the accepted values of a Host header; None accepts any. Without this check
            a web page could send requests through its visitor's browser (DNS rebinding).
        is_anonymous: returns True for a request that needs no credentials on a port where other
            requests do. Its answer does not establish the connection.
        authenticates: returns True if the port answers other requests only for authenticated peers.
        refuse_expired: returns the answer to a request whose client certificate has expired.
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
        is_anonymous: Callable[[Request], bool] = lambda _: False,
        authenticates: Callable[[], bool] = lambda: False,
        refuse_expired: Callable[[Request], Response] = lambda _: refusals.EXPIRED,
    ) -> None:
        super().__init__(
            name=name,
            limits=limits,
            memory_bytes_max=memory_bytes_max,
            turn_ms_max=turn_ms_max,
            too_many=refusals.TOO_MANY,
            tls_expected=refusals.TLS_EXPECTED,
            tls=tls,
            selector=None if tls is not None else Selector(),
        )
        self.statistics: HttpStatistics = HttpStatistics()
        self.handler: Final = handler
        self.http_limits: Final = http_limits
        self.allowed_hosts: Final = allowed_hosts
        self.is_anonymous: Final = is_anonymous
        self.authenticates: Final = authenticates
        self.refuse_expired: Final = refuse_expired
        self.live_bodies: Final = LiveBodies()

    def holds_request(self, opening: bytes) -> bool:
        return holds_request(opening)

    async def converse(self, connection: Connection) -> None:
        protocol = ServerConnection(self.http_limits, connection.principal, connection.address)
        try:
            await _Conversation(self, connection, protocol).run()
        finally:
            if connection.phase is _RECEIVING:
                connection.too_slow = refusals.encode_last(refusals.TOO_SLOW, protocol.echo)

    def on_drain(self) -> None:
        self.live_bodies.end()


class _Conversation:
    """One connection, from its first byte to its last."""

    __slots__ = (
        "_begun",
        "_connection",
        "_descriptor",
        "_event",
        "_has_ended",
        "_host",
        "_protocol",
        "_server",
        "_stream",
    )

    def __init__(
        self, server: HttpServer, connection: Connection, protocol: ServerConnection
    ) -> None:
        self._server = server
        self._connection = connection
        self._stream = stream = connection.stream
        self._descriptor = stream.descriptor if isinstance(stream, SocketStream) else None
        self._protocol = protocol
        # What `receive` left to the task: an event, and its handler's result.
        self._event: Event | None = None
        self._begun: bytes | StreamedResponse | Awaitable[AnyResponse] | None = None
        self._has_ended = False
        self._host: bytes | None = None  # the last allowed one

    async def run(self) -> None:
        """Read and answer in turn: if the peer does not read answers, the server stops reading."""
        connection, protocol = self._connection, self._protocol
        while not protocol.closed:
            await self._wait()
            if self._has_ended:
                return
            if protocol.bytes_held > connection.reservation.size:
                await self._refuse_to_hold()
                return
            if connection.admission.has_backlog and self._begun is None:
                await connection.enter_turn()
            await self._answer_all()
            while connection.admission.is_deferred:
                await connection.pause()
                await connection.wait_for_turn()
                await self._answer_all()
        await send_last(self._stream, b"")

    async def _wait(self) -> None:
        """Wait for input that is not answered at once, or for the end of input."""
        connection, server, selector = self._connection, self._server, self._server.selector
        if self._protocol.receiving:
            if connection.phase is not _RECEIVING:
                connection.enter(_RECEIVING)
            self._hold(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
            return
        while not server.is_draining:
            connection.enter(_IDLE)
            if selector is not None and self._descriptor is not None:
                unsent: bytes | None = await selector.wait(self._descriptor, self)
            else:
                unsent = self.receive(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
                if unsent:
                    self.hold_unsent(len(unsent))
            if not unsent:
                return
            await self._stream.send_all(unsent)
            connection.keep(0)
            connection.finish_answer()
        self._has_ended = True

    def hold_unsent(self, size: int) -> None:
        """See ``Channel``. ``receive`` has just checked that there is enough memory."""
        self._connection.enter(_SENDING)
        self._connection.reserve_answer(size)

    def receive(self, data: bytes) -> bytes | None:
        """See ``Channel``. Begin a request that arrives whole and alone; leave the rest to the
        task.

        It is never refused for overload: refusing would take as long as answering. A draining
        server also leaves it to the task, which ends the connection.
        """
        connection, protocol = self._connection, self._protocol
        if self._hold(data) and not self._server.is_draining:
            event = protocol.next_event()
            if isinstance(event, Request) and not protocol.receiving:
                answer = self._begin(event)
                if isinstance(answer, bytes) and not protocol.closed:
                    connection.reservation.reserve(0)
                    connection.since = self._server.next_sweep
                    return answer
                self._begun = answer
            self._event = event
        connection.enter(_RECEIVING)
        return None

    def _hold(self, data: bytes) -> bool:
        """Hold the received data. Return False if there is none, or no memory for it."""
        if not data:
            self._has_ended = True
            return False
        connection, held = self._connection, self._protocol.receive_data(data)
        return connection.reservation.reserve(held) or connection.reserve(held)

    async def _refuse_to_hold(self) -> None:
        """Drop the received part of a request, and answer that there is no memory for it."""
        self._server.statistics.requests_refused += 1
        refusal = refusals.encode_last(refusals.NO_MEMORY, self._protocol.echo)
        self._protocol.close()
        self._connection.keep(0)
        self._connection.enter(_SENDING)
        await send_last(self._stream, refusal)

    async def _answer_all(self) -> None:
        """Answer the received requests in few sends, but keep turns short and memory small."""
        answers: list[bytes] = []
        answered = size = 0
        connection, protocol = self._connection, self._protocol
        admission = connection.admission
        left = admission.share(REQUEST_NS)
        while not admission.is_deferred and (event := self._next_event()) is not None:
            if isinstance(event, Pause):
                if connection.phase is not _RECEIVING:
                    connection.enter(_RECEIVING)
                await admission.wait()
                continue
            connection.phase = _ANSWERING
            answer = await self._answer(event, answers)
            answers.append(answer)
            answered += 1
            size += len(answer)
            left -= 1
            if (left > 0 and size < ANSWER_BYTES_IN_A_TURN_MAX) or not protocol.bytes_held:
                continue
            if not admission.begin_slice():
                await self._send(answers)
                await connection.wait_for_turn()
                answers, size = [], 0
            left = admission.share(REQUEST_NS) - len(answers)
        if answers:
            await self._send(answers)
        admission.leave(has_backlog=answered > 1 or protocol.bytes_held > 0)

    def _next_event(self) -> Event | None:
        event, self._event = self._event, None
        return self._protocol.next_event() if event is None else event

    async def _send(self, answers: list[bytes]) -> None:
        connection = self._connection
        connection.phase = _SENDING
        connection.since = self._server.next_sweep
        await self._stream.send_all(b"".join(answers))
        connection.reservation.reserve(self._protocol.bytes_held)
        if connection.ending is not None:
            connection.finish_answer()

    def _begin(self, request: Request) -> bytes | StreamedResponse | Awaitable[AnyResponse]:
        """Return the answer to a request, or what its handler returns if the answer is
        incomplete."""
        server, connection, protocol = self._server, self._connection, self._protocol
        server.statistics.requests += 1
        if connection.has_expired:  # the request still names the certificate's principal
            connection.note_expiry()
            return protocol.send(server.refuse_expired(request), close=True)
        hosts, host = server.allowed_hosts, request.headers.get(b"host", b"")
        if hosts is not None and host != self._host:
            if not hosts.fullmatch(host):
                return protocol.send(refusals.refuse_host(server.name, host), close=True)
            self._host = host
        # A draining server refuses nothing, because these are the last requests.
        if not server.is_draining and not connection.admission.admits():
            server.statistics.requests_refused += 1
            return protocol.send(refusals.OVERLOADED)
        try:
            response = server.handler(request)
            return self._finish(request, response) if isinstance(response, Response) else response
        except Exception:  # noqa: BLE001 - a fault in one answer must not end the daemon
            return self._fail(request)

    def _finish(self, request: Request, response: Response) -> bytes:
        connection, size = self._connection, len(response.body)
        reservation = connection.reservation
        if not connection.is_established:
            self._establish(request, response)
        if not (reservation.reserve_answer(size) or connection.reserve_answer(size)):
            self._server.statistics.requests_refused += 1
            response = refusals.NO_MEMORY
        return self._protocol.send(response, close=self._server.is_draining)

    def _establish(self, request: Request, response: AnyResponse) -> None:
        server = self._server
        if response.status < _FIRST_ERROR_STATUS and not server.is_anonymous(request):
            server.establish(self._connection, is_known=server.authenticates())

    def _fail(self, request: Request) -> bytes:
        server = self._server
        server.statistics.requests_failed += 1
        _logger.exception("%s: no answer to %s %.200s", server.name, request.method, request.path)
        return self._protocol.send(refusals.INTERNAL_ERROR, close=True)

    async def _answer(self, event: Request | BadRequest | Interim, before: list[bytes]) -> bytes:
        """Return the answer to one event, or what completes its streamed answer.

        Args:
            before: the answers that are not sent yet. A streamed answer sends them first.
        """
        if isinstance(event, Interim):
            return event.data
        if isinstance(event, BadRequest):
            self._server.statistics.requests_bad += 1
            return self._protocol.send(text_response(event.status, event.reason))
        begun, self._begun = self._begun, None
        if begun is None:
            begun = self._begin(event)
        if isinstance(begun, bytes):
            return begun
        try:
            response = await complete(begun)
            if isinstance(response, Response):
                return self._finish(event, response)
            self._establish(event, response)
            before.append(self._start(response))
        except Exception:  # noqa: BLE001 - a fault in one answer must not end the daemon
            return self._fail(event)
        return await self._send_body(response, before)

    def _start(self, response: StreamedResponse) -> bytes:
        try:
            return self._protocol.start(response, close=self._server.is_draining)
        except BaseException:
            response.close()
            raise

    async def _send_body(self, response: StreamedResponse, before: list[bytes]) -> bytes:
        """Send ``before``, and a body in parts. Return the bytes that complete the body."""
        connection, protocol = self._connection, self._protocol
        try:
            # The time that a body takes must not count as work of this turn.
            connection.admission.leave(has_backlog=False)
            await self._send(before)
            before.clear()
            if protocol.has_body:
                await self._server.live_bodies.run(BodyWriter(connection, protocol, response))
        finally:
            response.close()
        return protocol.end()
