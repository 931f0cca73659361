"""SCRAM credentials from a password: what a server keeps of it, and a log holds.

Law: none of it gives the password back, and the salted password, which is as good as one, is kept
nowhere.

Source: RFC 5802, RFC 7677; Kafka 4.3 ScramFormatter, ScramMechanism, which take a password's UTF-8
as it is, without SASLprep.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum

from authorizerd.image.changes import ScramCredential


class ScramMechanism(IntEnum):
    """A mechanism by the number that records have for it; ``text`` is its name in SASL."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name that ``hashlib`` has for its hash function."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return RFC 5802's SaltedPassword; it costs ``iterations`` hashes, milliseconds of them.

    Raises:
        UnicodeEncodeError: the password is no text that UTF-8 has bytes for.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a log-in with the salted password ``salted`` is checked by."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )
