"""A TLS connection over another stream.

**Invariant:** the steps of a handshake run in threads, because a signature may take longer than a
turn of the event loop is allowed to. Only steps that are known to be quick run on the event loop: a
thread would double their cost. After the handshake, each received record is decrypted in a separate
turn, because even a small record can be expensive (KeyUpdate). Each send writes at once.

Why not trio.SSLStream? It runs handshakes on the event loop, and takes locks for each request.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum, auto
from typing import Final, TypeAlias

import trio

from authorizerd.tls.client_hello import QUICK_BYTES_MAX, ClientHelloCheck, is_last_answer
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.first_hello import BegunHandshake

Working: TypeAlias = Callable[[], AbstractContextManager[None]]

RECEIVE_BYTES: Final = 64 * 1024
_HANDSHAKE_BYTES: Final = 16 * 1024  # unauthenticated peers get little memory
RECORD_BYTES_MAX: Final = 64 * 1024
"""Maximum number of bytes encrypted in one step; longer data takes several steps."""
HANDSHAKES_AT_ONCE_MAX: Final = max(1, min(4, (os.cpu_count() or 2) - 1))
"""The number of threads for handshakes. One core is left for the event loop."""

RECORDS_WITHOUT_DATA_MAX: Final = 32
"""Maximum number of consecutive records without data, such as key updates."""

_HANDSHAKE_RECORD: Final = 0x16
_ALERT_RECORD: Final = 0x15
_RECORD_TYPES: Final = range(0x14, 0x18)
_VERSION_MAJOR: Final = 3
_HEADER_BYTES: Final = 5  # type, version and length
_RECEIVED_RECORD_BYTES_MAX: Final = _HEADER_BYTES + 2**14 + 2048

_HANDSHAKES: Final = trio.CapacityLimiter(HANDSHAKES_AT_ONCE_MAX)


class Quick(Enum):
    """Which steps of a server's handshake are quick, if the client's hello is (``is_quick``)."""

    NOTHING = auto()
    """The server verifies client certificates, with keys that clients choose, or has no TLS 1.3."""
    END = auto()
    """What the client sends last."""
    WHOLE = auto()
    """The server's signature too."""


