"""The server's side of HTTP/1.1, without a socket: bytes to requests, responses to bytes.

The same bytes give the same events (except pauses), however they were split. After a bad request,
the rest is ignored. A head ends at its first empty line, so its size is known before it is parsed.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, assert_never

import msgspec

from authorizerd.protocol.http.messages import CONNECTION_CLOSE, Request, Response, encode_response
from authorizerd.protocol.http.request_head import (
    CHUNKED,
    HEAD_END,
    REMEMBERED_HEAD_BYTES_MAX,
    BadRequest,
    Head,
    HttpLimits,
    RefusedError,
    check_beginning,
    check_head,
    find_echo,
    header_lines,
    parse_head,
    remembered_head,
)
from authorizerd.protocol.http.streamed import (
    LAST_CHUNK,
    StreamedResponse,
    encode_chunk,
    encode_streamed_head,
)

# No control characters in extensions: two readers must not disagree where a body ends.
_CHUNK_LINE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,15})[ \t]{0,8}(?:;[\t\x20-\x7e\x80-\xff]{0,128})?\r\n"
)
_CHUNK_LINE_BYTES_MAX: Final = 256
# Chunks may be tiny, so reading all that have arrived could take too long in one step.
_CHUNKS_AT_ONCE_MAX: Final = 512
_TRAILERS: Final = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n")
_LINE_END: Final = b"\r\n"
_EMPTY_LINES_MAX: Final = 2
"""The number of empty lines ignored before a request line.

