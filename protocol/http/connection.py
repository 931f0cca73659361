"""The server's side of HTTP/1.1, without a socket: bytes to requests, responses to bytes.

The same bytes give the same events (except pauses), however they were split. After a bad request,
the remaining data is ignored. A head ends at its first empty line, so its size is known before it
is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from authorizerd.protocol.http.chunked_body import ChunkedBody
from authorizerd.protocol.http.last_head import LastHead, remember_head
from authorizerd.protocol.http.messages import (
    CONNECTION_CLOSE,
    KEEP_ALIVE,
    Request,
    Response,
    encode_response,
)
from authorizerd.protocol.http.request_head import (
    CHUNKED,
    HEAD_END,
    BadRequest,
    Head,
    HttpLimits,
    PlacedHead,
    RefusedError,
    check_beginning,
    find_echo,
    parse_head,
)
from authorizerd.protocol.http.streamed import (
    LAST_CHUNK,
    StreamedResponse,
    encode_chunk,
    encode_streamed_head,
)

_LINE_END: Final = b"\r\n"
_EMPTY_LINES_MAX: Final = 2
"""The number of empty lines ignored before a request line.

RFC 9112, section 2.2 asks for at least one.
"""


class Interim(msgspec.Struct, frozen=True, gc=False):
    """Bytes that the peer awaits before it sends its body."""

    data: bytes


CONTINUE: Final = Interim(b"HTTP/1.1 100 Continue\r\n\r\n")


class Pause(msgspec.Struct, frozen=True, gc=False):
    """A long step is complete: other tasks may run before the next event is read."""


PAUSE: Final = Pause()

Event = Request | BadRequest | Interim | Pause


class _Body(Enum):
    """How to send the body of a streamed answer."""

    NONE = auto()
    """No body is sent: there is no streamed answer, or the request was a HEAD."""
    CHUNKS = auto()
    UNTIL_CLOSED = auto()


class ServerConnection:
    """The server's end of one connection.

    Pass received data to ``receive_data``, then call ``next_event`` until it returns None. Answer
    each Request and BadRequest by one ``send`` before the next event, so that answers keep the
    order of the requests. A Request may also be answered by ``start``, any number of ``part``, and
    ``end``.

    Attributes:
        closed: True if no more data is read. The connection ends after the pending answers.
    """

    __slots__ = (
        "_address",
        "_arriving",
        "_awaited",
        "_body",
        "_chunks",
        "_closes",
        "_echo",
        "_empty_lines",
        "_head",
        "_last",
        "_limits",
        "_principal",
        "_received",
        "_small_head_bytes_max",
        "_start",
        "_unanswered",
        "closed",
    )

    def __init__(
        self, limits: HttpLimits, principal: str | None = None, address: str | None = None
    ) -> None:
        self._limits = limits
        self._principal = principal
        self._address = address
        self._small_head_bytes_max = min(limits.request_line_bytes_max, limits.header_bytes_max)
        self.closed = False
        # Most requests arrive whole and alone. They are read where they are, without a copy.
        self._received = b""
        self._start = 0  # position of the next head in `_received`
        self._arriving = bytearray()  # a body that was not complete with its head, and what follows
        self._chunks: ChunkedBody | None = None
        self._empty_lines = 0
        self._echo = b""
        self._head: Head | None = None  # of the last event
        self._last: LastHead | None = None
        self._awaited: PlacedHead | None = None  # of a request whose body has not arrived
        self._unanswered = False
        self._body = _Body.NONE
        self._closes = False

    @property
    def receiving(self) -> bool:
        """True if the first byte of a request has arrived, but not the last."""
        return self._received != b"" or self._awaited is not None

    @property
    def echo(self) -> bytes:
        """The header line to repeat in the answer to an incomplete request, if its head is
        complete."""
        if self._awaited is not None:
            return self._echo
        end = self._received.find(HEAD_END, self._start) + len(HEAD_END)
        return find_echo(self._received[self._start : end]) if end >= len(HEAD_END) else b""

    @property
    def bytes_held(self) -> int:
        """The bytes received but not returned as an event yet."""
        held = len(self._received) - self._start + len(self._arriving)
        return held if self._chunks is None else held + len(self._chunks.chunks)

    def close(self) -> None:
        """Read no more, and drop the data of an incomplete request."""
        self.closed = True
        self._received, self._start = b"", 0
        self._arriving.clear()
        self._awaited = self._chunks = None

    def receive_data(self, data: bytes) -> int:
        """Add data from the peer. Return ``bytes_held``. After closing, data is dropped."""
        if self._awaited is not None:
            self._arriving += data
        elif self._received:
            self._received, self._start = self._received[self._start :] + data, 0
        elif not self.closed:
            self._received = data
            return len(data)
        return self.bytes_held

    def next_event(self) -> Event | None:
        """Return the next event in the data so far, or None until more arrives."""
        assert not self._unanswered, "the previous event needs an answer first"
        try:
            if self._awaited is not None:
                return self._read_body(self._awaited)
            return self._read_head() if self._received else None
        except RefusedError as refused:
            # A bad request must not be answered by the rules for the previous request.
            self._head = None
            self._unanswered = True
            self.close()
            return refused.event

    def send(self, response: Response, *, close: bool = False) -> bytes:
        """Return the bytes that answer the last event.

        With ``close``, the connection ends after them.

        Raises:
            ValueError: the response cannot be sent. An answer is still expected.
        """
        assert self._unanswered, "there is nothing to answer"
        head, connection = self._head, self._echo
        if close or head is None or not head.keep_alive:
            close, connection = True, connection + CONNECTION_CLOSE
        elif not head.is_newer:
            connection += KEEP_ALIVE
        bodiless = head is not None and head.method == "HEAD"
        data = encode_response(response, connection=connection, bodiless=bodiless)
        # Clear this only after encoding: if encoding fails, an answer is still owed.
        self._unanswered = False
        self._head = None  # an idle connection keeps no token
        if close:
            self.close()
        return data

    def start(self, response: StreamedResponse, *, close: bool = False) -> bytes:
        """Return the head that begins to answer the last event. Parts follow, then ``end``.

        With ``close``, the connection ends after the body.

        Raises:
            ValueError: the response cannot be sent. An answer is still expected.
        """
        head = self._head
        assert self._unanswered, "there is nothing to answer"
        assert head is not None, "only a request can have a streamed answer"
        # HTTP/1.0 has no chunks: the end of the connection ends the body.
        close = close or not head.keep_alive or not head.is_newer
        data = encode_streamed_head(
            response,
            connection=self._echo + CONNECTION_CLOSE if close else self._echo,
            chunked=head.is_newer,
        )
        self._closes = close
        if head.method != "HEAD":
            self._body = _Body.CHUNKS if head.is_newer else _Body.UNTIL_CLOSED
        return data

    @property
    def has_body(self) -> bool:
        """True if a streamed answer was started and needs a body; False for HEAD."""
        return self._body is not _Body.NONE

    def part(self, data: bytes) -> bytes:
        """Return the bytes of the next part of a body. ``data`` must not be empty."""
        assert self.has_body, "no body was started"
        return encode_chunk(data) if self._body is _Body.CHUNKS else data

    def end(self) -> bytes:
        """Return the bytes that complete a streamed answer. The next event may follow."""
        data = LAST_CHUNK if self._body is _Body.CHUNKS else b""
        self._body = _Body.NONE
        self._unanswered = False
        self._head = None
        if self._closes:
            self.close()
        return data

    def _read_head(self) -> Event | None:
        received, last = self._received, self._last
        read = None if last is None else last.take(received, self._start)
        if read is None:
            read = self._parse_head()
            if read is None:
                return None
            received = self._received
        self._empty_lines = 0
        head, headers, self._echo, length, start = read
        # Reject before 100 Continue, so that the client does not send the body.
        if length > self._limits.body_bytes_max:
            raise RefusedError(413, "request body too large")
        end = start + length
        if length == CHUNKED or end > len(received) or head.expects_continue:
            self._arriving += received[start:]
            self._received, self._start, self._awaited = b"", 0, read
            if length == CHUNKED:
                self._chunks = ChunkedBody(self._limits)
            return CONTINUE if head.expects_continue else self._read_body(read)
        if end == len(received):
            self._received, self._start = b"", 0
        else:
            self._start = end
        return self._request(head, headers, received[start:end])

    def _parse_head(self) -> PlacedHead | None:
        if self._received.startswith(b"\r", self._start) and not self._skip_empty_lines():
            return None
        received, start = self._received, self._start
        self._echo = b""
        found = received.find(HEAD_END, start)
        if found < 0:
            # Check now: otherwise a head that never ends could exhaust memory.
            check_beginning(received[start:], self._limits)
            return None
        end = found + len(HEAD_END)
        data = received[start:end]
        try:
            # A head within the smaller limit exceeds neither, so most heads skip this check.
            if len(data) > self._small_head_bytes_max:
                check_beginning(data, self._limits)
            read = parse_head(data, self._limits.headers_max)
        except RefusedError:
            self._echo = find_echo(data)
            raise
        self._last = remember_head(data, read, self._small_head_bytes_max)
        return *read, end

    def _skip_empty_lines(self) -> bool:
        """Drop the empty lines before a request. Return True if other data has arrived."""
        received, start = self._received, self._start
        while self._empty_lines < _EMPTY_LINES_MAX and received.startswith(_LINE_END, start):
            start += len(_LINE_END)
            self._empty_lines += 1
        self._received, self._start = received[start:], 0
        is_half_a_line = self._received == b"\r" and self._empty_lines < _EMPTY_LINES_MAX
        return self._received != b"" and not is_half_a_line

    def _read_body(self, read: PlacedHead) -> Request | Pause | None:
        head, headers, _, length, _ = read
        chunks, arriving = self._chunks, self._arriving
        if chunks is not None:
            body = chunks.read(arriving)
            if body is None:
                return PAUSE if chunks.is_paused else None
            self._chunks = None
        else:
            if len(arriving) < length:
                return None
            body = bytes(arriving[:length])
            del arriving[:length]
        self._received, self._awaited = bytes(arriving), None
        arriving.clear()
        return self._request(head, headers, body)

    def _request(self, head: Head, headers: Mapping[bytes, bytes], body: bytes) -> Request:
        self._head = head
        self._unanswered = True
        if not head.keep_alive:
            self.close()
        return Request(
            head.method,
            head.path,
            head.query,
            headers,
            body,
            self._principal,
            self._address,
        )
