"""TLS on one port: handshakes with the newest certificate, and the clients' identities.

**Invariant:** a client certificate gives an identity only if OpenSSL has verified it, in the
handshake of the same connection or of the one whose session it resumes, with the truststore in use.
Replacing the certificates affects only new handshakes. No earlier session can be resumed then.
"""

from __future__ import annotations

import ssl
import time
from contextlib import nullcontext

import msgspec
import trio
from cryptography import x509

from authorizerd.config.errors import PrincipalMappingError
from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.tls import ClientAuth, TlsSettings
from authorizerd.tls.context import new_retrying_context, new_server_context, signs_quickly
from authorizerd.tls.distinguished_name import rfc2253, subject_name
from authorizerd.tls.errors import TlsError
from authorizerd.tls.first_hello import BegunHandshake, answer_hello
from authorizerd.tls.material import CERTIFICATE_ERRORS, Material
from authorizerd.tls.stream import Quick, TlsStream, Working


class Identity(msgspec.Struct, frozen=True):
    """The identity that a client's certificate proves, valid between two wall-clock times.

    The times are in seconds since 1970.
    """

    principal: str
    not_before: float
    not_after: float

    def is_valid(self, now: float) -> bool:
        """Return True if the certificate is valid at the wall-clock time ``now``."""
        return self.not_before <= now < self.not_after


class PreparedTls(msgspec.Struct, frozen=True):
    """A port's certificates, ready for handshakes; ``chain`` and ``trusted`` are DER.

    During a flood of hellos, handshakes begin with ``retrying``.
    """

    context: ssl.SSLContext
    retrying: ssl.SSLContext
    quick: Quick
    chain: tuple[bytes, ...]
    trusted: frozenset[bytes]


AnsweredHello = tuple[TlsSettings, PreparedTls, BegunHandshake]


class TlsServer:
    """TLS on one port; settings and certificates can be replaced while the port is open."""

    def __init__(self, settings: TlsSettings, prepared: PreparedTls) -> None:
        self.settings = settings
        self.current = prepared

    @property
    def identifies_clients(self) -> bool:
        """True if clients are asked for a certificate."""
        return self.settings.client_auth is not ClientAuth.NONE

    def use(self, settings: TlsSettings, prepared: PreparedTls) -> bool:
        """Use new settings and certificates for new connections.

        Return True if clients must be identified again: a CA was removed from the truststore, or
        the mapping rules changed.
        """
        before = self.settings, self.current
        self.settings, self.current = settings, prepared
        return self._identifies_otherwise(*before)

    def _identifies_otherwise(self, settings: TlsSettings, prepared: PreparedTls) -> bool:
        """Return True if clients must be identified again with these settings and certificates."""
        has_lost_ca = bool(prepared.trusted - self.current.trusted)
        return has_lost_ca or settings.principal_mapping != self.settings.principal_mapping

    @property
    def begins_quickly(self) -> bool:
        """True if the usual hello is answered on the event loop."""
        return self.current.quick is Quick.WHOLE

    def answer(self, opening: bytes, *, is_retried: bool) -> tuple[AnsweredHello, int] | None:
        """Answer a new client's hello; see ``answer_hello``.

        Return None if that needs a thread, or if the client cannot be asked for a second hello.
        """
        if not (is_retried or self.begins_quickly):
            return None
        context = self.current.retrying if is_retried else self.current.context
        answered = answer_hello(context, opening, is_retried=is_retried)
        if answered is None:
            return None
        begun, size = answered
        return (self.settings, self.current, begun), size

    async def accept(
        self,
        transport: trio.abc.HalfCloseableStream,
        working: Working = nullcontext,
        *,
        answered: AnsweredHello | None = None,
    ) -> tuple[TlsStream, Identity | None]:
        """Return the encrypted stream after its handshake, and the client's identity.

        Args:
            working: see ``TlsStream.handshake``.
            answered: what ``answer`` returned for this connection.

        Raises:
            TlsError: the handshake failed, or no mapping rule gives the client a principal.
            BrokenResourceError: the connection broke.
        """
        settings, prepared, begun = answered or (self.settings, self.current, None)
        stream = TlsStream(
            transport, prepared.context, server_side=True, begun=begun, quick=prepared.quick
        )
        await stream.handshake(working)
        certificate = stream.peer_certificate
        if settings.client_auth is ClientAuth.NONE or certificate is None:
            return stream, None
        identity = identify(certificate, settings.principal_mapping)
        # When a session is resumed, OpenSSL does not verify the certificate again.
        if not identity.is_valid(time.time()):
            raise TlsError("the client's certificate has expired, or is not valid yet")
        if self._identifies_otherwise(settings, prepared):
            raise TlsError("the truststore was replaced during the handshake")
        return stream, identity


def prepare_tls(settings: TlsSettings, material: Material) -> PreparedTls:
    """Return a port's certificates, ready for handshakes. This takes about 40 ms of CPU time.

    Raises:
        StoreError: OpenSSL rejects them.
    """
    context = new_server_context(settings, material)
    retrying = new_retrying_context(settings, material)
    quick = Quick.NOTHING
    if settings.client_auth is ClientAuth.NONE and "TLSv1.3" in settings.protocols:
        quick = Quick.WHOLE if signs_quickly(material) else Quick.END
    return PreparedTls(context, retrying, quick, material.chain, frozenset(material.trusted))


def identify(certificate: bytes, mapping: PrincipalMapping) -> Identity:
    """Return the identity in a verified certificate in DER.

    Raises:
        TlsError: its subject is malformed, or no rule maps it.
    """
    try:
        name = mapping.apply(rfc2253(subject_name(certificate)))
        parsed = x509.load_der_x509_certificate(certificate)
        not_before, not_after = parsed.not_valid_before_utc, parsed.not_valid_after_utc
    except (*CERTIFICATE_ERRORS, PrincipalMappingError) as error:
        raise TlsError(f"cannot map the client's certificate to a principal: {error}") from None
    return Identity(f"User:{name}", not_before.timestamp(), not_after.timestamp())
