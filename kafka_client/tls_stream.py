"""TLS to a Kafka listener, and explanations of failed handshakes.

**Invariant:** the server's certificate is verified, and matched against the host, before anything
is sent. To explain a rejected certificate, it is fetched again on a connection without
verification, on which nothing else is sent.

Source: Kafka 4.3 SslTransportLayer; RFC 8446 for alerts.
"""

from __future__ import annotations

import re
import ssl
from typing import Final

import trio

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import (
    Cause,
    ConnectionFailedError,
    HandshakeFailedError,
    Stage,
    UnservedError,
)
from authorizerd.kafka_client.mismatch import find_cleartext_protocol
from authorizerd.kafka_client.transport import OpenStream
from authorizerd.tls.errors import TlsError
from authorizerd.tls.stream import TlsStream

FETCH_TIMEOUT_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 0.75
"""If a handshake takes longer, a second connection probes the listener without TLS."""

_ALERT: Final = re.compile("(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(?P<name>[A-Z_]+)")
_ABOUT_CERTIFICATES: Final = frozenset(
    (
        *("ACCESS_DENIED", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "CERTIFICATE_REQUIRED"),
        *("CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN", "DECRYPT_ERROR", "UNKNOWN_CA"),
        "UNSUPPORTED_CERTIFICATE",
    )
)
_ABOUT_PARAMETERS: Final = frozenset(
    (
        *("HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY", "PROTOCOL_VERSION"),
        *("NO_CIPHERS_AVAILABLE", "NO_PROTOCOLS_AVAILABLE", "UNSUPPORTED_PROTOCOL"),
    )
)


class TlsOpener:
    """Open TLS connections.

    Args:
        context: see ``tls.context.new_client_context``.
        open_tcp: opens the TCP connections that carry them.
    """

    def __init__(
        self, context: ssl.SSLContext, open_tcp: OpenStream, *, has_certificate: bool
    ) -> None:
        self._context = context
        self._open_tcp = open_tcp
        self._has_certificate = has_certificate

    async def open(self, address: Address) -> trio.abc.HalfCloseableStream:
        """Connect, and verify the server's certificate.

        Raises:
            HandshakeFailedError: one side rejects the other's certificate or parameters.
            UnservedError: the server refuses or closes the connection, or does not speak TLS.
            ConnectionFailedError: the connection failed in another way.
        """
        transport = await self._open_tcp(address)
        stream = _Stream(transport, self._context, address, has_certificate=self._has_certificate)
        try:
            await self._shake_hands(stream, address)
        except TlsError as error:
            await trio.aclose_forcefully(stream)
            raise await self._explain(address, error) from error
        except (trio.BrokenResourceError, OSError) as error:
            await trio.aclose_forcefully(stream)
            raise _closed(address) from error
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    async def _shake_hands(self, stream: TlsStream, address: Address) -> None:
        """Do the handshake, and give up if the listener turns out not to use TLS.

        A listener without TLS may read the ClientHello as the size of a large request, and wait
        for the rest of that request.
        """
        is_cleartext = False

        async def look_for_cleartext() -> None:
            nonlocal is_cleartext
            await trio.sleep(PATIENCE_SECONDS)
            if await find_cleartext_protocol(address, self._open_tcp) is not None:
                is_cleartext = True
                nursery.cancel_scope.cancel()

        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_for_cleartext)
            try:
                await stream.handshake()
            except (TlsError, trio.BrokenResourceError, OSError) as error:
                failure = error  # the nursery would wrap it in a group
            nursery.cancel_scope.cancel()
        if is_cleartext:
            text = f"{address}: the server does not answer with TLS"
            raise UnservedError(text, address, Stage.HANDSHAKE)
        if failure is not None:
            raise failure

    async def _explain(self, address: Address, error: TlsError) -> Exception:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            # Loading it takes long, because it reads certificates.
            from authorizerd.kafka_client.certificate_faults import explain_certificate

            certificate = await fetch_certificate(address, self._open_tcp)
            return explain_certificate(address, cause, certificate)
        if isinstance(cause, ssl.SSLError):
            known = _explain_alert(address, cause, has_certificate=self._has_certificate)
            text = f"{address}: the TLS handshake failed: {error}"
            return known or UnservedError(text, address, Stage.HANDSHAKE)
        return _closed(address)


async def fetch_certificate(address: Address, open_tcp: OpenStream) -> bytes | None:
    """Return the unverified DER certificate of a server, or None if it presents none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with trio.move_on_after(FETCH_TIMEOUT_SECONDS):
        try:
            transport = await open_tcp(address)
        except ConnectionFailedError:
            return None
        stream = TlsStream(
            transport, context, server_side=False, server_hostname=_server_name(address)
        )
        try:
            await stream.handshake()
            return stream.peer_certificate
        except (TlsError, trio.BrokenResourceError, OSError):
            return None
        finally:
            await trio.aclose_forcefully(stream)
    return None


class _Stream(TlsStream):
    """A client stream whose errors name the alert that ended it.

    With TLS 1.3, a server rejects the client's certificate only after the handshake.
    """

    def __init__(
        self,
        transport: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        address: Address,
        *,
        has_certificate: bool,
    ) -> None:
        name = _server_name(address)
        super().__init__(transport, context, server_side=False, server_hostname=name)
        self._address = address
        self._has_certificate = has_certificate

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes.

        Raises:
            HandshakeFailedError: the server rejects the client's certificate.
            BrokenResourceError: the connection broke in another way.
        """
        try:
            return await super().receive_some(max_bytes)
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLError):
                known = _explain_alert(
                    self._address, cause, has_certificate=self._has_certificate, is_late=True
                )
                if known is not None:
                    raise known from error
            raise


def _server_name(address: Address) -> str:
    return address.host.partition("%")[0]  # no certificate contains an IPv6 scope


def _closed(address: Address) -> UnservedError:
    text = f"{address}: the server closed the connection during the TLS handshake"
    return UnservedError(text, address, Stage.HANDSHAKE)


def _explain_alert(
    address: Address, error: ssl.SSLError, *, has_certificate: bool, is_late: bool = False
) -> HandshakeFailedError | None:
    """Return the error for an alert of the server, or None if the alert needs no explanation."""
    reason = error.reason or ""
    match = _ALERT.fullmatch(reason)
    name = reason if match is None else match["name"]
    if match is not None and name in _ABOUT_CERTIFICATES:
        alert = name.lower()
        if has_certificate and name != "CERTIFICATE_REQUIRED":
            text = f"{address}: the server rejects the client's certificate (alert {alert})"
            return HandshakeFailedError(text, Cause.CLIENT_CERTIFICATE_REJECTED, is_late=is_late)
        text = f"{address}: the server requires a client certificate (alert {alert})"
        return HandshakeFailedError(text, Cause.CLIENT_CERTIFICATE_REQUIRED, is_late=is_late)
    if name in _ABOUT_PARAMETERS:
        shown = name.lower().replace("_", " ")
        text = "client and server have no TLS version or cipher suite in common"
        if name == "HANDSHAKE_FAILURE" and not has_certificate:
            text += ", or the server requires a client certificate"
        text = f"{address}: {text} ({shown})"
        return HandshakeFailedError(text, Cause.TLS_PARAMETERS, is_late=is_late)
    return None
