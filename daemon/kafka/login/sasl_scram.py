"""SASL/SCRAM on the server's side: the answers to the client's two messages, without any I/O.

**Invariant:** for any bytes, an exchange returns an answer or raises AuthenticationError.
An unknown user causes the same answers and the same work as a wrong password.

Why not scramp? It rejects salts below 12 bytes, which Kafka's tools can write, and extensions
with long names, which Kafka ignores. It also prepares user names (SASLprep), so that several names
would log in as one user.

Source: RFC 5802, RFC 7677; Kafka 4.3 ScramSaslServer, ScramMessages, ScramFormatter. As in Kafka,
user names are ASCII, and channel binding is not supported. Unlike Kafka, an exchange checks that
the second message repeats the first one's header (RFC 5802, section 7, attribute c), and that the
credential was not removed or replaced since the first message.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from authorizerd.daemon.kafka.errors import AuthenticationError, InvalidCredentialsError
from authorizerd.daemon.kafka.login.login_credentials import Candidate
from authorizerd.protocol.records.scram import ScramMechanism

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
TOKENS_UNSUPPORTED: Final = (
    "Authentication failed: delegation tokens (tokenauth=true) are not supported"
)

# The quantifiers are possessive (++): otherwise an unfinished message takes milliseconds.
_NAME: Final = rb"(?:[\x01-+\--<>-\x7f]++|=2C|=3D)++"
_NONCE: Final = rb"[!-+\--~]++"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]++=[\x01-+\--\x7f]++)*"
_BASE64: Final = rb"[A-Za-z0-9+/]*={0,2}"
_FIRST: Final = re.compile(
    rb"(?P<header>n,(?:a=(?P<authorization_id>%(name)b))?,)"
    rb"(?P<bare>n=(?P<user>%(name)b),r=(?P<nonce>%(nonce)b)(?P<extensions>%(extensions)b))"
    % {b"name": _NAME, b"nonce": _NONCE, b"extensions": _EXTENSIONS}
)
_FINAL: Final = re.compile(
    rb"(?P<unproved>c=(?P<binding>%(base64)b),r=(?P<nonce>%(nonce)b)%(extensions)b)"
    rb",p=(?P<proof>%(base64)b)"
    % {b"base64": _BASE64, b"nonce": _NONCE, b"extensions": _EXTENSIONS}
)


class _Challenge(NamedTuple):
    """The values to check the second message against. Byte strings are as sent and received."""

    user: str
    candidate: Candidate
    header: bytes
    first: bytes
    nonce: bytes
    answer: bytes


class ScramExchange:
    """One authentication; ``user`` is None until it has succeeded, ``claimed`` the name that was
    sent.

    Args:
        look_up: returns the credential of a user, or a made-up one.
        nonce: the server's part of the nonce: random, printable, without commas.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        look_up: Callable[[str, ScramMechanism], Candidate],
        nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._look_up = look_up
        self._nonce = nonce.encode()
        self._challenge: _Challenge | None = None
        self.user: str | None = None
        self.claimed: str | None = None

    def answer(self, message: bytes) -> bytes:
        """Return the answer to the client's next message; the second one sets ``user``.

        Raises:
            AuthenticationError: authentication has failed; the exchange must not be used again.
        """
        if self._challenge is None:
            self._challenge = self._read_first(message)
            return self._challenge.answer
        signature = self._check_final(self._challenge, message)
        self.user = self._challenge.user
        return b"v=" + _encode(signature)

    def _read_first(self, message: bytes) -> _Challenge:
        match = _FIRST.fullmatch(message)
        if match is None:
            raise InvalidCredentialsError("invalid first message")
        extensions = match["extensions"].lower().split(b",")
        if b"tokenauth=true" in extensions:
            raise AuthenticationError(TOKENS_UNSUPPORTED)
        user = self.claimed = _decode_name(match["user"])
        candidate = self._look_up(user, self._mechanism)
        authorization_id = match["authorization_id"]
        if authorization_id is not None and _decode_name(authorization_id) != user:
            raise AuthenticationError(OTHER_AUTHORIZATION_ID)
        nonce = match["nonce"] + self._nonce
        credential = candidate.credential
        return _Challenge(
            user=user,
            candidate=candidate,
            header=match["header"],
            first=match["bare"],
            nonce=nonce,
            answer=b"r=%b,s=%b,i=%d" % (nonce, _encode(credential.salt), credential.iterations),
        )

    def _check_final(self, challenge: _Challenge, message: bytes) -> bytes:
        """Return the signature with which the server proves that it knows the keys."""
        match = _FINAL.fullmatch(message)
        if match is None:
            raise InvalidCredentialsError("invalid second message")
        if _decode(match["binding"]) != challenge.header or match["nonce"] != challenge.nonce:
            raise InvalidCredentialsError("the second message does not belong to the first")
        proof = _decode(match["proof"])
        if len(proof) != self._mechanism.hash_bytes:
            raise InvalidCredentialsError("invalid proof")
        stored_key, server_key = (
            challenge.candidate.credential.stored_key,
            challenge.candidate.credential.server_key,
        )
        hash_name = self._mechanism.hash_name
        conversation = b",".join((challenge.first, challenge.answer, match["unproved"]))
        client_signature = hmac.digest(stored_key, conversation, hash_name)
        client_key = bytes(map(int.__xor__, client_signature, proof))
        server_signature = hmac.digest(server_key, conversation, hash_name)
        proves = hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), stored_key)
        if challenge.candidate != self._look_up(challenge.user, self._mechanism):
            raise InvalidCredentialsError("the credential has been replaced")
        if not (proves and challenge.candidate.is_known):
            raise InvalidCredentialsError("unknown user or wrong password")
        return server_signature


def _decode_name(name: bytes) -> str:
    return name.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii")


def _encode(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False)


def _decode(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise InvalidCredentialsError("invalid base64") from None
