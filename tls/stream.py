"""A TLS connection over another stream.

**Invariant:** handshakes run in threads, because a signature takes longer than a turn of the event
loop may. After the handshake, each receive yields to other tasks, and each send writes at once.

Why not trio.SSLStream? It runs handshakes on the event loop, and takes locks for each request.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from typing import Final

import trio

from authorizerd.tls.errors import NotTlsError, TlsError

RECEIVE_BYTES: Final = 64 * 1024
_HANDSHAKE_BYTES: Final = 16 * 1024  # a peer that is not known yet gets little memory
RECORD_BYTES_MAX: Final = 64 * 1024
"""The most that is encrypted in one step; longer data is sent in several."""
HANDSHAKES_AT_ONCE_MAX: Final = max(1, min(4, (os.cpu_count() or 2) - 1))
"""The number of threads for handshakes. One core is left for the event loop."""

_HANDSHAKE_RECORD: Final = 0x16
_ALERT_RECORD: Final = 0x15

_HANDSHAKES: Final = trio.CapacityLimiter(HANDSHAKES_AT_ONCE_MAX)


class TlsStream(trio.abc.HalfCloseableStream):
    """A TLS connection; call ``handshake`` first.

    Args:
        transport: the stream that carries the encrypted bytes. The TLS stream owns it.
        server_hostname: for clients: the name that the server's certificate must have.
    """

    def __init__(
        self,
        transport: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        self._transport = transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's verified certificate in DER, or None."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """The negotiated version, such as TLSv1.3."""
        return self._tls.version() or ""

    async def handshake(self) -> None:
        """Agree on keys with the peer, and verify its certificate.

        Raises:
            NotTlsError: the peer does not speak TLS.
            TlsError: the handshake failed; the peer has been told why, as far as TLS can.
            BrokenResourceError: the connection broke.
        """
        try:
            if self._tls.server_side:  # until the client's first message, OpenSSL has nothing to do
                await self._read_first()
            while True:
                try:
                    # Not abandoned on cancellation: the thread uses the connection's state.
                    await trio.to_thread.run_sync(self._tls.do_handshake, limiter=_HANDSHAKES)
                    break
                except ssl.SSLWantReadError:
                    await self._flush()
                    await self._read_more()
        except ssl.SSLError as error:
            with suppress(trio.BrokenResourceError):
                await self._flush()  # the alert
            raise TlsError(_describe(error)) from error
        await self._flush()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes; empty if the peer has ended the connection.

        Raises:
            BrokenResourceError: the connection broke.
        """
        has_waited = False
        while True:
            if self._incoming.pending or self._tls.pending():
                try:
                    data = self._tls.read(max_bytes or RECEIVE_BYTES)
                except ssl.SSLWantReadError:
                    pass  # a part of a record
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLError as error:
                    raise trio.BrokenResourceError(_describe(error)) from error
                else:
                    if not has_waited:
                        await trio.lowlevel.checkpoint()
                    return data
                if self._outgoing.pending:
                    await self._flush()  # such as the answer to a key update
            received = await self._transport.receive_some(RECEIVE_BYTES)
            if not received:
                return b""
            has_waited = True
            self._incoming.write(received)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data``.

        Raises:
            BrokenResourceError: the connection broke.
        """
        view = memoryview(data)
        try:
            for start in range(0, len(view), RECORD_BYTES_MAX):
                self._tls.write(view[start : start + RECORD_BYTES_MAX])
                await self._transport.send_all(self._outgoing.read())
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(_describe(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Tell the peer that no more data follows."""
        # The error means that the peer has not ended its direction, or the connection is broken.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        await self._transport.send_eof()

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._transport.send_all(self._outgoing.read())

    async def _read_first(self) -> None:
        received = await self._read_more()
        if received[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD):
            raise NotTlsError("the peer does not speak TLS")

    async def _read_more(self) -> bytes:
        received = bytes(await self._transport.receive_some(_HANDSHAKE_BYTES))
        if not received:
            raise TlsError("the peer closed the connection during the handshake")
        self._incoming.write(received)
        return received


def _describe(error: ssl.SSLError) -> str:
    """Return the reason of an error, without OpenSSL's source lines."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ")
