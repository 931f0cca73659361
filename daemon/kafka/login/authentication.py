"""The state machine of one connection's authentication, without any I/O.

**Invariant:** the client first chooses a mechanism, and then sends its tokens. Failed
authentication ends the connection. So does a request out of turn, usually without an answer. A
connection never changes its principal or its mechanism: a client can only log in again as the same
user (KIP-368), and only if sessions are limited.

Source: KIP-43, KIP-152, KIP-255, KIP-368; Kafka 4.3 SaslServerAuthenticator, KafkaChannel.
"""

from __future__ import annotations

import math
import secrets
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from authorizerd.actors.authorizer import Authentication
from authorizerd.config.bounds import TOKEN_BYTES_MAX
from authorizerd.config.sasl import SaslSettings
from authorizerd.config.values import OAUTHBEARER, PLAIN
from authorizerd.daemon.kafka.errors import (
    AuthenticationError,
    InvalidCredentialsError,
    OutOfTurnError,
    SessionExpiredError,
)
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials
from authorizerd.daemon.kafka.login.sasl_oauth import OauthExchange
from authorizerd.daemon.kafka.login.sasl_plain import PlainExchange
from authorizerd.daemon.kafka.login.sasl_scram import ScramExchange
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.responses import SaslAuthenticateAnswer, SaslHandshakeAnswer
from authorizerd.protocol.records.scram import ScramMechanism

ANONYMOUS: Final = "User:ANONYMOUS"
REAUTHENTICATION_SECONDS_MIN: Final = 1.0
"""Minimum time between the starts of two re-authentications on a connection."""
_LOGGED_IN_ALREADY: Final = "SaslAuthenticate request received after successful authentication"
_RAW_TOKENS: Final = 0
"""The version of SaslHandshake after which the client sends bare tokens, without requests."""
_NONCE_BYTES: Final = 18
_NAME_CHARACTERS_SHOWN_MAX: Final = 100
_SCRAM_MECHANISMS: Final = {mechanism.text: mechanism for mechanism in ScramMechanism}


class _State(Enum):
    UNAUTHENTICATED = auto()
    REQUEST_EXPECTED = auto()
    RAW_TOKEN_EXPECTED = auto()
    LOGGED_IN = auto()
    FAILED = auto()


_TOKEN_EXPECTED: Final = frozenset((_State.REQUEST_EXPECTED, _State.RAW_TOKEN_EXPECTED))


