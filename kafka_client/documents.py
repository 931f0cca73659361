"""Read a document of an issuer: its public keys, a token, from HTTPS or from a file.

**Invariant:** a reading is bounded in time and in size, and sends nothing before the server's
certificate is verified. Redirections are not followed. No error contains what was sent, or the
query of the URL.

Why not httpx or urllib? httpx brings nine packages, and urllib blocks a thread for as long as a
server sends a byte from time to time.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import trio

from authorizerd.config.oauth_url import DocumentUrl
from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.kafka_client.transport import open_tcp
from authorizerd.tls.errors import StoreError, TlsError
from authorizerd.tls.stream import TlsStream

DOCUMENT_BYTES_MAX: Final = 1 << 20
_RECEIVE_BYTES: Final = 64 * 1024
_HEAD_END: Final = b"\r\n\r\n"


class DocumentError(Exception):
    """A document could not be read. The text names it and the reason."""


class Limits(NamedTuple):
    """How long connecting may take, and how long everything after it, in milliseconds."""

    connect_ms: int = 10_000
    read_ms: int = 10_000


class HttpAnswer(NamedTuple):
    """The status and the body of an answer."""

    status: int
    body: bytes


async def read_file(url: DocumentUrl) -> bytes:
    """Return the content of a file.

    Raises:
        DocumentError: it cannot be read, or is too large.
    """
    assert url.path is not None
    path = url.path

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(DOCUMENT_BYTES_MAX + 1)

    try:
        content = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror or error}") from None
    if len(content) > DOCUMENT_BYTES_MAX:
        raise DocumentError(f"{path}: expected at most {DOCUMENT_BYTES_MAX} bytes")
    return content


async def exchange(
    url: DocumentUrl,
    tls: TlsSettings | None,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is immutable
) -> HttpAnswer:
    """Return the answer to a GET, or to a POST if there is a ``body``.

    Raises:
        DocumentError: there is no valid answer, or the server is not the right one.
    """
    from http.client import HTTPException  # it takes long to load, and most programs need none

    try:
        with trio.move_on_after(limits.connect_ms / 1000) as connecting:
            stream = await _connect(url, tls)
        if connecting.cancelled_caught:
            raise DocumentError(f"{url.text}: not connected within {limits.connect_ms} ms")
        async with stream:
            with trio.move_on_after(limits.read_ms / 1000):
                await stream.send_all(_write_request(url, headers, body))
                return await _read_answer(stream)
            raise DocumentError(f"{url.text}: no complete answer within {limits.read_ms} ms")
    except (ConnectionFailedError, TlsError, StoreError) as error:
        raise DocumentError(f"{url.text}: {error}") from None
    except (trio.BrokenResourceError, OSError):
        raise DocumentError(f"{url.text}: the connection broke") from None
    except (HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise DocumentError(f"{url.text}: expected an HTTP answer: {reason[:100]!r}") from None


async def _connect(url: DocumentUrl, tls: TlsSettings | None) -> trio.abc.HalfCloseableStream:
    transport = await open_tcp(Address(url.host, url.port))
    if not url.is_tls:
        return transport
    # Imported only here, since the TLS library takes long to load.
    from authorizerd.tls.context import new_client_context
    from authorizerd.tls.material import read_material

    assert tls is not None, "settings for https always have TLS"
    try:
        # The truststore is read each time, since connections are rare and it may be replaced.
        context = await trio.to_thread.run_sync(
            lambda: new_client_context(tls, read_material(tls)), abandon_on_cancel=True
        )
        stream = TlsStream(transport, context, server_side=False, server_hostname=url.host)
        await stream.handshake()
    except BaseException:
        await trio.aclose_forcefully(transport)
        raise
    return stream


def _write_request(url: DocumentUrl, headers: Mapping[str, str], body: bytes | None) -> bytes:
    host = f"[{url.host}]" if ":" in url.host else url.host
    default = 443 if url.is_tls else 80
    lines = {
        "Host": host if url.port == default else f"{host}:{url.port}",
        "Connection": "close",
        "User-Agent": "authorizerd",
        **headers,
    }
    if body is not None:
        lines["Content-Length"] = str(len(body))
    method = "GET" if body is None else "POST"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {url.target} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")


async def _read_answer(stream: trio.abc.HalfCloseableStream) -> HttpAnswer:
    received = bytearray()
    while data := await stream.receive_some(_RECEIVE_BYTES):
        received += data
        if len(received) > DOCUMENT_BYTES_MAX:
            raise ValueError("it is too large")
        # Do not wait for the end of the connection: some servers keep it open.
        answer = _parse_answer(received, is_complete=False)
        if answer is not None:
            return answer
    answer = _parse_answer(received, is_complete=True)
    assert answer is not None
    return answer


class _Received:
    """What ``HTTPResponse`` takes for a socket."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parse_answer(received: bytearray, *, is_complete: bool) -> HttpAnswer | None:
    """Return the answer, or None if more of it may follow.

    Raises:
        HTTPException, ValueError: it is malformed, or ends too early.
    """
    if not is_complete and _HEAD_END not in received:
        return None
    from http.client import HTTPResponse, IncompleteRead

    # HTTPResponse uses nothing of a socket but its file.
    response = HTTPResponse(cast(socket.socket, _Received(received)))
    response.begin()
    if not is_complete and response.length is None and not response.chunked:
        return None  # the end of the connection is the end of the body
    try:
        return HttpAnswer(response.status, response.read())
    except IncompleteRead:
        if is_complete:
            raise
        return None
