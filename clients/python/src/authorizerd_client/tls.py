"""TLS between a client and the daemon, without a socket.

**Invariant:** nothing that the caller sends leaves ``TlsSession`` before the daemon's certificate
has passed the checks of the caller's ``ssl.SSLContext``, and nothing leaves it unencrypted.

With TLS 1.3, the daemon checks a client's certificate after the client's handshake is complete. Its
refusal therefore arrives in place of the answer to the hello.
"""

from __future__ import annotations

import ssl
from typing import Final

from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TlsError
from authorizerd_client.values import Address

_RECORD_BYTES: Final = 16_384
_ALERT: Final = "ALERT_"

_CERTIFICATE_FAULTS: Final = {
    9: "the daemon's certificate is not valid yet: compare the clocks of both machines",
    10: "the daemon's certificate, or that of its CA, has expired: renew it, or correct this "
    "machine's clock",
    18: "the daemon's certificate is self-signed: to trust it, load it into the ssl.SSLContext "
    "with load_verify_locations",
    19: "the daemon's certificate was issued by an unknown CA: load the CA's certificate into the "
    "ssl.SSLContext with load_verify_locations",
    62: "the daemon's certificate is not valid for {host!r}: connect to a name in the certificate, "
    "or issue a certificate with this name",
}  # fmt: skip
"""The fault of the daemon's certificate, by OpenSSL's X509_V_ERR codes."""
_SAME_FAULT: Final = {20: 19, 21: 19, 64: 62}
"""Codes with the same fault and remedy as another code."""

_NEEDS_CERTIFICATE: Final = (
    "load the client's certificate and key into the ssl.SSLContext with load_cert_chain"
)
_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": f"the daemon requires a client certificate: {_NEEDS_CERTIFICATE}",
    "HANDSHAKE_FAILURE": "the daemon refused the handshake: it requires a client certificate "
    f"({_NEEDS_CERTIFICATE}), or it shares no cipher suite with this client",
    "UNKNOWN_CA": "the daemon does not know the CA of the client certificate: use a certificate "
    "of a CA in the daemon's truststore",
    "CERTIFICATE_EXPIRED": "the client certificate has expired: renew it",
    "CERTIFICATE_REVOKED": "the client certificate was revoked by its CA: replace it",
    "PROTOCOL_VERSION": "the daemon and this client have no TLS version in common: check the "
    "daemon's ssl.enabled.protocols and the versions of the ssl.SSLContext",
}
_REFUSED_CERTIFICATES: Final = (
    "BAD_CERTIFICATE", "UNSUPPORTED_CERTIFICATE", "CERTIFICATE_UNKNOWN", "ACCESS_DENIED",
)  # fmt: skip
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})


