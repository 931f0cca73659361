"""OpenSSL contexts for servers and clients.

**Invariant:** a private key reaches OpenSSL encrypted and through memory, never through disk.
Compression and renegotiation are off, and servers offer only suites with forward secrecy.
"""

from __future__ import annotations

import os
import ssl
from secrets import token_hex
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
)

from authorizerd.config.tls import ClientAuth, TlsSettings
from authorizerd.tls.client_hello import RETRY_CURVE
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import Material

SUITES_OF_TLS_1_2: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20"
"""OpenSSL's text for the suites with forward secrecy and authenticated encryption."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def new_server_context(settings: TlsSettings, material: Material) -> ssl.SSLContext:
    """Return a server context, with random keys for session tickets of its own.

    A session can only be resumed with the context in which it began. OpenSSL does not verify the
    client's certificate again then. Building a context takes milliseconds of CPU time.

    Raises:
        StoreError: OpenSSL rejects the certificates, the key or the suites.
    """
    context = _new_context(ssl.PROTOCOL_TLS_SERVER, settings, material)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1  # as in Go and Java; each takes a tenth of a handshake's time
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        _trust(context, settings, material)
    return context


def new_retrying_context(settings: TlsSettings, material: Material) -> ssl.SSLContext:
    """Return a server context for clients that must answer before their handshake costs much.

    Its only curve is RETRY_CURVE. OpenSSL answers a hello without a share on it with a
    HelloRetryRequest, which takes a tenth of the time of a key exchange and a signature.

    Raises:
        StoreError: see ``new_server_context``.
    """
    context = new_server_context(settings, material)
    context.set_ecdh_curve(RETRY_CURVE)
    return context


def new_client_context(settings: TlsSettings, material: Material) -> ssl.SSLContext:
    """Return a client context. Without a truststore, the system's CAs are trusted.

    Raises:
        StoreError: see ``new_server_context``.
    """
    context = _new_context(ssl.PROTOCOL_TLS_CLIENT, settings, material)
    context.check_hostname = settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    if settings.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, settings, material)
    return context


def signs_quickly(material: Material) -> bool:
    """Return True if a signature with the key takes less than a tenth of a millisecond.

    One with RSA-2048 takes five times as long, one with RSA-4096 thirty times.
    """
    key = load_der_private_key(material.key, None)
    if isinstance(key, EllipticCurvePrivateKey):
        return isinstance(key.curve, SECP256R1)
    return isinstance(key, Ed25519PrivateKey)


def _new_context(protocol: int, settings: TlsSettings, material: Material) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    versions = [_VERSIONS[protocol] for protocol in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        context.set_ciphers(":".join(settings.cipher_suites) or SUITES_OF_TLS_1_2)
    except ssl.SSLError as error:
        raise StoreError(f"ssl.cipher.suites: OpenSSL has none of them: {error.reason}") from None
    if material.key:
        _load_key(context, settings, material)
    return context


def _load_key(context: ssl.SSLContext, settings: TlsSettings, material: Material) -> None:
    """Load the certificate chain and the key from an anonymous file in memory.

    The ssl module reads keys only from files.
    """
    password = token_hex(32)
    descriptor = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            for certificate in material.chain:
                file.write(ssl.DER_cert_to_PEM_cert(certificate).encode())
            file.write(_encrypt(material.key, password.encode()))
        path = f"/proc/self/fd/{descriptor}"
        context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        assert settings.keystore is not None, "there is a key"
        raise StoreError(f"{settings.keystore.key_name}: {error.reason}") from None
    finally:
        os.close(descriptor)


def _encrypt(key: bytes, password: bytes) -> bytes:
    loaded = load_der_private_key(key, None)
    return loaded.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)
    )


def _trust(context: ssl.SSLContext, settings: TlsSettings, material: Material) -> None:
    # As in Java, any certificate of the truststore is trusted, not only self-signed ones.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"".join(dict.fromkeys(material.trusted)))
    except ssl.SSLError as error:
        assert settings.truststore is not None, "there are trusted certificates"
        raise StoreError(f"{settings.truststore.key_name}: {error.reason}") from None
