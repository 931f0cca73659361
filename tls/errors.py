"""The errors of keystores, truststores and TLS connections."""

from __future__ import annotations


class StoreError(Exception):
    """A keystore or truststore is unusable. The text names the key and the file."""


class TlsError(Exception):
    """A TLS handshake failed, or a TLS connection broke. The text is the reason."""


class NotTlsError(TlsError):
    """The peer sent something other than a TLS record. No answer has been sent yet."""


class DistinguishedNameError(ValueError):
    """A certificate or a name is malformed or too long. The text gives the reason."""


class InvalidDerError(ValueError):
    """The bytes are not DER, or not the expected element."""
