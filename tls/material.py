"""Read keystores and truststores, from files or inline PEM, into memory.

**Invariant:** this module never writes a private key anywhere: not to a file, an error or a
``repr``.

Source: Kafka 4.3 DefaultSslEngineFactory; KIP-651.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

from authorizerd.config.tls import Store, StoreType, TlsSettings
from authorizerd.tls.errors import StoreError

CERTIFICATE_ERRORS: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""The errors raised for a malformed certificate or malformed extensions."""
STORE_BYTES_MAX: Final = 4 * 1024 * 1024
CERTIFICATES_MAX: Final = 1000

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_PEM: Final = re.compile(
    rb"-----BEGIN (?P<label>[A-Z0-9 ]{1,40})-----"
    rb"(?P<body>(?:(?!-----).)*)-----END (?P=label)-----",
    re.DOTALL,
)
_CERTIFICATE_LABELS: Final = (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE")
_KEY_END: Final = b"PRIVATE KEY"
_LINE: Final = 64


class Material(msgspec.Struct, frozen=True, array_like=True):
    """The content of a keystore and a truststore.

    ``chain`` is the server's or client's own certificate, followed by those of its CAs.
    ``trusted`` has the certificates of the truststore. All are DER. ``key`` is PKCS#8 in DER,
    unencrypted; it is empty if there is no keystore.
    """

    chain: tuple[bytes, ...] = ()
    key: bytes = b""
    trusted: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """Return a text without the key, safe for logs."""
        return f"Material(chain of {len(self.chain)}, {len(self.trusted)} trusted)"


class Validity(msgspec.Struct, frozen=True):
    """A certificate's names, serial number and dates, for metrics, logs and ``doctor``."""

    subject: str
    issuer: str
    serial: int
    not_before: datetime
    not_after: datetime

    @property
    def serial_text(self) -> str:
        """The serial number as ``openssl x509 -serial`` shows it: whole bytes in hexadecimal."""
        digits = f"{self.serial:X}"
        return digits.zfill(len(digits) + len(digits) % 2)


def read_material(settings: TlsSettings) -> Material:
    """Return the content of the configured stores. Reading blocks.

    Raises:
        StoreError: a store cannot be read or is malformed, or its key does not match its
            certificate.
    """
    chain, key = ((), b"") if settings.keystore is None else _read_keystore(settings.keystore)
    trusted = () if settings.truststore is None else _read_truststore(settings.truststore)
    return Material(chain, key, trusted)


def describe_place(store: Store) -> str:
    """Return the configuration key that sets a store, and its file if it has one."""
    return store.key_name if store.location is None else f"{store.key_name}: {store.location}"


def describe_certificate(certificate: bytes) -> Validity:
    """Return the names, serial number and dates of a certificate in DER.

    Raises:
        StoreError: it is malformed.
    """
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        return Validity(
            subject=parsed.subject.rfc4514_string(),
            issuer=parsed.issuer.rfc4514_string(),
            serial=parsed.serial_number,
            not_before=parsed.not_valid_before_utc,
            not_after=parsed.not_valid_after_utc,
        )
    except CERTIFICATE_ERRORS as error:
        raise StoreError(f"malformed certificate: {error}") from None


def find_other_name(before: bytes, after: bytes, settings: TlsSettings) -> str | None:
    """Return a forbidden difference between the names of two DER certificates, or None.

    As in Kafka, the distinguished name must be the same, and no alternative name may be missing.
    The text names the configuration key that allows the difference.

    Source: KIP-978; Kafka 4.3 SslFactory.CertificateEntries.ensureCompatible.
    """
    old, new = (x509.load_der_x509_certificate(encoded) for encoded in (before, after))
    if not settings.allows_dn_changes and old.subject != new.subject:
        return (
            f"the certificate is for {new.subject.rfc4514_string()}, not for"
            f" {old.subject.rfc4514_string()}: set ssl.allow.dn.changes=true in the file to allow"
            " that"
        )
    if not settings.allows_san_changes:
        missing = _alternative_names(old) - _alternative_names(new)
        if missing:
            return (
                f"the certificate lacks the names {', '.join(sorted(missing))}: set"
                " ssl.allow.san.changes=true in the file to allow that"
            )
    return None


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, *CERTIFICATE_ERRORS):
        return set()
    return {str(name.value) for name in names}


def _read_keystore(store: Store) -> tuple[tuple[bytes, ...], bytes]:
    if store.key is not None:
        assert store.certificates is not None, "the settings are validated"
        return _read_pem_keystore(store, store.certificates.encode(), store.key.encode())
    data, store_type = _read_file(store)
    if store_type is StoreType.PEM:
        return _read_pem_keystore(store, data, data)
    opened = _open_pkcs12(store, data)
    if opened.key is None or opened.cert is None:
        raise _unusable(store, "has no private key with its certificate")
    key = opened.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    others = [
        certificate.certificate.public_bytes(Encoding.DER)
        for certificate in opened.additional_certs
    ]
    chain = _order_chain(opened.cert.certificate.public_bytes(Encoding.DER), others)
    return chain, key


def _read_truststore(store: Store) -> tuple[bytes, ...]:
    if store.certificates is not None:
        return _pem_certificates(store, store.certificates.encode())
    data, store_type = _read_file(store)
    if store_type is StoreType.PEM:
        return _pem_certificates(store, data)
    opened = _open_pkcs12(store, data)
    chain = [additional_cert.certificate for additional_cert in opened.additional_certs]
    if opened.cert is not None:
        chain.insert(0, opened.cert.certificate)
    if not chain:
        raise _unusable(store, "has no certificate")
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in chain)