RFC 9112, section 2.2 asks for at least one.
"""


class Interim(msgspec.Struct, frozen=True, gc=False):
    """Bytes that the peer waits for before it sends its body."""

    data: bytes


CONTINUE: Final = Interim(b"HTTP/1.1 100 Continue\r\n\r\n")


class Pause(msgspec.Struct, frozen=True, gc=False):
    """A long step is done: other tasks may run before the next event is read."""


PAUSE: Final = Pause()

Event = Request | BadRequest | Interim | Pause


class _Body(Enum):
    """How the body of a streamed answer is sent."""

    NONE = auto()
    """Not at all: there is no streamed answer, or it answers HEAD."""
    CHUNKS = auto()
    UNTIL_CLOSED = auto()


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNKS = auto()
    CLOSED = auto()


class ServerConnection:
    """The server's end of one connection.

    Pass received data to ``receive_data``, then call ``next_event`` until it returns None. Answer
    each Request and BadRequest by one ``send`` before the next event, so that answers keep the
    order of the requests. A Request may also be answered by ``start``, any number of ``part``, and
    ``end``.
    """

    __slots__ = (
        "_address",
        "_body",
        "_buffer",
        "_chunks",
        "_closes",
        "_echo",
        "_empty_lines",
        "_head",
        "_limits",
        "_principal",
        "_small_head_bytes_max",
        "_state",
        "_unanswered",
    )

    def __init__(
        self, limits: HttpLimits, principal: str | None = None, address: str | None = None
    ) -> None:
        self._limits = limits
        self._principal = principal
        self._address = address
        self._small_head_bytes_max = min(limits.request_line_bytes_max, limits.header_bytes_max)
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._chunks = bytearray()
        self._empty_lines = 0
        self._echo = b""
        self._head: Head | None = None
        self._unanswered = False
        self._body = _Body.NONE
        self._closes = False

    @property
    def closed(self) -> bool:
        """True if no more data is read. The connection ends after the pending answers."""
        return self._state is _State.CLOSED

    @property
    def receiving(self) -> bool:
        """True if the first byte of a request has arrived, but not the last."""
        return len(self._buffer) > 0 or self._state in (_State.BODY, _State.CHUNKS)

    @property
    def is_between_requests(self) -> bool:
        """True if no byte has arrived since the last request, not even an empty line."""
        return not self.receiving and not self._empty_lines

    @property
    def echo(self) -> bytes:
        """The header line that answers an incomplete request, or nothing if its head is one."""
        if self._state is _State.HEAD:
            end = self._buffer.find(HEAD_END) + len(HEAD_END)
            return find_echo(bytes(self._buffer[:end])) if end >= len(HEAD_END) else b""
        return b"" if self._state is _State.CLOSED else self._echo

    @property
    def bytes_held(self) -> int:
        """The bytes received but not returned as an event yet."""
        return len(self._buffer) + len(self._chunks)

    def close(self) -> None:
        """Read no more, and drop the data of an incomplete request."""
        self._close()

    def receive_data(self, data: bytes | bytearray) -> None:
        """Add data from the peer. After closing, data is dropped."""
        if self._state is not _State.CLOSED:
            self._buffer += data

    def next_event(self) -> Event | None:
        """Return the next event in the data so far, or None until more arrives."""
        assert not self._unanswered, "an answer is owed first"
        try:
            match self._state:
                case _State.HEAD:
                    return self._read_head()
                case _State.BODY:
                    return self._read_body()
                case _State.CHUNKS:
                    return self._read_chunks()
                case _State.CLOSED:
                    return None
                case _:
                    assert_never(self._state)
        except RefusedError as refused:
            # A bad request must not be answered by the rules of the request before it.
            self._head = None
            self._unanswered = True
            self._close()
            return refused.event

    def send(self, response: Response, *, close: bool = False) -> bytes:
        """Return the bytes that answer the last event.

        With ``close``, the connection ends after them.

        Raises:
            ValueError: the response cannot be sent. An answer is still expected.
        """
        assert self._unanswered, "there is nothing to answer"
        head = self._head
        close = close or head is None or not head.keep_alive
        data = encode_response(
            response,
            connection=self._echo
            + (CONNECTION_CLOSE if close or head is None else head.connection),
            bodiless=head is not None and head.method == "HEAD",
        )
        # Clear this only after encoding: if encoding fails, an answer is still owed.
        self._unanswered = False
        if close:
            self._close()
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
            connection=self._echo + (CONNECTION_CLOSE if close else head.connection),
            chunked=head.is_newer,
        )
        self._closes = close
        if head.method != "HEAD":
            self._body = _Body.CHUNKS if head.is_newer else _Body.UNTIL_CLOSED
        return data

    @property
    def has_body(self) -> bool:
        """True if a streamed answer was started and its body is to be sent; not for HEAD."""
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
        if self._closes:
            self._close()
        return data

    def _close(self) -> None:
        self._state = _State.CLOSED
        self._buffer.clear()
        self._chunks.clear()

    def _read_head(self) -> Event | None:
        buffer = self._buffer
        if not buffer or (buffer.startswith(b"\r") and not self._skip_empty_lines()):
            return None
        limits = self._limits
        self._echo = b""
        found = buffer.find(HEAD_END)
        if found < 0:
            # Check now: otherwise a head that never ends could fill the buffer.
            check_beginning(buffer, limits)
            return None
        end = found + len(HEAD_END)
        data = bytes(buffer[:end])
        del buffer[:end]
        try:
            # A head within the smaller limit exceeds neither, so most heads skip the full check.
            if end > self._small_head_bytes_max or header_lines(data) > limits.headers_max:
                check_head(data, limits)
            head = parse_head(data) if end > REMEMBERED_HEAD_BYTES_MAX else remembered_head(data)
        except RefusedError:
            self._echo = find_echo(data)
            raise
        self._empty_lines = 0
        self._echo = head.echo
        # Reject before 100 Continue, so that the client does not send the body.
        if head.length > limits.body_bytes_max:
            raise RefusedError(413, "request body too large")
        self._head = head
        self._state = _State.CHUNKS if head.length == CHUNKED else _State.BODY
        if head.expects_continue:
            return CONTINUE
        return self._read_chunks() if head.length == CHUNKED else self._read_body()

    def _skip_empty_lines(self) -> bool:
        """Drop the empty lines before a request. Return True if other data has arrived."""
        buffer = self._buffer
        while self._empty_lines < _EMPTY_LINES_MAX and buffer.startswith(_LINE_END):
            del buffer[: len(_LINE_END)]
            self._empty_lines += 1
        is_half_a_line = buffer == b"\r" and self._empty_lines < _EMPTY_LINES_MAX
        return len(buffer) > 0 and not is_half_a_line

    def _read_body(self) -> Request | None:
        assert self._head is not None
        length = self._head.length
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return self._finish(self._head, body)

    def _read_chunks(self) -> Request | Pause | None:
        """Take complete chunks from the buffer. The maximum body size limits each."""
        assert self._head is not None
        buffer, chunks = self._buffer, self._chunks
        position = count = 0
        while (line := _CHUNK_LINE.match(buffer, position)) is not None:
            start = line.end()
            size = int(line[1], 16)
            # The announced size counts, so an excessive chunk is refused before it arrives.
            if len(chunks) + size > self._limits.body_bytes_max:
                raise RefusedError(413, "request body too large")
            if size == 0:
                del buffer[:position]
                return self._read_trailers(self._head, start - position)
            end = start + size
            if len(buffer) < end + len(b"\r\n"):
                break
            if not buffer.startswith(b"\r\n", end):
                raise RefusedError(400, "malformed chunk")
            chunks += buffer[start:end]
            position = end + len(b"\r\n")
            count += 1
            if count == _CHUNKS_AT_ONCE_MAX:
                del buffer[:position]
                return PAUSE
        else:
            # An incomplete line may still become valid. A complete or too long one cannot.
            line_bytes = len(buffer) - position
            if line_bytes >= _CHUNK_LINE_BYTES_MAX or buffer.find(b"\n", position) >= 0:
                raise RefusedError(400, "malformed chunk")
        del buffer[:position]
        return None

    def _read_trailers(self, head: Head, start: int) -> Request | None:
        """End a chunked body. Valid trailers are dropped, as RFC 9112 section 7.1.2 allows."""
        # Without trailers, the line end of the last chunk is the first half of HEAD_END.
        found = self._buffer.find(HEAD_END, start - len(b"\r\n"))
        end = len(self._buffer) if found < 0 else found + len(HEAD_END)
        if end - start > self._limits.header_bytes_max:
            raise RefusedError(431, "trailers too large")
        if found < 0:
            return None
        # The empty line at the end is counted, too.
        if self._buffer.count(_LINE_END, start, end) > self._limits.headers_max + 1:
            raise RefusedError(431, "too many trailers")
        if not _TRAILERS.fullmatch(self._buffer, start, end):
            raise RefusedError(400, "malformed trailers")
        body = bytes(self._chunks)
        self._chunks.clear()
        del self._buffer[:end]
        return self._finish(head, body)

    def _finish(self, head: Head, body: bytes) -> Request:
        self._unanswered = True
        if head.keep_alive:
            self._state = _State.HEAD
        else:
            self._close()
        return Request(
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            body=body,
            keep_alive=head.keep_alive,
            principal=self._principal,
            address=self._address,
        )
