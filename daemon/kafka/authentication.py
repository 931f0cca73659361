"""The log-in of one connection, from unauthenticated to a principal, without any I/O.

**Invariant:** the client first chooses a mechanism, and then sends exactly one token. A failed
log-in ends the connection after the answer. A request out of turn ends it too, usually without an
answer. An authenticated connection never changes its principal.

Source: KIP-43, KIP-152; Kafka 4.3 SaslServerAuthenticator.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.kafka.responses import SaslAuthenticateAnswer, SaslHandshakeAnswer
from authorizerd.daemon.kafka.sasl_plain import MECHANISM, AuthenticationError, authenticate_plain
from authorizerd.protocol.kafka.error_codes import ErrorCode

ANONYMOUS: Final = "User:ANONYMOUS"
_LOGGED_IN_ALREADY: Final = "SaslAuthenticate request received after successful authentication"
_RAW_TOKENS: Final = 0
"""The version of SaslHandshake after which the client sends bare tokens, without requests."""


class OutOfTurnError(ClosingError):
    """A request that does not fit the state of the log-in; it closes the connection unanswered."""


class _State(Enum):
    UNAUTHENTICATED = auto()
    REQUEST_EXPECTED = auto()
    RAW_TOKEN_EXPECTED = auto()
    LOGGED_IN = auto()
    FAILED = auto()


class SaslExchange:
    """The state of one connection's log-in.

    Args:
        users: the users for PLAIN; None if no log-in is required (clients are then ANONYMOUS).
    """

    def __init__(self, users: PlainUsers | None) -> None:
        self._users = users
        self._has_answered_versions = False
        self._state = _State.LOGGED_IN if users is None else _State.UNAUTHENTICATED
        self.principal: str | None = ANONYMOUS if users is None else None

    @property
    def expects_raw_token(self) -> bool:
        return self._state is _State.RAW_TOKEN_EXPECTED

    @property
    def has_failed(self) -> bool:
        """True if the connection must be closed once its last request is answered."""
        return self._state is _State.FAILED

    def accept_versions_request(self) -> ErrorCode:
        """Return the error with which to answer a valid ApiVersions request.

        Raises:
            OutOfTurnError: the client has not logged in, and this is its second ApiVersions.
        """
        if self._state is _State.REQUEST_EXPECTED:
            self._state = _State.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        if self._state is _State.UNAUTHENTICATED:
            if self._has_answered_versions:
                raise OutOfTurnError("a second ApiVersions before log-in")
            self._has_answered_versions = True
        return ErrorCode.NONE

    def choose_mechanism(self, mechanism: str, version: int) -> SaslHandshakeAnswer:
        """Answer a SaslHandshake.

        Raises:
            OutOfTurnError: a raw token is expected, or the log-in has failed.
        """
        if self._state is _State.LOGGED_IN:
            # As in Kafka, the error leaves a connection that is logged in usable.
            return SaslHandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
        if self._state is _State.REQUEST_EXPECTED:
            self._state = _State.FAILED
            return SaslHandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
        if self._state is not _State.UNAUTHENTICATED:
            raise OutOfTurnError("a second SaslHandshake")
        if mechanism != MECHANISM:
            self._state = _State.FAILED
            return SaslHandshakeAnswer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, (MECHANISM,))
        is_raw = version == _RAW_TOKENS
        self._state = _State.RAW_TOKEN_EXPECTED if is_raw else _State.REQUEST_EXPECTED
        return SaslHandshakeAnswer(ErrorCode.NONE, (MECHANISM,))

    def authenticate(self, token: bytes) -> SaslAuthenticateAnswer:
        """Answer a SaslAuthenticate, or a raw token; on success ``principal`` is set.

        Raises:
            OutOfTurnError: no mechanism has been chosen.
        """
        if self._state is _State.LOGGED_IN:
            return SaslAuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, _LOGGED_IN_ALREADY)
        if self._state not in (_State.REQUEST_EXPECTED, _State.RAW_TOKEN_EXPECTED):
            raise OutOfTurnError("SaslAuthenticate before SaslHandshake")
        assert self._users is not None, "without users, a connection starts logged in"
        try:
            self.principal = f"User:{authenticate_plain(token, self._users)}"
        except AuthenticationError as error:
            self._state = _State.FAILED
            return SaslAuthenticateAnswer(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        self._state = _State.LOGGED_IN
        return SaslAuthenticateAnswer()