class SaslExchange:
    """The state of one connection's authentication.

    ``mechanism`` is the one that the client chose last, and ``failure`` the reason of a failed
    authentication, for the log: it names the user that the client claims to be. Times are in
    seconds of a monotonic clock.

    Args:
        settings: how clients log in; None if the listener has no authentication.
        peer: the principal from the client's certificate, for a listener without authentication;
            None means ANONYMOUS.
        tokens: checks the tokens of OAUTHBEARER; None if the listener does not offer it.
    """

    def __init__(
        self,
        settings: SaslSettings | None,
        credentials: LoginCredentials,
        peer: str | None = None,
        tokens: TokenCheck | None = None,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._has_answered_versions = False
        self._state = _State.LOGGED_IN if settings is None else _State.UNAUTHENTICATED
        self._principal: str | None = (peer or ANONYMOUS) if settings is None else None
        self._has_certificate = peer is not None
        self._tokens = tokens
        self._login: PlainExchange | ScramExchange | OauthExchange | None = None
        self._session_mechanism = ""
        self._session_ends_at = math.inf
        self._reauthentication_began_at = -math.inf
        self.mechanism: str | None = None
        self.failure = ""

    @property
    def principal(self) -> str | None:
        """The client's principal; None before authentication, and during re-authentication."""
        return self._principal if self._state is _State.LOGGED_IN else None

    @property
    def authentication(self) -> Authentication:
        """How the client proved ``principal``."""
        if self.principal is None:
            return Authentication.NONE
        if self._settings is None:
            return Authentication.CERTIFICATE if self._has_certificate else Authentication.NONE
        if self._session_mechanism == OAUTHBEARER:
            is_secured = self._tokens is not None and self._tokens.is_secured
            return Authentication.TOKEN if is_secured else Authentication.NONE
        return Authentication.PLAIN if self._session_mechanism == PLAIN else Authentication.SCRAM

    @property
    def expects_token(self) -> bool:
        return self._state in _TOKEN_EXPECTED

    @property
    def expects_raw_token(self) -> bool:
        return self._state is _State.RAW_TOKEN_EXPECTED

    @property
    def uses_credentials(self) -> bool:
        """True if the next token is checked against credentials in the log."""
        return self.expects_token and self.mechanism in _SCRAM_MECHANISMS

    @property
    def uses_token(self) -> bool:
        """True if the next message has a token of OAUTHBEARER."""
        return self.expects_token and self.mechanism == OAUTHBEARER

    @property
    def is_reauthentication(self) -> bool:
        """True from the start of a second or later authentication until it has succeeded."""
        return self._principal is not None and self._state is not _State.LOGGED_IN

    @property
    def has_failed(self) -> bool:
        """True if the connection must be closed once its last request is answered."""
        return self._state is _State.FAILED

    def check_session(self, now: float) -> None:
        """Raise SessionExpiredError if the client should have logged in again by now."""
        if self._state is _State.LOGGED_IN and now > self._session_ends_at:
            raise SessionExpiredError("the session has expired: the client did not log in again")

    def accept_versions_request(self) -> ErrorCode:
        """Return the error with which to answer a valid ApiVersions request.

        Raises:
            OutOfTurnError: the client has not logged in, and this is its second ApiVersions.
        """
        if self._state is _State.REQUEST_EXPECTED:
            self._fail("expected a token, found ApiVersions")
            return ErrorCode.ILLEGAL_SASL_STATE
        if self._state is _State.UNAUTHENTICATED:
            if self._has_answered_versions:
                raise OutOfTurnError("a second ApiVersions before authentication")
            self._has_answered_versions = True
        return ErrorCode.NONE

    def choose_mechanism(self, mechanism: str, version: int, now: float) -> SaslHandshakeAnswer:
        """Answer a SaslHandshake, which begins authentication.

        Raises:
            OutOfTurnError: a raw token is expected, or authentication has failed.
            SessionExpiredError: see ``check_session``.
        """
        if self._state is _State.REQUEST_EXPECTED:
            self._fail("expected a token, found SaslHandshake")
            return SaslHandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
        if self._state is _State.LOGGED_IN:
            if not self._may_reauthenticate(now):
                self.check_session(now)
                # As in Kafka, a connection that has logged in stays usable after this error.
                return SaslHandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
            self._reauthentication_began_at = now
        elif self._state is not _State.UNAUTHENTICATED:
            raise OutOfTurnError("a second SaslHandshake")
        assert self._settings is not None, "without authentication, no session ends"
        mechanisms = self._settings.mechanisms
        if mechanism not in mechanisms:
            self._fail("unsupported SASL mechanism")
            return SaslHandshakeAnswer(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms)
        self.mechanism = mechanism
        self._login = self._new_login(mechanism, self._settings)
        is_raw = version == _RAW_TOKENS
        self._state = _State.RAW_TOKEN_EXPECTED if is_raw else _State.REQUEST_EXPECTED
        return SaslHandshakeAnswer(ErrorCode.NONE, mechanisms)

    def _may_reauthenticate(self, now: float) -> bool:
        return (
            self._session_ends_at < math.inf
            and now - self._reauthentication_began_at >= REAUTHENTICATION_SECONDS_MIN
        )

    def _new_login(
        self, mechanism: str, settings: SaslSettings
    ) -> PlainExchange | ScramExchange | OauthExchange:
        if mechanism == PLAIN:
            return PlainExchange(settings.users)
        if mechanism == OAUTHBEARER:
            assert self._tokens is not None, "the listener offers the mechanism"
            return OauthExchange(self._tokens)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return ScramExchange(_SCRAM_MECHANISMS[mechanism], self._credentials.look_up, nonce)

    def authenticate(self, token: bytes, now: float) -> SaslAuthenticateAnswer | None:
        """Answer a SaslAuthenticate, or a raw token; the last token sets ``principal``.

        None means that the connection is closed without an answer.

        Raises:
            OutOfTurnError: no mechanism has been chosen.
            SessionExpiredError: see ``check_session``.
        """
        if self._state is _State.LOGGED_IN:
            self.check_session(now)
            return SaslAuthenticateAnswer(ErrorCode.ILLEGAL_SASL_STATE, _LOGGED_IN_ALREADY)
        if not self.expects_token:
            raise OutOfTurnError("SaslAuthenticate before SaslHandshake")
        if self.is_reauthentication and self.mechanism != self._session_mechanism:
            # Kafka accepts the mechanism, and closes the connection at its first token.
            self._fail(
                f"SASL mechanism '{self.mechanism}' requested by client is not supported for"
                f" re-authentication of mechanism '{self._session_mechanism}'"
            )
            return None
        detail = ""
        try:
            return self._check(token, now)
        except InvalidCredentialsError:
            prefix = "re-" if self.is_reauthentication else ""
            text = (
                f"Authentication failed during {prefix}authentication due to invalid credentials"
                f" with SASL mechanism {self.mechanism}"
            )
        except AuthenticationError as error:
            text, detail = str(error), error.detail
        self._fail(f"{text}: {detail}" if detail else text)
        return SaslAuthenticateAnswer(ErrorCode.SASL_AUTHENTICATION_FAILED, text)

    def _check(self, token: bytes, now: float) -> SaslAuthenticateAnswer:
        assert self._login is not None, "a mechanism has been chosen"
        # After authentication, requests may be larger.
        if len(token) > (TOKEN_BYTES_MAX if self.mechanism == OAUTHBEARER else LOGIN_BYTES_MAX):
            raise InvalidCredentialsError("the token is too large")
        answer = self._login.answer(token)
        if self._login.user is None:
            return SaslAuthenticateAnswer(auth_bytes=answer)
        principal = f"User:{self._login.user}"
        if self._principal not in (None, principal):
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{_with_dot(self._principal)}: {_with_dot(principal)}"
            )
        return SaslAuthenticateAnswer(
            auth_bytes=answer, session_lifetime=self._begin_session(principal, now)
        )

    def _begin_session(self, principal: str, now: float) -> timedelta:
        """Return the length of the session, or zero if it never ends (or ends at once)."""
        assert self._settings is not None
        assert self.mechanism is not None
        lengths_s = [self._settings.session_ms[self.mechanism] / 1000 or math.inf]
        if isinstance(self._login, OauthExchange):  # as in Kafka, a session ends with its token
            lengths_s.append(self._login.lifetime_s)
        length_s = min(lengths_s)
        self._login = None
        self._principal = principal
        self._session_mechanism = self.mechanism
        self._state = _State.LOGGED_IN
        self._session_ends_at = now + length_s
        return timedelta() if length_s == math.inf else timedelta(seconds=length_s)

    def _fail(self, reason: str) -> None:
        claimed = None if self._login is None else self._login.claimed
        self._login = None
        self._state = _State.FAILED
        self.failure = reason if claimed is None else f"{reason} (user {_quote(claimed)})"


def _quote(name: str) -> str:
    """Return an untrusted name, bounded, in quotes, on one line."""
    cut = "…" if len(name) > _NAME_CHARACTERS_SHOWN_MAX else ""
    return f"{name[:_NAME_CHARACTERS_SHOWN_MAX]!r}{cut}"


def _with_dot(principal: str | None) -> str:
    """Return a principal as Kafka's error text shows it, such as ``User.alice``."""
    return str(principal).replace(":", ".", 1)
