"""Answers whose bodies are written over time, in parts.

**Invariant:** the peer can distinguish a complete body from one that was cut off. In HTTP/1.1, each
part is a chunk, and an empty chunk ends the body. In HTTP/1.0, which has no chunks, the body ends
with the connection.

Source: RFC 9112, sections 6.3 and 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from authorizerd.protocol.http.messages import PLAIN_TEXT, Request, Response, encode_response

LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Send the next part of a body. Return once the socket has accepted it, so at most one part waits.

Connections take turns to send. An empty part only waits for the turn in which the next part is
sent.
"""


def _do_nothing() -> None:
    pass


class StreamedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose body ``write`` sends in parts.

    Attributes:
        write: sends the body. An exception cuts the body off and closes the connection. It is not
            called for HEAD, or if the connection ends first.
        close: called exactly once, at the end, also if ``write`` is not called.
        is_live: True if the body continues until the peer or the server ends it. A draining server
            then cancels ``write`` between two parts and completes the body.
        stall_seconds: how long a peer may take to accept one part.
    """

    write: Callable[[Send], Awaitable[None]]
    close: Callable[[], None] = _do_nothing
    status: int = 200
    content_type: str = PLAIN_TEXT
    headers: tuple[tuple[bytes, bytes], ...] = ()
    is_live: bool = False
    stall_seconds: float = math.inf


AnyResponse: TypeAlias = Response | StreamedResponse
Handler: TypeAlias = Callable[[Request], AnyResponse | Awaitable[AnyResponse]]
"""Returns the answer to a request, or an awaitable of it, which the caller awaits at once."""


async def complete(answer: AnyResponse | Awaitable[AnyResponse]) -> AnyResponse:
    """Return a handler's answer; wait for it if it is an awaitable."""
    return answer if isinstance(answer, (Response, StreamedResponse)) else await answer


def encode_streamed_head(response: StreamedResponse, *, connection: bytes, chunked: bool) -> bytes:
    """Return the head of an answer without a Content-Length.

    Args:
        connection: a complete header line, or nothing.

    Raises:
        ValueError: as ``encode_response``.
    """
    empty = Response(
        status=response.status,
        body=b"",
        content_type=response.content_type,
        headers=response.headers,
    )
    before, after = encode_response(empty, connection=connection).split(b"Content-Length: 0\r\n", 1)
    return before + (_CHUNKED if chunked else b"") + after


def encode_chunk(data: bytes) -> bytes:
    """Return one chunk. ``data`` must not be empty: an empty chunk would end the body."""
    assert data, "an empty chunk would end the body"
    return b"%x\r\n%b\r\n" % (len(data), data)
