"""The requests that HTTP handlers get, and the responses that they return.

**Invariant:** a header name or value cannot add a header or start the body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import msgspec

from authorizerd.protocol.views import View

PLAIN_TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"

GET: Final = ("GET", "HEAD")
"""The methods that read."""

# No other names: a third party's DNS could resolve them to this machine.
LOOPBACK_HOSTS: Final = re.compile(
    rb"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE
)
"""The Host headers that name this machine, on any port."""
CONNECTION_CLOSE: Final = b"Connection: close\r\n"
KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"
"""It tells HTTP/1.0 that the connection stays open. In HTTP/1.1 this is the default."""

NO_STORE: Final = ((b"Cache-Control", b"no-store"),)
"""The headers of an answer that no cache may keep. They are encoded once."""

_JSON: Final = b"application/json"
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class Request(msgspec.Struct, frozen=True, gc=False):
    """One complete request.

    ``path`` and ``query`` are still percent-encoded. Header names are in lower case, and the
    values of a repeated header are joined by commas; then they are ``RepeatedHeaders``.
    ``principal`` is that of the client's certificate, or None. ``address`` is the client's IP
    address, None for a Unix socket. ``view`` is the form in which the console wants the answer; no
    client can set it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    principal: str | None = None
    address: str | None = None
    view: View | None = None

    def __repr__(self) -> str:
        """Return a text that is safe for logs.

        It omits the headers, the query and the body, because they may contain a token.
        """
        return f"Request({self.method} {self.path})"


def bearer_token(request: Request) -> bytes | None:
    """Return the token of an ``Authorization: Bearer`` header. Source: RFC 6750, section 2.1."""
    credentials = request.headers.get(b"authorization")
    if credentials is None:
        return None
    scheme, _, token = credentials.partition(b" ")
    return token.strip(b" ") if scheme.lower() == b"bearer" else None


def has_json_type(request: Request) -> bool:
    """Return True if the Content-Type is JSON.

    JSON is required because a browser sends it to another origin only after a preflight request, so
    a web page cannot ask questions from its visitor's machine.
    """
    content_type = request.headers.get(b"content-type", b"")
    # The first comparison does not change the result, but avoids parsing the usual value.
    return content_type == _JSON or content_type.partition(b";")[0].strip().lower() == _JSON


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer to one request. ``status`` must allow a body (not 1xx, 204 or 304)."""

    status: int
    body: bytes
    content_type: str = PLAIN_TEXT
    headers: tuple[tuple[bytes, bytes], ...] = ()


def text_response(status: int, reason: str) -> Response:
    """Return ``reason`` as one line of plain text.

    JSON would be wrong: OPA's Kafka plugin caches any JSON without a true result as a denial.
    """
    return Response(status=status, body=reason.encode() + b"\n")


def method_not_allowed(methods: bytes) -> Response:
    """Return the response to a request whose method is not one of ``methods``."""
    response = text_response(405, f"method not allowed: expected {methods.decode()}")
    return msgspec.structs.replace(response, headers=((b"Allow", methods),))


UNIDENTIFIED: Final = Response(
    status=401,
    body=b"expected a valid token (Authorization: Bearer ID.SECRET) or a client certificate\n",
    headers=((b"WWW-Authenticate", b"Bearer"),),
)
"""The answer to a caller without valid credentials. Source: RFC 6750, section 3."""


def encode_response(
    response: Response, *, connection: bytes = b"", bodiless: bool = False
) -> bytes:
    """Return the response's bytes.

    Args:
        connection: a complete header line (``CONNECTION_CLOSE``), or nothing.
        bodiless: leave the body out, as in an answer to HEAD.

    Raises:
        ValueError: a header contains a line break, or the status does not allow a body.
    """
    start, body = _status_and_type(response.status, response.content_type), response.body
    if response.headers is NO_STORE:
        connection += _NO_STORE
    elif response.headers:
        connection += b"".join([_field(name, value) for name, value in response.headers])
    # An answer to HEAD still announces the length of the body (RFC 9110, section 9.3.2).
    sent = b"" if bodiless else body
    return b"%bContent-Length: %d\r\n%b\r\n%b" % (start, len(body), connection, sent)


@lru_cache(maxsize=256)
def _status_and_type(status: int, content_type: str) -> bytes:
    if status < 200 or status in (204, 304):
        raise ValueError(f"a response with status {status} cannot have a body")
    phrase = HTTPStatus(status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase) + _field(b"Content-Type", content_type.encode())


def _field(name: bytes, value: bytes) -> bytes:
    if not _TOKEN.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
        raise ValueError(f"invalid header {name!r}: {value!r}")
    return b"%b: %b\r\n" % (name, value)


_NO_STORE: Final = b"".join([_field(name, value) for name, value in NO_STORE])
