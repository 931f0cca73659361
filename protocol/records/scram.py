"""Derive SCRAM credentials from a password, as servers and the log store them.

**Invariant:** a credential does not reveal the password. The salted password, which is equivalent
to the password, is stored nowhere.

Source: RFC 5802, RFC 7677; Kafka 4.3 ScramFormatter, ScramMechanism, which use a password's UTF-8
unchanged, without SASLprep.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import Final

from authorizerd.image.changes import ScramCredential

SALT_BITS: Final = 130
_SALT_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""The maximum number of iterations that Kafka accepts, for both mechanisms."""


class ScramMechanism(IntEnum):
    """A mechanism, with its number in records. ``text`` is its name in SASL."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of its hash function in ``hashlib``."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def hash_bytes(self) -> int:
        """The size of a key, of a signature and of a proof."""
        return hashlib.new(self.hash_name).digest_size


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword.

    It computes ``iterations`` hashes, which takes milliseconds.

    Raises:
        UnicodeEncodeError: the password cannot be encoded as UTF-8.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def make_credential(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential that checks authentication with the salted password ``salted``."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )


def encode_salt(number: int) -> bytes:
    """Return the salt that Kafka makes from a random number of SALT_BITS: its base-36 digits."""
    digits = bytearray()
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(_SALT_DIGITS[digit])
    return bytes(digits[::-1])
