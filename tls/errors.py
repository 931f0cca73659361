"""The errors of keystores, truststores and TLS connections."""

from __future__ import annotations


class StoreError(Exception):
    """A keystore or truststore that cannot be used. The text names the key and the file."""


class TlsError(Exception):
    """A TLS handshake that failed, or a broken TLS connection. The text is the reason."""


class NotTlsError(TlsError):
    """The peer sent something other than a TLS record. No answer has been sent yet."""


class DistinguishedNameError(ValueError):
    """A certificate or a name that is malformed or too long. The text gives the reason."""


class InvalidDerError(ValueError):
    """Bytes that are not DER, or another element than the expected one."""
