"""The client side of SCRAM, without a socket: messages to send, and checks of the server's.

**Invariant:** authentication succeeds only if the server proves that it knows the user's
credential. The password never leaves this process.

Why not scramp? It normalizes names and passwords with SASLprep, whereas Kafka uses their UTF-8
unchanged, so authentication with some passwords would fail. It also rejects salts of fewer than 12
bytes, which kafka-storage accepts.

Source: RFC 5802, RFC 7677; Kafka 4.3 ScramSaslClient, ScramMessages.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

from authorizerd.protocol.records.scram import ScramMechanism

ITERATIONS_MIN: Final = 4096
"""Kafka's minimum. An impostor could ask for fewer, to make guessing the password easier."""
ITERATIONS_MAX: Final = 1_000_000
"""Far above Kafka's maximum for new credentials; computing them takes less than a second."""
MESSAGE_BYTES_MAX: Final = 64 * 1024

_NONCE_BYTES: Final = 24
_GS2_HEADER: Final = "n,,"  # no channel binding, and no authorization identity
_CHANNEL_BINDING: Final = binascii.b2a_base64(_GS2_HEADER.encode(), newline=False).decode()
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
# A mandatory extension (m=) does not match: it must be understood or rejected.
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}})(?:,.*)?",
    re.DOTALL,
)
_SERVER_FINAL: Final = re.compile(
    rf"(?:v=(?P<signature>{_BASE64})|e=(?P<error>[^,]*))(?:,.*)?", re.DOTALL
)


class ScramError(Exception):
    """The server's message is invalid, or the server does not know the user's credential."""


class Challenge(NamedTuple):
    """The server's answer to the user's name. ``message`` is its full text."""

    message: str
    nonce: str
    salt: bytes
    iterations: int


class Proof(NamedTuple):
    """The client's final message, and the signature expected from the server."""

    message: bytes
    expected_signature: bytes


def new_nonce() -> str:
    """Return the client's nonce: a random text for one authentication."""
    return secrets.token_urlsafe(_NONCE_BYTES)


class ScramExchange:
    """One authentication: send ``first``, read the challenge, send the proof, check the answer."""

    def __init__(self, mechanism: ScramMechanism, username: str, nonce: str) -> None:
        self._hash_name = mechanism.hash_name
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"

    @property
    def first(self) -> bytes:
        """The client's first message."""
        return (_GS2_HEADER + self._first_bare).encode()

    def read_challenge(self, message: bytes) -> Challenge:
        """Return the server's challenge.

        Raises:
            ScramError: the message is malformed, answers another authentication, or asks for fewer
                or more iterations than allowed.
        """
        text = _decode(message)
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise ScramError("the server's first SCRAM message is malformed")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not continue the client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramError(
                f"the server asks for {iterations} iterations:"
                f" expected {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        return Challenge(text, nonce, _decode_base64(match["salt"]), iterations)

    def prove(self, challenge: Challenge, salted: bytes) -> Proof:
        """Return the proof that the client knows the salted password ``salted``."""
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        unproven = f"c={_CHANNEL_BINDING},r={challenge.nonce}"
        signed = f"{self._first_bare},{challenge.message},{unproven}".encode()
        signature = self._hmac(stored_key, signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        encoded = binascii.b2a_base64(proof, newline=False).decode()
        expected = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return Proof(f"{unproven},p={encoded}".encode(), expected)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash_name)


def check_signature(proof: Proof, message: bytes) -> None:
    """Raise an error unless the server's last message has the expected signature.

    Raises:
        ScramError: the signature is wrong, or the message is malformed or reports an error.
    """
    match = _SERVER_FINAL.fullmatch(_decode(message))
    if match is None:
        raise ScramError("the server's last SCRAM message is malformed")
    if match["error"] is not None:
        raise ScramError(f"the server rejects authentication: {match['error']}")
    if not hmac.compare_digest(_decode_base64(match["signature"]), proof.expected_signature):
        raise ScramError(
            "the server's signature is wrong: it does not know this user's credential, and may be"
            " an impostor"
        )


def _decode(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramError(f"expected a SCRAM message of at most {MESSAGE_BYTES_MAX} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("the server's SCRAM message is not UTF-8") from None


def _decode_base64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise ScramError("the server's SCRAM message has invalid base64") from None
