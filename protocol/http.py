"""HTTP/1.1 as a server speaks it: bytes to requests, responses to bytes.

The same bytes give the same events however they were cut, and nothing after a bad request is
looked at. A head ends at its first empty line, which bounds it before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from typing import Final, assert_never

import msgspec

from protocol.http_head import (
    CHUNKED,
    HEAD_END,
    REMEMBERED_HEAD_BYTES_MAX,
    BadRequest,
    Head,
    HttpLimits,
    RefusedError,
    check_beginning,
    check_head,
    header_lines,
    parse_head,
    remembered_head,
)

__all__ = (
    "CONNECTION_CLOSE",
    "CONTINUE",
    "LOOPBACK_HOSTS",
    "PLAIN_TEXT",
    "UNIDENTIFIED",
    "BadRequest",
    "Event",
    "HttpLimits",
    "Interim",
    "Request",
    "Response",
    "ServerConnection",
    "bearer_token",
    "encode_response",
    "has_json_type",
    "text_response",
)

PLAIN_TEXT: Final = "text/plain; charset=utf-8"
LOOPBACK_HOSTS: Final = re.compile(
    rb"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE
)
"""The Host headers that mean this machine, on any port."""
CONNECTION_CLOSE: Final = b"Connection: close\r\n"

_JSON: Final = b"application/json"
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]{0,8}(?:;[^\r\n]{0,128})?\r\n")
_CHUNK_LINE_BYTES_MAX: Final = 256


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One whole request.

    ``path`` and ``query`` are as sent, percent signs and all. Header names are in lower case; the
    values of a repeated one are joined by commas.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    keep_alive: bool

    def __repr__(self) -> str:
        """Return what may stand in a log: no header, query or body, which may hold a token."""
        return f"Request({self.method} {self.path})"


def bearer_token(request: Request) -> bytes | None:
    """Return the token of an ``Authorization: Bearer`` header. Source: RFC 6750, section 2.1."""
    credentials = request.headers.get(b"authorization")
    if credentials is None:
        return None
    scheme, _, token = credentials.partition(b" ")
    return token.strip(b" ") if scheme.lower() == b"bearer" else None


def has_json_type(request: Request) -> bool:
    """Say whether the body is said to be JSON.

    What is not could have been sent by a browser across origins, without asking first.
    """
    content_type = request.headers.get(b"content-type", b"")
    return content_type == _JSON or content_type.partition(b";")[0].strip().lower() == _JSON


class Interim(msgspec.Struct, frozen=True, gc=False):
    """Bytes that the peer waits for before it sends its body."""

    data: bytes


CONTINUE: Final = Interim(b"HTTP/1.1 100 Continue\r\n\r\n")

Event = Request | BadRequest | Interim


class Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An answer to one request; ``status`` is one that goes with a body (not 1xx, 204, 304)."""

    status: int
    body: bytes
    content_type: str = PLAIN_TEXT
    headers: tuple[tuple[bytes, bytes], ...] = ()


def text_response(status: int, reason: str) -> Response:
    """Return ``reason`` as one line of plain text: an error is never JSON.

    Source: OPA's Kafka plugin keeps any JSON as a denial for its cache's whole time to live.
    """
    return Response(status=status, body=reason.encode() + b"\n")


UNIDENTIFIED: Final = Response(
    status=401,
    body=b"a token is needed: Authorization: Bearer ID.SECRET\n",
    headers=((b"WWW-Authenticate", b"Bearer"),),
)
"""The answer to whoever shows no token, or a wrong one. Source: RFC 6750, section 3."""


def encode_response(
    response: Response, *, connection: bytes = b"", bodiless: bool = False
) -> bytes:
    """Return the response's bytes.

    Args:    connection: a whole header line (``CONNECTION_CLOSE``), or nothing.
             bodiless: leave the body out, as the answer to HEAD does.
    Raises:  ValueError: a header would break its line, or the status goes without a body.
    """
    start = _status_and_type(response.status, response.content_type)
    fields = connection
    if response.headers:
        fields += b"".join([_field(name, value) for name, value in response.headers])
    body = b"" if bodiless else response.body
    return b"%bContent-Length: %d\r\n%b\r\n%b" % (start, len(response.body), fields, body)


@lru_cache(maxsize=256)
def _status_and_type(status: int, content_type: str) -> bytes:
    if status < 200 or status in (204, 304):
        raise ValueError(f"status {status} goes without a body")
    phrase = HTTPStatus(status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase) + _field(b"Content-Type", content_type.encode())


