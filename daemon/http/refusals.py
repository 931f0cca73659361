"""The answers of the HTTP server itself, to requests that no handler answers."""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.protocol.http.messages import (
    CONNECTION_CLOSE,
    Response,
    encode_response,
    text_response,
)

TOO_MANY: Final = encode_response(
    text_response(503, "too many connections"), connection=CONNECTION_CLOSE
)
TLS_EXPECTED: Final = encode_response(
    text_response(400, "this port expects TLS: use https://"), connection=CONNECTION_CLOSE
)
TOO_SLOW: Final = text_response(408, "request timed out")
OVERLOADED: Final = msgspec.structs.replace(
    text_response(503, "overloaded"), headers=((b"Retry-After", b"1"),)
)
NO_MEMORY: Final = text_response(503, "memory limit reached: retry later, or send smaller requests")
EXPIRED: Final = text_response(401, "the client's certificate is no longer valid")
EXPIRED_GATEWAY: Final = text_response(503, "the gateway's certificate is no longer valid")
_HOST_BYTES_SHOWN_MAX: Final = 255
INTERNAL_ERROR: Final = text_response(500, "internal error")


def encode_last(response: Response, echo: bytes) -> bytes:
    """Return a connection's last bytes, which answer an incomplete request and repeat ``echo``."""
    return encode_response(response, connection=echo + CONNECTION_CLOSE)


def refuse_host(server_name: str, host: bytes) -> Response:
    """Return the answer to a request whose Host header is not allowed."""
    found = host[:_HOST_BYTES_SHOWN_MAX].decode("ascii", "backslashreplace")
    key = f"authorizerd.{server_name.replace('_', '.')}"
    return text_response(
        403,
        f"host not allowed: {key}: expected a request for localhost, 127.0.0.1 or [::1] "
        f"on any port, found Host {escape_unprintable(found)!r}: use one of these in the URL, "
        "or let the proxy set it",
    )
