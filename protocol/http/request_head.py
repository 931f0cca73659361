"""The head of an HTTP/1.1 request: its request line, its headers, and the framing of its body.

Two patterns describe all valid heads: one of the request line, and one of a header line. Any other
head is rejected, so there is no lenient reading that could differ from a proxy's. An upgrade is
ignored: Java's HttpClient offers h2c with every request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

HEAD_END: Final = b"\r\n\r\n"
CHUNKED: Final = -1

_METHOD_SO_FAR: Final = re.compile(rb"[A-Z][A-Z-]{0,23}(?: |\Z)")
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z-]{0,23}) ([!-~]+) HTTP/(\d\.\d)\r\n")
# Possessive, so that rejecting a malformed line takes no longer than reading it. It begins with the
# preceding line end: otherwise a match could begin within a malformed line.
_HEADER_LINE: Final = re.compile(
    rb"\r\n([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)(?<![ \t])(?=\r\n)"
)
_PADDED_LINE: Final = re.compile(_HEADER_LINE.pattern.replace(rb"(?<![ \t])", b""))
"""The same, with whitespace after the value, which is allowed but rare."""
_METHODS: Final = {
    name.encode(): name
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")
}
"""The methods of RFC 9110 and RFC 5789 except CONNECT. The server has no others."""
_ABSOLUTE_TARGET: Final = re.compile(r"https?://([^/?#]+)(/.*)?", re.IGNORECASE)
LENGTH_DIGITS_MAX: Final = 18  # int() takes quadratic time, and fails above 4,300 digits
_REQUEST_ID: Final = re.compile(
    rb"\r\nx-request-id:([\t\x20-\x7e\x80-\xff]*)(?=\r\n)", re.IGNORECASE
)
_CONTENT_LENGTH: Final = re.compile(
    rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE
)
# If one of these headers were repeated, a proxy and this server could use different values.
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
    """A request that never reaches a handler. The connection ends after its answer."""

    status: int
    reason: str


class RefusedError(Exception):
    """A fault of the peer, which becomes a BadRequest."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.event = BadRequest(status, reason)


class Head(msgspec.Struct, frozen=True, gc=False):
    """The request line of a head, and the connection's options, which most requests repeat.

    ``is_newer`` is True for HTTP/1.1.
    """

    method: str
    path: str
    query: str
    keep_alive: bool
    expects_continue: bool
    is_newer: bool


ReadHead: TypeAlias = tuple[Head, Mapping[bytes, bytes], bytes, int]
"""A head, its headers, the header line to repeat in the answer (the request's id), and the body's
length in bytes, or ``CHUNKED``."""
PlacedHead: TypeAlias = tuple[Head, Mapping[bytes, bytes], bytes, int, int]
"""The same, and the position in the received bytes where the head ends."""


class RepeatedHeaders(dict[bytes, bytes]):
    """Headers of which some are repeated: commas join their values.

    ``repeated`` has their names.
    """

    __slots__ = ("repeated",)

    def __init__(self) -> None:
        self.repeated: set[bytes] = set()


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


def find_echo(head: bytes) -> bytes:
    """Return the header line that repeats the request's id in its answer, or nothing.

    The head is complete, but may be refused.

    Source: OpenID AuthZEN Authorization API 1.0, section 10.1.3 (Request Identification).
    """
    ids = [value.strip(b" \t") for value in _REQUEST_ID.findall(head)]
    return b"X-Request-ID: %b\r\n" % b", ".join(ids) if ids else b""


def parse_head(head: bytes, headers_max: int) -> ReadHead:
    """Parse a head, complete with its empty line.

    Raises:
        RefusedError: it is malformed, or needs a feature that this server lacks.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise RefusedError(400, "malformed request line")
    method, target, version = line.groups()
    count = head.count(b"\r\n") - 2
    if count > headers_max:
        raise RefusedError(431, "too many headers")
    is_newer = version == b"1.1"
    if not is_newer and version != b"1.0":
        raise RefusedError(505, "HTTP version not supported")
    name = _METHODS.get(method)
    if name is None:
        raise RefusedError(501, "method not implemented")
    lines = _HEADER_LINE.findall(head, line.end() - 2)
    if len(lines) != count:
        padded = _PADDED_LINE.findall(head, line.end() - 2)
        if len(padded) != count:
            raise RefusedError(400, "malformed header")
        lines = [(name, value.rstrip(b" \t")) for name, value in padded]
    headers = {name.lower(): value for name, value in lines}
    if len(headers) != count:
        headers = _join_repeated(lines)
    get = headers.get
    if is_newer and get(b"host") is None:
        raise RefusedError(400, "no Host header")
    length = _body_length(get(b"content-length"), get(b"transfer-encoding"), is_newer)
    path, _, query = target.decode().partition("?")
    if path[:1] != "/":
        path, query = _split_target(target.decode(), headers)
    connection, request_id, expected = get(b"connection"), get(b"x-request-id"), get(b"expect")
    parsed = Head(
        name,
        path,
        query,
        is_newer if connection is None else _keeps_alive(connection, is_newer),
        expected is not None and is_newer and _expects_continue(expected, length),
        is_newer,
    )
    echo = b"" if request_id is None else b"X-Request-ID: %b\r\n" % request_id
    return parsed, headers, echo, length


def _join_repeated(lines: list[tuple[bytes, bytes]]) -> RepeatedHeaders:
    headers = RepeatedHeaders()
    for name, value in lines:
        name = name.lower()
        if name in headers:
            if name in _NEVER_REPEATED:
                raise RefusedError(400, f"repeated header: {name.decode()}")
            value = headers[name] + b", " + value
            headers.repeated.add(name)
        headers[name] = value
    return headers


def _body_length(length: bytes | None, encoding: bytes | None, newer: bool) -> int:
    """Return the body's length in bytes. Reject a head that states it twice, which is an attack."""
    if encoding is None:
        if length is None:
            return 0
        if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX:
            raise RefusedError(400, "malformed Content-Length")
        return int(length)
    # With both headers, a proxy may disagree with this server about where the body ends.
    if length is not None or not newer:
        raise RefusedError(400, "Transfer-Encoding out of place")
    if encoding.lower() != b"chunked":
        raise RefusedError(501, "transfer coding not implemented")
    return CHUNKED


def _split_target(target: str, headers: Mapping[bytes, bytes]) -> tuple[str, str]:
    """Return path and query of an unusual target. Its authority must equal the Host header."""
    if target == "*":
        return target, ""
    absolute = _ABSOLUTE_TARGET.fullmatch(target)
    if absolute is None or absolute[1].encode() != headers.get(b"host"):
        raise RefusedError(400, "malformed request target")
    path, _, query = (absolute[2] or "/").partition("?")
    return path, query


def _keeps_alive(connection: bytes, newer: bool) -> bool:
    if connection == b"keep-alive":  # the usual value
        return True
    options = [option.strip(b" \t") for option in connection.lower().split(b",")]
    return b"close" not in options and (newer or b"keep-alive" in options)


def _expects_continue(expected: bytes, length: int) -> bool:
    if expected.lower() != b"100-continue":
        raise RefusedError(417, "expectation not met")
    # Without a body, the client has nothing to wait for.
    return length != 0
