"""The head of an HTTP/1.1 request: its request line, its headers, and the framing of its body.

Each head is given to a new llhttp parser as a whole, so no state of one request affects the next.
An upgrade, at which llhttp stops reading, is ignored: Java's HttpClient offers h2c with every
request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import httptools
import msgspec

HEAD_END: Final = b"\r\n\r\n"
CHUNKED: Final = -1
REMEMBERED_HEADS_MAX: Final = 512
REMEMBERED_HEAD_BYTES_MAX: Final = 1024

_METHOD_SO_FAR: Final = re.compile(rb"[A-Z][A-Z-]{0,23}(?: |\Z)")
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z-]{0,23}) ([!-~]+) HTTP/(\d\.\d)\r\n")
_ABSOLUTE_TARGET: Final = re.compile(r"https?://([^/?#]+)(/.*)?", re.IGNORECASE)
_LENGTH_DIGITS_MAX: Final = 18  # int() takes quadratic time, and fails above 4,300 digits
_REQUEST_ID: Final = re.compile(
    rb"\r\nx-request-id:([\t\x20-\x7e\x80-\xff]*)(?=\r\n)", re.IGNORECASE
)
_CONTENT_LENGTH: Final = re.compile(
    rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE
)
# If such a header were repeated, a proxy and this server could use different values.
_NEVER_REPEATED: Final = frozenset({b"host", b"content-length", b"content-type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one request.

    ``request_line_bytes_max`` excludes the line end. ``header_bytes_max`` covers everything from
    there to the body, including line ends and the empty line.
    """

    body_bytes_max: int
    request_line_bytes_max: int = 8 * 1024
    header_bytes_max: int = 16 * 1024
    headers_max: int = 100


class BadRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that no handler may see. The connection ends after its answer."""

    status: int
    reason: str


class RefusedError(Exception):
    """A fault of the peer, which becomes a BadRequest."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.event = BadRequest(status, reason)


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request without its body, which has ``length`` bytes or is ``CHUNKED``.

    ``connection`` is the header line for answers while the connection stays open, and ``echo`` is
    the header line that every answer repeats: the request's id. ``is_newer`` is True for HTTP/1.1.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    keep_alive: bool
    connection: bytes
    echo: bytes
    length: int
    expects_continue: bool
    is_newer: bool


def check_beginning(head: bytes | bytearray, limits: HttpLimits) -> None:
    """Reject a head as soon as its first bytes rule out a valid one.

    Each check uses only these bytes, so the result does not depend on how much has arrived.
    """
    if not _METHOD_SO_FAR.match(head):
        raise RefusedError(400, "malformed request line")
    line_end = head.find(b"\n", 0, limits.request_line_bytes_max + 2)
    if line_end < 0:
        if len(head) > limits.request_line_bytes_max + 1:
            raise RefusedError(414, "request line too long")
        return
    if not head.startswith(b"\r", line_end - 1):
        raise RefusedError(400, "malformed request line")
    if len(head) - line_end - 1 > limits.header_bytes_max:
        raise RefusedError(431, "headers too large")


def check_head(head: bytes, limits: HttpLimits) -> None:
    """Reject a complete head that exceeds the limits, before it is parsed."""
    check_beginning(head, limits)
    if header_lines(head) > limits.headers_max:
        raise RefusedError(431, "too many headers")


def holds_request(opening: bytes) -> bool:
    """Return True if the first bytes of a connection seem to hold a whole request.

    A body in chunks never counts as whole: only its parser could tell.
    """
    end = opening.find(HEAD_END)
    if end < 0:
        return False
    head = opening[: end + 2]
    length = _CONTENT_LENGTH.search(head)
    if length is not None:
        return len(opening) - end - len(HEAD_END) >= int(length[1])
    return b"\r\ntransfer-encoding:" not in head.lower()


def header_lines(head: bytes) -> int:
    return head.count(b"\r\n") - 2


def find_echo(head: bytes) -> bytes:
    """Return the header line that repeats the request's id in its answer, or nothing.

    The head is complete, but it may be one that is refused.

    Source: OpenID AuthZEN Authorization API 1.0, section 10.1.3 (Request Identification).
    """
    ids = [value.strip(b" \t") for value in _REQUEST_ID.findall(head)]
    return b"X-Request-ID: %b\r\n" % b", ".join(ids) if ids else b""