def _field(name: bytes, value: bytes) -> bytes:
    if not _TOKEN.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
        raise ValueError(f"not a header: {name!r}: {value!r}")
    return b"%b: %b\r\n" % (name, value)


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNKS = auto()
    CLOSED = auto()


class ServerConnection:
    """The server's end of a connection, without the connection.

    What was received goes into ``receive_data``; then ``next_event`` is asked until it has none.
    Each Request and BadRequest is answered by one ``send`` before the next event is asked for, so
    that answers leave in the order of their requests.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_head",
        "_limits",
        "_small_head_bytes_max",
        "_state",
        "_unanswered",
    )

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._small_head_bytes_max = min(limits.request_line_bytes_max, limits.header_bytes_max)
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._chunks = bytearray()
        self._head: Head | None = None
        self._unanswered = False

    @property
    def closed(self) -> bool:
        """Nothing more is read; the connection ends once what was asked is answered."""
        return self._state is _State.CLOSED

    @property
    def receiving(self) -> bool:
        """A request's first byte has come, its last has not."""
        return len(self._buffer) > 0 or self._state in (_State.BODY, _State.CHUNKS)

    @property
    def bytes_held(self) -> int:
        """What has come and is no event yet, in bytes."""
        return len(self._buffer) + len(self._chunks)

    def close(self) -> None:
        """Read no more, and drop what has come of a request that has not ended."""
        self._close()

    def receive_data(self, data: bytes | bytearray) -> None:
        """Take what the peer sent; once closed, drop it."""
        if self._state is not _State.CLOSED:
            self._buffer += data

    def next_event(self) -> Event | None:
        """Return what the bytes so far hold next, or None until more have come."""
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
            self._head = None
            self._unanswered = True
            self._close()
            return refused.event

    def send(self, response: Response, *, close: bool = False) -> bytes:
        """Return the bytes that answer what ``next_event`` returned, the last if ``close``.

        Raises:  ValueError: the response cannot be sent; an answer is still owed.
        """
        assert self._unanswered, "there is nothing to answer"
        head = self._head
        close = close or head is None or not head.keep_alive
        data = encode_response(
            response,
            connection=CONNECTION_CLOSE if close or head is None else head.connection,
            bodiless=head is not None and head.method == "HEAD",
        )
        self._unanswered = False
        if close:
            self._close()
        return data

    def _close(self) -> None:
        self._state = _State.CLOSED
        self._buffer.clear()
        self._chunks.clear()

    def _read_head(self) -> Event | None:
        buffer = self._buffer
        if not buffer:
            return None
        limits = self._limits
        found = buffer.find(HEAD_END)
        if found < 0:
            check_beginning(buffer, limits)
            return None
        end = found + len(HEAD_END)
        data = bytes(buffer[:end])
        del buffer[:end]
        if end > self._small_head_bytes_max or header_lines(data) > limits.headers_max:
            check_head(data, limits)
        head = parse_head(data) if end > REMEMBERED_HEAD_BYTES_MAX else remembered_head(data)
        if head.length > limits.body_bytes_max:
            raise RefusedError(413, "request body too large")
        self._head = head
        self._state = _State.CHUNKS if head.length == CHUNKED else _State.BODY
        if head.expects_continue:
            return CONTINUE
        return self._read_chunks() if head.length == CHUNKED else self._read_body()

    def _read_body(self) -> Request | None:
        assert self._head is not None
        length = self._head.length
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return self._finish(self._head, body)

    def _read_chunks(self) -> Request | None:
        """Take whole chunks off the buffer; none is longer than a body may be."""
        assert self._head is not None
        buffer, chunks = self._buffer, self._chunks
        position = 0
        while (line := _CHUNK_LINE.match(buffer, position)) is not None:
            start = line.end()
            size = int(line[1], 16)
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
        else:
            line_bytes = len(buffer) - position
            if line_bytes >= _CHUNK_LINE_BYTES_MAX or buffer.find(b"\n", position) >= 0:
                raise RefusedError(400, "malformed chunk")
        del buffer[:position]
        return None

    def _read_trailers(self, head: Head, start: int) -> Request | None:
        """End a chunked body; its trailers are dropped, as RFC 9112 section 7.1.2 allows."""
        found = self._buffer.find(HEAD_END, start - len(b"\r\n"))
        end = len(self._buffer) if found < 0 else found + len(HEAD_END)
        if end - start > self._limits.header_bytes_max:
            raise RefusedError(431, "trailers too large")
        if found < 0:
            return None
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
        )
