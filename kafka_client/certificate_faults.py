"""Explain why a server's certificate is rejected: expired, an unknown CA, or another host.

**Invariant:** texts from the certificate are escaped and shortened, because they are untrusted.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import Cause, HandshakeFailedError
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import CERTIFICATE_ERRORS, Validity, describe_certificate

# Source: OpenSSL x509_vfy.h.
_ISSUER_UNKNOWN: Final = frozenset((2, 20, 21))
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_SELF_SIGNED: Final = 18
_SELF_SIGNED_IN_CHAIN: Final = 19
_WRONG_HOST: Final = frozenset((62, 64))

_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"
_NAMES_MAX: Final = 5
_CHARACTERS_MAX: Final = 200


def explain_certificate(
    address: Address, error: ssl.SSLCertVerificationError, certificate: bytes | None
) -> HandshakeFailedError:
    """Return the error for a rejected server certificate.

    Args:
        certificate: the certificate in DER, or None if it is not known.
    """
    validity = _read(certificate)
    cause, reason = _judge(address, error, certificate, validity)
    whose = "" if validity is None else f" ({_show(validity.subject)})"
    return HandshakeFailedError(f"{address}: the server's certificate{whose} {reason}", cause)


def _judge(
    address: Address,
    error: ssl.SSLCertVerificationError,
    certificate: bytes | None,
    validity: Validity | None,
) -> tuple[Cause, str]:
    code = error.verify_code
    if code == _EXPIRED:
        if validity is None or validity.not_after >= datetime.now(UTC):
            return Cause.CERTIFICATE_EXPIRED, "has expired, or its CA's certificate has"
        return Cause.CERTIFICATE_EXPIRED, f"expired on {validity.not_after:{_TIME}}"
    if code == _NOT_YET_VALID:
        when = "" if validity is None else f", but only from {validity.not_before:{_TIME}}"
        return Cause.CERTIFICATE_EXPIRED, f"is not valid yet{when}"
    if code == _SELF_SIGNED:
        return Cause.UNKNOWN_CA, "is self-signed, and not in the truststore"
    if code == _SELF_SIGNED_IN_CHAIN or code in _ISSUER_UNKNOWN:
        issuer = "" if validity is None else f": {_show(validity.issuer)}"
        return Cause.UNKNOWN_CA, f"is issued by an unknown CA{issuer}"
    if code in _WRONG_HOST:
        names = _list_names(certificate)
        return Cause.WRONG_HOST, f"is for {names}, not for {address.host}"
    return Cause.CERTIFICATE_INVALID, f"is not valid: {error.verify_message}"


def _read(certificate: bytes | None) -> Validity | None:
    try:
        return None if certificate is None else describe_certificate(certificate)
    except StoreError:
        return None


def _list_names(certificate: bytes | None) -> str:
    names = [] if certificate is None else read_host_names(certificate)
    shown = ", ".join(map(_show, names[:_NAMES_MAX])) or "no host"
    more = len(names) - _NAMES_MAX
    return "other hosts" if certificate is None else shown + (f" and {more} more" * (more > 0))


def read_host_names(certificate: bytes) -> Sequence[str]:
    """Return the host names and addresses that a certificate in DER is for."""
    try:
        parsed = x509.load_der_x509_certificate(certificate)
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, *CERTIFICATE_ERRORS):
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _show(text: str) -> str:
    cut = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    return escape_unprintable(cut)