class TlsStream(trio.abc.HalfCloseableStream):
    """A TLS connection; call ``handshake`` first.

    Args:
        transport: the stream that carries the encrypted bytes. The TLS stream owns it.
        server_hostname: for clients: the name that the server's certificate must have.
        begun: for servers: a handshake to continue, whose first hello was answered.
        quick: for servers: the steps that need no thread.
    """

    def __init__(
        self,
        transport: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
        begun: BegunHandshake | None = None,
        quick: Quick = Quick.NOTHING,
    ) -> None:
        self._transport = transport
        self._unread = bytearray()
        self._has_begun = begun is not None
        self._quick = quick
        self._ends_quickly = False
        self._hello_check: ClientHelloCheck | None
        if begun is not None:
            self._incoming, self._outgoing = begun.incoming, begun.outgoing
            self._hello_check, self._tls = begun.check, begun.tls
            if not begun.is_retried:
                self._end_hello()
            return
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._hello_check = ClientHelloCheck() if server_side else None
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )

    @property
    def transport(self) -> trio.abc.HalfCloseableStream:
        """The stream that carries the encrypted bytes."""
        return self._transport

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's verified certificate in DER, or None."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """The negotiated version, such as TLSv1.3."""
        return self._tls.version() or ""

    async def handshake(self, working: Working = nullcontext) -> None:
        """Agree on keys with the peer, and verify its certificate.

        Args:
            working: entered while a step runs in a thread or waits for one, but not while it waits
                for the peer.

        Raises:
            NotTlsError: the peer does not speak TLS.
            TlsError: the handshake failed. If OpenSSL has an alert for the reason, the alert is
                sent.
            BrokenResourceError: the connection broke.
        """
        if self._has_begun:
            await self._flush()  # what the socket did not accept of the answer
            await self._read_records()
        elif self._tls.server_side:  # before the client's first record, OpenSSL has nothing to do
            await self._read_first()
        while True:
            if self._is_quick:
                error = self._step()
            else:
                # Not abandoned on cancellation: the thread uses the connection's state.
                with working():
                    error = await trio.to_thread.run_sync(self._step, limiter=_HANDSHAKES)
            if error is None:
                break
            if not isinstance(error, ssl.SSLWantReadError):
                with suppress(trio.BrokenResourceError):
                    await self._flush()  # the alert
                raise TlsError(_describe(error)) from error
            await self._flush_handshake()
            await self._read_records()
        self._hello_check = None
        self._unread[:0] = self._incoming.read()  # records that the peer has sent early
        await self._flush()

    @property
    def _is_quick(self) -> bool:
        """True if the next step takes less than half a millisecond."""
        if self._incoming.pending > QUICK_BYTES_MAX:
            return False
        if self._hello_check is None:
            return self._ends_quickly
        return self._quick is Quick.WHOLE and self._hello_check.is_quick

    def _end_hello(self) -> None:
        """Note that the client's hello is accepted."""
        check, self._hello_check = self._hello_check, None
        if check is not None:
            self._ends_quickly = self._quick is not Quick.NOTHING and check.is_quick

    def _step(self) -> ssl.SSLError | None:
        """Do a step of the handshake; return None when it is complete, else OpenSSL's error.

        The error is returned without its traceback, whose frames would refer back to the error: a
        reference cycle that contains this stream (``daemon.process.gc_control``).
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLError as error:
            return error.with_traceback(None)
        return None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes; empty if the peer has ended the connection.

        Raises:
            BrokenResourceError: the connection broke.
        """
        has_waited, records_without_data = False, 0
        while True:
            if not self._tls.pending() and not self._pass_on_record():
                received = await self._transport.receive_some(RECEIVE_BYTES)
                if not received:
                    return b""
                has_waited = True
                self._unread += received
                continue
            try:
                data = self._tls.read(max_bytes or RECEIVE_BYTES)
            except ssl.SSLWantReadError:
                records_without_data += 1
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLError as error:
                raise trio.BrokenResourceError(_describe(error)) from error
            else:
                if not has_waited:
                    await trio.lowlevel.checkpoint()
                return data
            if records_without_data > RECORDS_WITHOUT_DATA_MAX:
                raise trio.BrokenResourceError("too many records without data")
            await self._flush()  # such as the answer to a key update
            await trio.lowlevel.checkpoint()
            has_waited = True

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
        # An error means that the peer may still send, or that the connection is broken.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        await self._transport.send_eof()

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._transport.send_all(self._outgoing.read())

    async def _flush_handshake(self) -> None:
        records = self._outgoing.read()
        if records:
            if is_last_answer(records):
                self._end_hello()
            await self._transport.send_all(records)

    def _pass_on_record(self) -> bool:
        """Give OpenSSL the next record if all of it has arrived; otherwise return False.

        Raises:
            TlsError: see ``ClientHelloCheck``.
        """
        unread = self._unread
        if len(unread) < _HEADER_BYTES:
            return False
        size = _HEADER_BYTES + int.from_bytes(unread[_HEADER_BYTES - 2 : _HEADER_BYTES])
        is_record = unread[0] in _RECORD_TYPES and unread[1] == _VERSION_MAJOR
        if not is_record or size > _RECEIVED_RECORD_BYTES_MAX:
            size = len(unread)  # OpenSSL reports the error
        elif len(unread) < size:
            return False
        if self._hello_check is not None:
            self._hello_check.check(unread[:size])
        self._incoming.write(unread[:size])
        del unread[:size]
        return True

    async def _read_records(self) -> None:
        """Give OpenSSL the complete records that have arrived, and wait until there is one.

        Incomplete records wait, so that a peer that sends single bytes does not occupy a thread for
        each byte.
        """
        while not self._pass_on_record():
            await self._read_more()
        while self._pass_on_record():
            pass

    async def _read_first(self) -> None:
        await self._read_more()
        if self._unread[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD):
            raise NotTlsError("the peer does not speak TLS")
        await self._read_records()

    async def _read_more(self) -> None:
        received = await self._transport.receive_some(_HANDSHAKE_BYTES)
        if not received:
            raise TlsError("the peer closed the connection during the handshake")
        self._unread += received


def _describe(error: ssl.SSLError) -> str:
    """Return the reason of an error, without OpenSSL's file and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ")
