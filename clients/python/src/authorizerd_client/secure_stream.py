"""A connection to a daemon, with TLS if its address says so."""

from __future__ import annotations

from contextlib import suppress

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import TlsError
from authorizerd_client.runtime import Runtime, Stream
from authorizerd_client.tls import TlsSession


async def open_stream(runtime: Runtime, daemon: Daemon) -> Stream:
    """Connect to the daemon, and do the TLS handshake if there is one.

    Raises:
        OSError: the daemon could not be reached.
        TlsError: one side refuses the other.
        ConnectionLostError: the daemon has answered before, but closed this connection.
    """
    stream = await runtime.connect(daemon.address)
    if daemon.tls is None:
        return stream
    try:
        secured = SecureStream(stream, daemon.tls.new_session())
        await secured.shake_hands()
    except BaseException:
        stream.close()
        raise
    return secured


class SecureStream:
    """A stream inside TLS. If it breaks, it raises a ``TlsError`` or ``ConnectionLostError``."""

    def __init__(self, stream: Stream, session: TlsSession) -> None:
        self._stream = stream
        self._session = session
        self._early = b""

    async def shake_hands(self) -> None:
        session = self._session
        try:
            to_send = session.start_handshake()
            while not session.is_established:
                await self._stream.send_all(to_send)
                to_send = session.shake_hands(await self._stream.receive())
            await self._stream.send_all(to_send)
        except OSError as error:
            raise session.new_closed_error() from error
        except TlsError:
            with suppress(OSError):
                await self._stream.send_all(session.encode_alert())
            raise
        self._early = session.decrypt_pending()

    async def send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(self._session.encrypt(data))
        except OSError as error:
            if not self._session.has_received:
                # If the daemon refused the client's certificate and closed, its alert has arrived.
                # No other task reads before the first answer.
                await self.receive()
            raise self._session.new_closed_error() from error

    async def receive(self) -> bytes:
        data, self._early = self._early, b""
        while not data:  # a TLS record is incomplete
            try:
                received = await self._stream.receive()
            except OSError as error:
                raise self._session.new_closed_error() from error
            data = self._session.decrypt(received)
        return data

    def close(self) -> None:
        self._stream.close()