def _read_file(store: Store) -> tuple[bytes, StoreType]:
    """Return a store's bytes, and the type detected from its content.

    Raises:
        StoreError: the file cannot be read, or its content contradicts the configured type.
    """
    assert store.location is not None, "the settings are validated"
    try:
        with open(store.location, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unusable(store, "expected a file")
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise _unusable(store, error.strerror or str(error)) from None
    if len(data) > STORE_BYTES_MAX:
        raise _unusable(store, f"expected at most {STORE_BYTES_MAX} bytes")
    if data.startswith(_JKS_MAGIC):
        raise _unusable(
            store,
            "is a JKS store; convert it: keytool -importkeystore -srckeystore"
            f" {store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12",
        )
    is_pem = b"-----BEGIN " in data
    if store.type is StoreType.PEM and not is_pem:
        raise _unusable(store, "expected PEM, which begins with -----BEGIN")
    if store.type in (StoreType.JKS, StoreType.PKCS12) and is_pem:
        key_name = f"{store.key_name.removesuffix('location')}type"
        raise _unusable(store, f"is PEM, not {store.type}: set {key_name}=PEM, or remove that key")
    return data, StoreType.PEM if is_pem else StoreType.PKCS12


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer must not block


def _open_pkcs12(store: Store, data: bytes) -> PKCS12KeyAndCertificates:
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except UnsupportedAlgorithm as error:
        raise _unusable(store, f"uses an unsupported algorithm: {error}") from None
    except ValueError:
        key_name = f"{store.key_name.removesuffix('location')}password"
        if password is None:
            reason = f"is not PEM, and not PKCS12 without a password: set {key_name}"
        else:
            reason = f"is not PKCS12 with the password in {key_name}"
        raise _unusable(store, reason) from None


def _read_pem_keystore(
    store: Store, certificates: bytes, key: bytes
) -> tuple[tuple[bytes, ...], bytes]:
    chain = _pem_certificates(store, certificates)
    keys = [block for block in _PEM.finditer(key) if block["label"].endswith(_KEY_END)]
    if len(keys) != 1:
        raise _unusable(store, f"expected one private key in PEM, found {len(keys)}")
    password = None if store.key_password is None else store.key_password.encode()
    is_encrypted = b"ENCRYPTED" in keys[0].group()
    try:
        loaded = load_pem_private_key(_normalize(keys[0]), password if is_encrypted else None)
    except UnsupportedAlgorithm as error:
        raise _unusable(store, f"uses an unsupported algorithm: {error}") from None
    except (TypeError, ValueError):
        if not is_encrypted:
            reason = "the private key is malformed"
        elif password is None:
            reason = f"the private key is encrypted: set {_password_key(store)}"
        else:
            reason = f"the private key cannot be decrypted with {_password_key(store)}"
        raise _unusable(store, reason) from None
    if not _fits(chain[0], loaded.public_key()):
        raise _unusable(store, "the private key does not belong to the first certificate")
    return chain, loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _pem_certificates(store: Store, data: bytes) -> tuple[bytes, ...]:
    blocks = [block for block in _PEM.finditer(data) if block["label"] in _CERTIFICATE_LABELS]
    if not blocks:
        raise _unusable(store, "has no certificate in PEM")
    if len(blocks) > CERTIFICATES_MAX:
        raise _unusable(store, f"expected at most {CERTIFICATES_MAX} certificates")
    certificates = []
    for number, block in enumerate(blocks, start=1):
        try:
            loaded = x509.load_pem_x509_certificate(_normalize(block, b"CERTIFICATE"))
        except CERTIFICATE_ERRORS as error:
            raise _unusable(store, f"certificate {number} is malformed: {error}") from None
        certificates.append(loaded.public_bytes(Encoding.DER))
    return tuple(certificates)


def _normalize(block: re.Match[bytes], label: bytes | None = None) -> bytes:
    """Restore the line breaks of a PEM block, which a properties file may have removed."""
    label = block["label"] if label is None else label
    body = block["body"]
    if b":" in body:  # an encrypted key in the old format: its headers must stay on their own lines
        return block.group()
    packed = b"".join(body.split())
    lines = [packed[start : start + _LINE] for start in range(0, len(packed), _LINE)]
    return b"\n".join((b"-----BEGIN %b-----" % label, *lines, b"-----END %b-----\n" % label))


def _order_chain(leaf: bytes, others: list[bytes]) -> tuple[bytes, ...]:
    """Return the leaf and its issuers, each after the certificate that it issued."""
    issuers = {x509.load_der_x509_certificate(encoded).subject: encoded for encoded in others}
    chain = [leaf]
    while len(chain) <= len(others):
        newest = x509.load_der_x509_certificate(chain[-1])
        issuer = issuers.get(newest.issuer)
        if issuer is None or newest.issuer == newest.subject:
            break
        chain.append(issuer)
    return tuple(chain)


def _fits(certificate: bytes, public_key: object) -> bool:
    try:
        return x509.load_der_x509_certificate(certificate).public_key() == public_key
    except CERTIFICATE_ERRORS:
        return False


def _password_key(store: Store) -> str:
    return f"{store.key_name.partition('keystore.')[0]}key.password"


def _unusable(store: Store, reason: str) -> StoreError:
    return StoreError(f"{describe_place(store)}: {reason}")