class TlsEndpoint:
    """The TLS of one client: how it checks the daemon, and whether the daemon has answered yet.

    Until the daemon has answered once, a connection that it closes is a ``TlsError``: one of the
    two is probably misconfigured, so trying again would only hide the reason. Afterwards, such a
    connection is lost like any other, for instance because the daemon restarts.

    Args:
        host: the name that the daemon's certificate must contain.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.context: Final = context
        self.host: Final = host
        self.has_answered = False

    def new_session(self) -> TlsSession:
        """Return the session of a new connection."""
        return TlsSession(self)


def new_endpoint(address: Address, context: ssl.SSLContext | None) -> TlsEndpoint | None:
    """Return the TLS of a client, or None if its address is without TLS.

    Args:
        context: None for a default one, which trusts the system's CAs and checks the host's name.

    Raises:
        ValueError: a context is given for an address without TLS, and the client would send its
            token in the clear; or the host is not a valid name.
        ssl.SSLError: the context is for servers.
    """
    if not address.is_tls:
        if context is not None:
            raise ValueError("tls is given, but the address is without TLS: use tls://HOST:PORT")
        return None
    endpoint = TlsEndpoint(context or ssl.create_default_context(), address.host)
    endpoint.new_session()  # raises errors of the host and the context early
    return endpoint


class TlsSession:
    """The TLS of one connection: bytes to send, and data from the bytes received.

    Send ``start_handshake``, then pass what arrives to ``shake_hands`` until ``is_established``.

    Attributes:
        is_established: True once the handshake is complete. With TLS 1.3, the daemon may refuse
            the client's certificate even then.
        has_received: True once data of the daemon has been decrypted.
    """

    def __init__(self, endpoint: TlsEndpoint) -> None:
        self.is_established = False
        self._endpoint = endpoint
        self.has_received = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = endpoint.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=endpoint.host
        )

    def start_handshake(self) -> bytes:
        """Return the first bytes of the connection."""
        self._step()
        return self._outgoing.read()

    def shake_hands(self, data: bytes | bytearray) -> bytes:
        """Add bytes of the daemon's handshake; return the bytes to send next, if any.

        Args:
            data: empty if the daemon has closed the connection.

        Raises:
            TlsError: one side refuses the other. Send ``encode_alert`` before closing.
            ConnectionLostError: the daemon has answered before, but closed this connection.
        """
        if not data:
            raise self.new_closed_error()
        self._incoming.write(data)
        self._step()
        return self._outgoing.read()

    def encode_alert(self) -> bytes:
        """Return the alert that tells the daemon why a handshake failed; it may be empty."""
        return self._outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        """Return the bytes to send for ``data``, in the order of sending.

        Raises:
            ConnectionLostError: the session is broken.
        """
        try:
            self._object.write(data)
        except ssl.SSLError as error:
            raise _new_broken_error(error) from error
        return self._outgoing.read()

    def decrypt(self, data: bytes | bytearray) -> bytes:
        """Add received bytes; return the data in them, empty if no record is complete yet.

        Args:
            data: empty if the daemon has closed the connection.

        Raises:
            TlsError: the daemon refuses the client's certificate.
            ConnectionLostError: the daemon has ended the session.
        """
        if not data:
            raise self.new_closed_error()
        self._incoming.write(data)
        return self.decrypt_pending()

    def decrypt_pending(self) -> bytes:
        """Return the data that arrived together with the end of the handshake; see ``decrypt``."""
        decrypted = bytearray()
        try:
            while record := self._object.read(_RECORD_BYTES):
                decrypted += record
            if not decrypted:  # the daemon has ended the session
                raise self.new_closed_error()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if self.has_received:
                raise _new_broken_error(error) from error
            raise _new_tls_error(error, self._endpoint.host) from error
        if decrypted:
            self.has_received = self._endpoint.has_answered = True
        return bytes(decrypted)

    def new_closed_error(self) -> AuthorizerdError:
        """Return the error for a connection that the daemon has closed."""
        if self._endpoint.has_answered:
            return ConnectionLostError("the daemon closed the connection")
        if self.is_established:
            return TlsError(
                "the daemon closed the connection after the handshake: it may require another "
                "client certificate; its log has the reason"
            )
        return TlsError(
            "the daemon closed the connection during the handshake: it may not speak TLS at this "
            "address (then use tcp://HOST:PORT), or refuse the connection; its log has the reason"
        )

    def _step(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise _new_tls_error(error, self._endpoint.host) from error
        self.is_established = True


def _new_broken_error(error: ssl.SSLError) -> ConnectionLostError:
    return ConnectionLostError(f"the connection broke: {error.reason or error}")


def _new_tls_error(error: ssl.SSLError, host: str) -> TlsError:
    """Return the error, whose text gives the reason and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        code = _SAME_FAULT.get(error.verify_code, error.verify_code)
        unknown = f"the daemon's certificate is invalid: {error.verify_message}"
        return TlsError(_CERTIFICATE_FAULTS.get(code, unknown).format(host=host))
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        return TlsError("the daemon does not speak TLS at this address: use tcp://HOST:PORT")
    _, is_alert, alert = reason.partition(_ALERT)
    if alert in _ALERTS:
        return TlsError(_ALERTS[alert])
    name = alert.replace("_", " ").lower()
    if alert in _REFUSED_CERTIFICATES:
        return TlsError(
            f"the daemon refuses the client certificate ({name}): its log has the reason"
        )
    if is_alert:
        return TlsError(f"the daemon refused the handshake ({name}): its log has the reason")
    return TlsError(f"the TLS handshake failed: {reason}")
