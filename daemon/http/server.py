"""The HTTP server of one port: requests in, a handler's answers out.

The time, the memory and the turns of the event loop that a connection may use are bounded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from authorizerd.acl.printable import escape_unprintable
from authorizerd.config.bounds import FREE_BYTES, RECEIVE_BYTES
from authorizerd.daemon.http.body_writer import BodyWriter
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import SocketStream, send_last
from authorizerd.protocol.http.connection import Interim, Pause, ServerConnection
from authorizerd.protocol.http.messages import (
    CONNECTION_CLOSE,
    AnswerAtOnce,
    Request,
    Response,
    Route,
    encode_response,
    encode_start,
    text_response,
)
from authorizerd.protocol.http.request_head import (
    CHUNKED,
    HEAD_END,
    REMEMBERED_HEAD_BYTES_MAX,
    REMEMBERED_HEADS_MAX,
    BadRequest,
    HttpLimits,
    RefusedError,
    check_head,
    holds_request,
    remembered_head,
)
from authorizerd.protocol.http.streamed import StreamedResponse
from authorizerd.tls.server import TlsServer

Handler = Callable[[Request], Awaitable[Response | StreamedResponse]]
Router = Callable[[Request], Route | None]
"""A function from a request without its body to what answers it at once, if anything does."""

REQUEST_NS: Final = 31_250
"""About how long a request takes, so that a slice has at most 16 of them."""
ANSWER_BYTES_IN_A_TURN_MAX: Final = 64 * 1024

_TOO_MANY: Final = encode_response(
    text_response(503, "too many connections"), connection=CONNECTION_CLOSE
)
_TLS_EXPECTED: Final = encode_response(
    text_response(400, "this port expects TLS: use https://"), connection=CONNECTION_CLOSE
)
_TOO_SLOW: Final = text_response(408, "request timed out")
_OVERLOADED: Final = msgspec.structs.replace(
    text_response(503, "overloaded"), headers=((b"Retry-After", b"1"),)
)
_NO_MEMORY: Final = text_response(
    503, "memory limit reached: retry later, or send smaller requests"
)
_EXPIRED: Final = text_response(401, "the client's certificate is not valid any more")
_HOST_BYTES_SHOWN_MAX: Final = 255
_INTERNAL_ERROR: Final = text_response(500, "internal error")
_IDLE, _RECEIVING, _ANSWERING, _SENDING, _ = Phase
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


class _KnownHead(msgspec.Struct, frozen=True, gc=False):
    """A head whose requests are answered at once, with a body of ``length`` bytes.

    ``before`` and ``after`` surround the length of an answer with status 200.
    """

    length: int
    answer: AnswerAtOnce
    before: bytes
    after: bytes
    connection: bytes


class HttpServer(ConnectionServer):
    """Answer each request with the response that ``handler`` returns.

    A complete request that arrives alone, and that ``router`` knows, is answered at once instead.

    Args:
        handler: called with one request of a connection at a time. Its exceptions are logged and
            answered with 500.
        http_limits: the limits of a request's size.
        allowed_hosts: the accepted values of a Host header; None accepts any. Without this check
            a web page could send requests through its visitor's browser (DNS rebinding).
        is_anonymous: returns True for a request that needs no credentials, although the others of
            this port do. Its answer does not establish the connection.
        authenticates: returns True if the port answers other requests only to those who prove who
            they are.
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
        router: Router | None = None,
        is_anonymous: Callable[[Request], bool] = lambda _: False,
        authenticates: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(
            name=name,
            limits=limits,
            memory_bytes_max=memory_bytes_max,
            turn_ms_max=turn_ms_max,
            too_many=_TOO_MANY,
            tls_expected=_TLS_EXPECTED,
            tls=tls,
            selector=None if router is None or tls is not None else Selector(),
        )
        self.statistics: HttpStatistics = HttpStatistics()
        self.handler: Final = handler
        self.http_limits: Final = http_limits
        self.allowed_hosts: Final = allowed_hosts
        self.router: Final = router
        self.is_anonymous: Final = is_anonymous
        self.authenticates: Final = authenticates
        self.known_head: Final = lru_cache(maxsize=REMEMBERED_HEADS_MAX)(self._know_head)
        """``_know_head`` with a cache: a client's requests rarely differ in their heads."""
        self._writers: Final[set[BodyWriter]] = set()

    def holds_request(self, opening: bytes) -> bool:
        return holds_request(opening)

    async def converse(self, connection: Connection) -> None:
        conversation = _Conversation(self, connection)
        try:
            await conversation.run()
        finally:
            if connection.phase is _RECEIVING:
                connection.too_slow = conversation.too_slow()

    def _know_head(self, data: bytes, principal: str | None) -> _KnownHead | None:
        """Return how to answer the requests with this head at once, or None if that is impossible.

        Args:
            data: a complete head.
            principal: that of the client's certificate.
        """
        if self.router is None:
            return None
        try:
            check_head(data, self.http_limits)
            head = remembered_head(data)
        except RefusedError:
            return None
        if (
            not head.keep_alive
            or head.expects_continue
            or head.length == CHUNKED
            or head.length > self.http_limits.body_bytes_max
            or not self.allows_host(head.headers)
        ):
            return None
        request = Request(
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            body=b"",
            keep_alive=True,
            principal=principal,
        )
        route = self.router(request)
        if route is None:
            return None
        try:
            before, after = encode_start(route, head.echo + head.connection)
        except ValueError:  # the general path logs it
            return None
        return _KnownHead(head.length, route.answer, before, after, head.echo + head.connection)

    @contextmanager
    def watching_for_drain(self, writer: BodyWriter) -> Iterator[None]:
        """End the body of ``writer`` when the server drains, if it is live."""
        self._writers.add(writer)
        if self.is_draining:
            writer.end_if_live()
        try:
            yield
        finally:
            self._writers.discard(writer)

    def on_drain(self) -> None:
        """Complete live bodies, since they have no end."""
        for writer in self._writers:
            writer.end_if_live()

    def allows_host(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return True if requests with this Host header are answered."""
        hosts = self.allowed_hosts
        return hosts is None or hosts.fullmatch(headers.get(b"host", b"")) is not None

    def refuse_host(self, headers: Mapping[bytes, bytes]) -> Response:
        """Return the answer to a request whose Host header is not allowed."""
        host = headers.get(b"host", b"")[:_HOST_BYTES_SHOWN_MAX]
        found = host.decode("ascii", "backslashreplace")
        key = f"authorizerd.{self.name.replace('_', '.')}"
        return text_response(
            403,
            f"host not allowed: {key}: expected a request for localhost, 127.0.0.1 or [::1] "
            f"on any port, found Host {escape_unprintable(found)!r}: use one of these in the URL, "
            "or let the proxy set it",
        )


class _Conversation:
    """One connection, from its first byte to its last."""

    __slots__ = ("_connection", "_descriptor", "_protocol", "_server", "_stream")

    def __init__(self, server: HttpServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._stream = stream = connection.stream
        self._descriptor = stream.descriptor if isinstance(stream, SocketStream) else None
        self._protocol = ServerConnection(
            server.http_limits, connection.principal, connection.address
        )

    async def run(self) -> None:
        """Read and answer in turn: if the peer does not read answers, the server stops reading."""
        connection, protocol = self._connection, self._protocol
        while not protocol.closed:
            data = await self._receive()
            if not data:
                return
            protocol.receive_data(data)
            if not connection.reserve(protocol.bytes_held):
                await self._refuse_to_hold()
                return
            if connection.admission.has_backlog:
                await connection.enter_turn()
            await self._answer_all()
            while connection.admission.is_deferred:
                await connection.pause()
                await connection.wait_for_turn()
                await self._answer_all()
        await send_last(self._stream, b"")

    async def _receive(self) -> bytes:
        """Return the next bytes that cannot be answered at once; empty if there are none."""
        connection, server = self._connection, self._server
        if self._protocol.receiving:
            if connection.phase is not _RECEIVING:
                connection.enter(_RECEIVING)
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        can_answer_at_once = server.router is not None and self._protocol.is_between_requests
        while not server.is_draining:
            connection.enter(_IDLE)
            if not can_answer_at_once:
                return bytes(await self._stream.receive_some(RECEIVE_BYTES))
            data, unsent = await self._wait()
            if not unsent:
                return data
            await self._stream.send_all(unsent)
            connection.keep(0)
            connection.finish_answer()
        return b""

    async def _wait(self) -> tuple[bytes, bytes]:
        """Return the next bytes that cannot be answered at once, or else an answer to be sent."""
        selector, descriptor = self._server.selector, self._descriptor
        if selector is not None and descriptor is not None:
            return await selector.wait(descriptor, self)
        data = bytes(await self._stream.receive_some(RECEIVE_BYTES))
        answer = self.answer_at_once(data) if data else None
        if answer is None:
            return data, b""
        self.hold_unsent(len(answer))
        return b"", answer

    def hold_unsent(self, size: int) -> None:
        """See ``Channel``. The memory is there: ``answer_at_once`` has just checked it."""
        self._connection.enter(_SENDING)
        self._connection.reserve_answer(size)

    def answer_at_once(self, data: bytes) -> bytes | None:
        """See ``Channel``. A draining server answers in the task, which ends the connection."""
        server, connection = self._server, self._connection
        answer = None
        end = data.find(HEAD_END) + len(HEAD_END)
        if len(HEAD_END) <= end <= REMEMBERED_HEAD_BYTES_MAX and not server.is_draining:
            known = server.known_head(data[:end], connection.certified)
            if known is not None and known.length == len(data) - end:
                answer = self._answer_known(known, data[end:], len(data))
        if answer is None:
            connection.enter(_RECEIVING)
        else:
            connection.since = server.next_sweep
        return answer

    def _answer_known(self, known: _KnownHead, body: bytes, held: int) -> bytes | None:
        """Return the answer to one complete request of ``held`` bytes, or None.

        Why is it never refused for overload? Refusing would take as long as answering.
        """
        server, connection = self._server, self._connection
        if held > FREE_BYTES and not connection.reserve(held):
            return None
        try:
            answered = known.answer(body, connection.address)
        except Exception:  # a fault in one answer must not end the daemon
            _logger.exception("%s: no answer at once", server.name)
            return None  # the task tries again, and answers 500 if the fault persists
        if answered is None:
            return None
        server.statistics.requests += 1
        if isinstance(answered, bytes):
            size, status = len(answered), 200
        else:
            size, status = len(answered.body), answered.status
        if held + size > FREE_BYTES:
            has_memory = connection.reserve(held) and connection.reserve_answer(size)
            connection.keep(0)
            if not has_memory:
                server.statistics.requests_refused += 1
                answered = _NO_MEMORY
        if not connection.is_established and status < _FIRST_ERROR_STATUS:
            server.establish(connection, is_known=server.authenticates())
        if isinstance(answered, bytes):
            return b"%b%d%b%b" % (known.before, size, known.after, answered)
        return encode_response(answered, connection=known.connection)

    async def _refuse_to_hold(self) -> None:
        """Drop the received part of a request, and answer that there is no memory for it."""
        self._server.statistics.requests_refused += 1
        refusal = encode_response(_NO_MEMORY, connection=self._protocol.echo + CONNECTION_CLOSE)
        self._protocol.close()
        self._connection.keep(0)
        self._connection.enter(_SENDING)
        await send_last(self._stream, refusal)

    def too_slow(self) -> bytes:
        """Return the answer to a request that did not arrive in time."""
        return encode_response(_TOO_SLOW, connection=self._protocol.echo + CONNECTION_CLOSE)

    async def _answer_all(self) -> None:
        """Answer the received requests with few sends, but keep turns short and memory small."""
        answers: list[bytes] = []
        answered = size = 0
        connection, protocol = self._connection, self._protocol
        admission = connection.admission
        left = admission.share(REQUEST_NS)
        while not admission.is_deferred and (event := protocol.next_event()) is not None:
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

    async def _send(self, answers: list[bytes]) -> None:
        connection = self._connection
        connection.phase = _SENDING
        connection.since = self._server.next_sweep
        await self._stream.send_all(b"".join(answers))
        connection.reservation.reserve(self._protocol.bytes_held)
        if connection.ending is not None:
            connection.finish_answer()

    async def _answer(self, event: Request | BadRequest | Interim, before: list[bytes]) -> bytes:
        """Return the answer to one event, or what completes its streamed answer.

        Args:
            before: the answers that are not sent yet. A streamed answer sends them first.
        """
        server, connection, protocol = self._server, self._connection, self._protocol
        if isinstance(event, Interim):
            return event.data
        if isinstance(event, BadRequest):
            server.statistics.requests_bad += 1
            return protocol.send(text_response(event.status, event.reason))
        server.statistics.requests += 1
        if connection.has_expired:  # the request still names the certificate's principal
            connection.note_expiry()
            return protocol.send(_EXPIRED, close=True)
        if not server.allows_host(event.headers):
            return protocol.send(server.refuse_host(event.headers), close=True)
        # A draining server refuses nothing, because these are the last requests.
        if not server.is_draining and not connection.admission.admits():
            server.statistics.requests_refused += 1
            return protocol.send(_OVERLOADED)
        try:
            response = await server.handler(event)
            if not (
                connection.is_established
                or response.status >= _FIRST_ERROR_STATUS
                or server.is_anonymous(event)
            ):
                server.establish(connection, is_known=server.authenticates())
            if isinstance(response, Response):
                return protocol.send(self._fit(response), close=server.is_draining)
            before.append(self._start(response))
        except Exception:  # a fault in one answer must not end the daemon
            server.statistics.requests_failed += 1
            _logger.exception("%s: no answer to %s %.200s", server.name, event.method, event.path)
            return protocol.send(_INTERNAL_ERROR, close=True)
        return await self._send_body(response, before)

    def _fit(self, response: Response) -> Response:
        """Return the response, or a refusal if there is no memory for it."""
        connection, size = self._connection, len(response.body)
        if connection.reservation.reserve_answer(size) or connection.reserve_answer(size):
            return response
        self._server.statistics.requests_refused += 1
        return _NO_MEMORY

    def _start(self, response: StreamedResponse) -> bytes:
        try:
            return self._protocol.start(response, close=self._server.is_draining)
        except BaseException:
            response.close()
            raise

    async def _send_body(self, response: StreamedResponse, before: list[bytes]) -> bytes:
        """Send ``before``, and a body in parts. Return the bytes that complete the body."""
        server, connection, protocol = self._server, self._connection, self._protocol
        try:
            # The time that a body takes must not count as work of this turn.
            connection.admission.leave(has_backlog=False)
            await self._send(before)
            before.clear()
            if protocol.has_body:
                writer = BodyWriter(connection, protocol, response)
                with server.watching_for_drain(writer):
                    await writer.run()
        finally:
            response.close()
        return protocol.end()