def parse_head(head: bytes) -> Head:
    """Parse a head, complete with its empty line.

    Raises:
        RefusedError: it is malformed, or needs a feature that this server lacks.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise RefusedError(400, "malformed request line")
    method, target, version = line.groups()
    if version not in (b"1.1", b"1.0"):
        raise RefusedError(505, "HTTP version not supported")
    if method == b"CONNECT":
        raise RefusedError(501, "method not implemented")
    headers = _parse_headers(head)
    newer = version == b"1.1"
    if newer and b"host" not in headers:
        raise RefusedError(400, "no Host header")
    length = _body_length(headers, newer)
    path, query = _split_target(target.decode(), headers)
    return Head(
        method=method.decode(),
        path=path,
        query=query,
        # Heads are cached, so handlers share this mapping.
        headers=MappingProxyType(headers),
        keep_alive=_keeps_alive(headers.get(b"connection"), newer),
        # HTTP/1.0 must be told that the connection stays open. In HTTP/1.1 it is the default.
        connection=b"" if newer else b"Connection: keep-alive\r\n",
        echo=find_echo(head) if b"x-request-id" in headers else b"",
        length=length,
        expects_continue=newer and b"expect" in headers and _expects_continue(headers, length),
        is_newer=newer,
    )


remembered_head = lru_cache(maxsize=REMEMBERED_HEADS_MAX)(parse_head)
"""``parse_head`` with a cache for small heads.

A client's requests differ in their bodies, rarely in their heads. The cache takes at most a
megabyte, and saves much of the time that a quick answer takes.
"""


class _HeaderReader:
    """Collect the headers that llhttp reports."""

    __slots__ = ("headers", "repeated")

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.repeated: bytes | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        # llhttp leaves the blanks after a value.
        value = value.strip(b" \t")
        if name in self.headers:
            if name in _NEVER_REPEATED:
                self.repeated = name
            value = self.headers[name] + b", " + value
        self.headers[name] = value


def _parse_headers(head: bytes) -> dict[bytes, bytes]:
    reader = _HeaderReader()
    try:
        httptools.HttpRequestParser(reader).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # all headers were read: continue in HTTP/1.1
    except httptools.HttpParserInvalidMethodError:
        raise RefusedError(501, "method not implemented") from None
    except httptools.HttpParserError as error:
        _body_length(reader.headers, newer=True)  # an unknown coding is not a syntax error
        raise RefusedError(400, f"malformed request: {error}") from None
    if reader.repeated is not None:
        raise RefusedError(400, f"repeated header: {reader.repeated.decode()}")
    return reader.headers


def _body_length(headers: Mapping[bytes, bytes], newer: bool) -> int:
    """Return the body's length in bytes. Reject a head that states it in two ways: an attack."""
    length = headers.get(b"content-length")
    encoding = headers.get(b"transfer-encoding")
    if encoding is None:
        if length is None:
            return 0
        if not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
            raise RefusedError(400, "malformed Content-Length")
        return int(length)
    # With both headers, a proxy may disagree with this server about where the body ends.
    if length is not None or not newer:
        raise RefusedError(400, "Transfer-Encoding out of place")
    if encoding.lower() != b"chunked":
        raise RefusedError(501, "transfer coding not implemented")
    return CHUNKED


def _split_target(target: str, headers: Mapping[bytes, bytes]) -> tuple[str, str]:
    """Return path and query. If the target has an authority, it must equal the Host header."""
    if not target.startswith("/") and target != "*":
        absolute = _ABSOLUTE_TARGET.fullmatch(target)
        if absolute is None or absolute[1].encode() != headers.get(b"host"):
            raise RefusedError(400, "malformed request target")
        target = absolute[2] or "/"
    path, _, query = target.partition("?")
    return path, query


def _keeps_alive(connection: bytes | None, newer: bool) -> bool:
    if connection is None:
        return newer
    options = [option.strip(b" \t") for option in connection.lower().split(b",")]
    return b"close" not in options and (newer or b"keep-alive" in options)


def _expects_continue(headers: Mapping[bytes, bytes], length: int) -> bool:
    if headers[b"expect"].lower() != b"100-continue":
        raise RefusedError(417, "expectation not met")
    # Without a body, the client has nothing to wait for.
    return length != 0
