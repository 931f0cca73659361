"""SASL/PLAIN on the server's side: map a token to a user, or reject it.

**Invariant:** the work is the same for a wrong password as for a right one, and for an unknown user
as for a known one: one digest of the received password, and one comparison of two digests.

Source: RFC 4616; Kafka 4.3 PlainSaslServer.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from authorizerd.config.jaas import PlainUsers, password_digest
from authorizerd.daemon.kafka.errors import AuthenticationError

INVALID_CREDENTIALS: Final = "Authentication failed: Invalid username or password"
_NOBODYS_DIGEST: Final = bytes(32)  # no known password has this digest


class PlainExchange:
    """One authentication; ``claimed`` is the name that was sent, ``user`` is set on success."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.user: str | None = None
        self.claimed: str | None = None

    def answer(self, message: bytes) -> bytes:
        """Check the client's only message; the answer is empty.

        Raises:
            AuthenticationError: authentication has failed.
        """
        self.claimed = read_claimed_user(message)
        self.user = authenticate_plain(message, self._users)
        return b""


def read_claimed_user(token: bytes) -> str | None:
    """Return the user that ``token`` names; None if it is malformed and must not be shown."""
    parts = token.split(b"\0")
    return parts[1].decode(errors="replace") if len(parts) == 3 else None


def authenticate_plain(token: bytes, users: PlainUsers) -> str:
    """Return the name of the user that ``token`` logs in.

    Raises:
        AuthenticationError: the token is malformed, the password wrong, or the user unknown.
    """
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationError(INVALID_CREDENTIALS) from None
    if len(parts) != 3:
        raise AuthenticationError(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        )
    authorization_id, user, password = parts
    if not user or not password:
        missing = "password" if user else "username"
        raise AuthenticationError(f"Authentication failed: {missing} not specified")
    expected = users.digests.get(user, _NOBODYS_DIGEST)
    if not compare_digest(expected, password_digest(password)):
        raise AuthenticationError(INVALID_CREDENTIALS)
    if authorization_id not in ("", user):
        raise AuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )
    return user
