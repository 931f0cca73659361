"""SASL/OAUTHBEARER on the server's side: the answers to the client's messages, without any I/O.

**Invariant:** for any bytes, an exchange returns an answer or raises AuthenticationError. After an
invalid token, the client cannot send another one.

Source: RFC 7628, KIP-255, KIP-342; Kafka 4.3 OAuthBearerSaslServer,
OAuthBearerClientInitialResponse. As in Kafka, extensions are accepted, and nothing uses them.
Unlike Kafka, an exchange checks one token only.
"""

from __future__ import annotations

import re
from typing import Final

from authorizerd.daemon.kafka.errors import AuthenticationError, InvalidCredentialsError
from authorizerd.daemon.kafka.login.token_check import InvalidTokenError, TokenCheck

REFUSAL: Final = '{"status":"invalid_token"}'
_ACKNOWLEDGEMENT: Final = b"\x01"

# The quantifiers are possessive (++): otherwise an unfinished message takes milliseconds.
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authorization_id>(?:[\x01-+\--<>-\x7f]++|=2C|=3D)++))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+)\x01"
)
_AUTH: Final = re.compile(rb"(?i:bearer) ++(?P<token>[-_.a-zA-Z0-9]++)")


class OauthExchange:
    """One authentication; ``user`` and ``lifetime_s`` are set once a token was accepted.

    ``claimed`` is always None: an invalid token proves no name, not even for the log.
    """

    claimed = None

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._reason: str | None = None
        self.user: str | None = None
        self.lifetime_s = 0.0

    def answer(self, message: bytes) -> bytes:
        """Return the answer to the client's next message.

        It is empty if the token is valid, else a reason that the client has to acknowledge.

        Raises:
            AuthenticationError: authentication has failed; the exchange must not be used again.
        """
        if self._reason is not None:
            if message != _ACKNOWLEDGEMENT:
                raise InvalidCredentialsError("expected an acknowledgement of the failure")
            raise AuthenticationError(REFUSAL, self._reason)
        authorization_id, token = read_first(message)
        try:
            checked = self._check.check(token)
        except InvalidTokenError as error:
            self._reason = str(error)
            return REFUSAL.encode()
        if authorization_id not in ("", checked.user):
            raise AuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id})"
                f" that is different from the token's principal name ({checked.user})"
            )
        self.user, self.lifetime_s = checked
        return b""


def read_first(message: bytes) -> tuple[str, str]:
    """Return the authorization id, or an empty text, and the token of a first message.

    Raises:
        InvalidCredentialsError: it is malformed.
    """
    match = _FIRST.fullmatch(message)
    if match is None:
        raise InvalidCredentialsError("invalid first message")
    pairs = dict(pair.split(b"=", 1) for pair in match["pairs"].split(b"\x01")[:-1])
    auth = _AUTH.fullmatch(pairs.get(b"auth", b""))
    if auth is None:
        raise InvalidCredentialsError("expected auth=Bearer and a token")
    name = match["authorization_id"] or b""
    return name.decode("ascii"), auth["token"].decode("ascii")
