"""Authentication of a connection, step by step."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.actors.authorizer import Authentication
from authorizerd.config.jaas import PlainUsers
from authorizerd.config.oauth import TokenRules
from authorizerd.daemon.kafka.errors import OutOfTurnError, SessionExpiredError
from authorizerd.daemon.kafka.login.authentication import REAUTHENTICATION_SECONDS_MIN, SaslExchange
from authorizerd.daemon.kafka.login.sasl_oauth import REFUSAL
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.responses import SaslAuthenticateAnswer
from authorizerd.protocol.records.scram import ScramMechanism
from tests.support.issuer import claims_of, first_message, unsecured
from tests.support.sasl import (
    SHA_256,
    SHA_512,
    LoadedCredentials,
    ScramTokens,
    credential_of,
    sasl_settings,
)

USERS = PlainUsers({"alice": "alice-secret", "bob": "bob-secret"})
GOOD = b"\0alice\0alice-secret"
BOB = b"\0bob\0bob-secret"
BAD = b"\0alice\0wrong"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
CREDENTIALS = (
    credential_of("alice", "alice-secret", SHA_256),
    credential_of("alice", "alice-secret", SHA_512),
    credential_of("bob", "bob-secret", SHA_256),
)
INVALID = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"


class Exchange(SaslExchange):
    """An exchange whose clock a test sets."""

    now = 100.0

    def choose(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, tuple[str, ...]]:
        answer = self.choose_mechanism(mechanism, version, self.now)
        return answer.error_code, tuple(answer.mechanisms)

    def send(self, token: bytes) -> SaslAuthenticateAnswer:
        answer = self.authenticate(token, self.now)
        assert answer is not None
        return answer

    def log_in(self, user: str, mechanism: ScramMechanism = SHA_256) -> SaslAuthenticateAnswer:
        """Log in with SCRAM with the user's password; return the last answer."""
        tokens = ScramTokens(user, f"{user}-secret", mechanism)
        assert self.choose(mechanism.text)[0] == ErrorCode.NONE
        challenge = self.send(tokens.first())
        assert (challenge.error_code, self.principal) == (ErrorCode.NONE, None)
        last = self.send(tokens.final(challenge.auth_bytes))
        if last.error_code == ErrorCode.NONE:
            tokens.check(last.auth_bytes)
        return last


def new_exchange(users: PlainUsers | None = USERS, *, session_ms: int = 0) -> Exchange:
    settings = None
    if users is not None:
        settings = sasl_settings(*MECHANISMS, users=users, session_ms=session_ms)
    return Exchange(settings, LoadedCredentials(*CREDENTIALS))


@pytest.mark.parametrize("version", [0, 1])
def test_mechanism_and_token_log_in(version: int) -> None:
    """Version 0 of the handshake is followed by a raw token, version 1 by a request."""
    exchange = new_exchange()
    assert exchange.choose("PLAIN", version) == (ErrorCode.NONE, MECHANISMS)
    assert exchange.expects_raw_token is (version == 0)
    assert (exchange.principal, exchange.authentication) == (None, Authentication.NONE)
    assert exchange.send(GOOD) == SaslAuthenticateAnswer()
    assert (exchange.principal, exchange.authentication) == ("User:alice", Authentication.PLAIN)
    assert not exchange.expects_raw_token
    assert not exchange.has_failed


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_two_scram_tokens_log_in(mechanism: ScramMechanism) -> None:
    exchange = new_exchange()
    assert exchange.log_in("alice", mechanism).error_code == ErrorCode.NONE
    assert (exchange.principal, exchange.mechanism) == ("User:alice", mechanism.text)
    assert exchange.authentication is Authentication.SCRAM


def test_credential_of_another_mechanism_does_not_log_in() -> None:
    exchange = new_exchange()
    answer = exchange.log_in("bob", SHA_512)
    text = INVALID.format("authentication", "SCRAM-SHA-512")
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert exchange.failure == f"{text} (user 'bob')"
    assert exchange.has_failed


def test_wrong_password_ends_the_login() -> None:
    """No second token is accepted on the same connection."""
    exchange = new_exchange()
    exchange.choose()
    assert exchange.send(BAD).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert exchange.has_failed
    with pytest.raises(OutOfTurnError):
        exchange.send(GOOD)
    with pytest.raises(OutOfTurnError):
        exchange.choose()
    assert exchange.principal is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_oversized_token_fails_the_login(mechanism: str) -> None:
    """After authentication, requests may be large, so tokens for re-authentication need a limit."""
    exchange = new_exchange(PlainUsers({"alice": "x" * LOGIN_BYTES_MAX}))
    exchange.choose(mechanism)
    answer = exchange.send(b"\0alice\0" + b"x" * LOGIN_BYTES_MAX)
    assert answer.error_message == INVALID.format("authentication", mechanism)
    assert exchange.has_failed


@pytest.mark.parametrize(
    ("supported", "mechanism"),
    [*((MECHANISMS, each) for each in ("plain", "SCRAM-SHA-1", "GSSAPI", "")),
     (("SCRAM-SHA-512",), "PLAIN")],
)  # fmt: skip
def test_unsupported_mechanism_fails(supported: tuple[str, ...], mechanism: str) -> None:
    """The answer names the supported mechanisms. Each listener has its own."""
    exchange = Exchange(sasl_settings(*supported), LoadedCredentials(*CREDENTIALS))
    assert exchange.choose(mechanism) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, supported)
    assert exchange.has_failed


def test_requests_out_of_turn_are_not_answered() -> None:
    """A token before the mechanism, or a second mechanism instead of a raw token."""
    exchange = new_exchange()
    with pytest.raises(OutOfTurnError):
        exchange.send(GOOD)
    exchange.choose("PLAIN", 0)
    with pytest.raises(OutOfTurnError):
        exchange.choose("PLAIN", 1)


def test_other_request_between_mechanism_and_token_fails_the_login() -> None:
    """As in Kafka, it is still answered if the token is expected in a SaslAuthenticate request."""
    exchange = new_exchange()
    exchange.choose()
    assert exchange.choose() == (ErrorCode.ILLEGAL_SASL_STATE, ())
    assert exchange.has_failed
    exchange = new_exchange()
    exchange.choose()
    assert exchange.accept_versions_request() == ErrorCode.ILLEGAL_SASL_STATE
    assert exchange.has_failed


def test_versions_are_answered_once_before_the_login() -> None:
    """An authenticated client may ask again and again."""
    exchange = new_exchange()
    assert exchange.accept_versions_request() == ErrorCode.NONE
    with pytest.raises(OutOfTurnError):
        exchange.accept_versions_request()
    exchange.choose()
    exchange.send(GOOD)
    for known in (exchange, new_exchange(None)):
        for _ in range(2):
            assert known.accept_versions_request() == ErrorCode.NONE


def test_without_sessions_a_second_login_is_refused() -> None:
    """The connection stays usable, also on a listener without authentication."""
    logged_in = new_exchange()
    logged_in.choose()
    assert logged_in.send(GOOD).session_lifetime == timedelta(0)
    for exchange, principal in ((logged_in, "User:alice"), (new_exchange(None), "User:ANONYMOUS")):
        exchange.now += 1e9
        exchange.check_session(exchange.now)
        assert exchange.choose() == (ErrorCode.ILLEGAL_SASL_STATE, ())
        assert exchange.send(BAD).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert exchange.principal == principal
        assert not exchange.has_failed
    assert exchange.authentication is Authentication.NONE


def test_client_is_told_the_length_of_its_session() -> None:
    """It is told when authentication is complete, not before."""
    exchange = new_exchange(session_ms=1500)
    tokens = ScramTokens("alice", "alice-secret")
    exchange.choose("SCRAM-SHA-256")
    challenge = exchange.send(tokens.first())
    assert challenge.session_lifetime == timedelta(0)
    done = exchange.send(tokens.final(challenge.auth_bytes))
    assert done.session_lifetime == timedelta(milliseconds=1500)


def test_session_ends_unless_the_client_logs_in_again() -> None:
    """Every request but SaslHandshake closes the connection then."""
    exchange = new_exchange(session_ms=1500)
    assert exchange.log_in("alice").error_code == ErrorCode.NONE
    exchange.check_session(exchange.now + 1.5)
    for now in (101.6, 1e9):
        exchange.now = now
        with pytest.raises(SessionExpiredError):
            exchange.check_session(now)
        with pytest.raises(SessionExpiredError):
            exchange.send(GOOD)
    assert exchange.log_in("alice").session_lifetime == timedelta(milliseconds=1500)
    exchange.check_session(exchange.now + 1.5)
    with pytest.raises(SessionExpiredError):
        exchange.check_session(exchange.now + 1.6)


def test_reauthentication_may_begin_once_a_second() -> None:
    """If it begins earlier, it is refused, and closes the connection if the session has ended."""
    exchange = new_exchange(session_ms=500)
    exchange.log_in("alice")
    exchange.log_in("alice")  # the first time, there is no earlier one
    exchange.now += REAUTHENTICATION_SECONDS_MIN / 4
    assert exchange.choose("SCRAM-SHA-256") == (ErrorCode.ILLEGAL_SASL_STATE, ())
    assert exchange.principal == "User:alice"
    exchange.now += REAUTHENTICATION_SECONDS_MIN / 2
    with pytest.raises(SessionExpiredError):
        exchange.choose("SCRAM-SHA-256")
    exchange.now += REAUTHENTICATION_SECONDS_MIN / 4
    assert exchange.log_in("alice").error_code == ErrorCode.NONE


def test_reauthentication_requires_the_same_user() -> None:
    """The text is Kafka's."""
    exchange = new_exchange(session_ms=1500)
    exchange.log_in("alice")
    answer = exchange.log_in("bob")
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Cannot change principals during re-authentication from User.alice: User.bob",
        b"",
    )
    assert exchange.has_failed
    assert exchange.principal is None


@pytest.mark.parametrize(
    ("token", "named"),
    [
        (b"\0alice\0hunter2", "'alice'"),
        (b"\0mallory\x1b[2J\n\xe2\x80\xae'\0hunter2", '"mallory\\x1b[2J\\n\\u202e\'"'),
        (b"\0" + b"a" * 1000 + b"\0hunter2", f"'{'a' * 100}'…"),
        (b"\0\xff\0hunter2", "'\ufffd'"),
        (b"hunter2", None),
        (b"alice\0hunter2", None),
        (b"\0alice\0hunter2\0x", None),
    ],
)
def test_failed_log_in_names_the_user_but_no_password(token: bytes, named: str | None) -> None:
    """The name is bounded and on one line; the client does not get it."""
    exchange = new_exchange()
    exchange.choose("PLAIN")
    answer = exchange.authenticate(token, exchange.now)
    assert answer is not None
    suffix = "" if named is None else f" (user {named})"
    assert exchange.failure == f"{answer.error_message}{suffix}"
    assert "hunter2" not in exchange.failure


def test_reauthentication_requires_the_same_mechanism() -> None:
    """As in Kafka, the mechanism is accepted, and its first token closes the connection."""
    exchange = new_exchange(session_ms=1500)
    exchange.log_in("alice")
    assert exchange.choose("PLAIN") == (ErrorCode.NONE, MECHANISMS)
    assert exchange.authenticate(GOOD, exchange.now) is None
    assert exchange.has_failed
    assert exchange.failure == (
        "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of"
        " mechanism 'SCRAM-SHA-256'"
    )


def test_reauthentication_with_a_wrong_password_fails() -> None:
    """The text names a re-authentication, as Kafka's does. Nothing else is served during it."""
    exchange = new_exchange(session_ms=1500)
    exchange.log_in("alice")
    tokens = ScramTokens("alice", "wrong")
    exchange.choose("SCRAM-SHA-256")
    assert exchange.is_reauthentication
    assert exchange.principal is None
    answer = exchange.send(tokens.final(exchange.send(tokens.first()).auth_bytes))
    assert answer.error_message == INVALID.format("re-authentication", "SCRAM-SHA-256")
    assert exchange.has_failed


def test_removed_user_cannot_log_in_again() -> None:
    """As in Kafka, the session of a removed user continues until the next authentication."""
    credentials = LoadedCredentials(*CREDENTIALS)
    exchange = Exchange(sasl_settings("SCRAM-SHA-256", session_ms=1500), credentials)
    exchange.log_in("alice")
    credentials.load()
    exchange.check_session(exchange.now)
    assert exchange.principal == "User:alice"
    assert exchange.log_in("alice").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_only_scram_uses_credentials() -> None:
    exchange = new_exchange()
    assert not exchange.uses_credentials
    exchange.choose("PLAIN")
    assert not exchange.uses_credentials
    exchange = new_exchange()
    exchange.choose("SCRAM-SHA-512")
    assert exchange.uses_credentials


def test_certificate_replaces_anonymous_but_not_a_login() -> None:
    """On a SASL listener, a client certificate alone gives no principal."""
    credentials = LoadedCredentials()
    exchange = SaslExchange(None, credentials, "User:CN=a")
    assert (exchange.principal, exchange.authentication) == (
        "User:CN=a",
        Authentication.CERTIFICATE,
    )
    exchange = SaslExchange(sasl_settings("PLAIN"), credentials, "User:CN=a")
    assert (exchange.principal, exchange.authentication) == (None, Authentication.NONE)


TOKENS = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"n,,n=alice,r=a", b"c=biws,r=a,p=", BAD, GOOD[:-1], b"\0bob\0alice-secret"]),
)


@given(st.sampled_from(MECHANISMS), st.lists(TOKENS, max_size=3))
def test_any_tokens_are_answered_and_log_nobody_in(mechanism: str, tokens: list[bytes]) -> None:
    """A token after a failure closes the connection."""
    exchange = new_exchange()
    exchange.choose(mechanism)
    for token in tokens:
        if exchange.has_failed:
            with pytest.raises(OutOfTurnError):
                exchange.send(token)
        else:
            answer = exchange.send(token)
            assert (answer.error_code == ErrorCode.NONE) is not exchange.has_failed
        assert exchange.principal is None


def new_token_exchange(*, session_ms: int = 0) -> Exchange:
    tokens = TokenCheck(TokenRules(keys_url=None), None)
    settings = sasl_settings("OAUTHBEARER", session_ms=session_ms)
    return Exchange(settings, LoadedCredentials(), tokens=tokens)


def token_of(user: str, seconds: float) -> bytes:
    return first_message(unsecured(claims_of(user, seconds=seconds, aud=None)))


@pytest.mark.parametrize(("session_ms", "seconds", "expected_s"), [
    (0, 86_400, 86_400), (864_000_000, 86_400, 86_400), (60_000, 86_400, 60),
])  # fmt: skip
def test_session_ends_with_its_token(session_ms: int, seconds: float, expected_s: float) -> None:
    """As in Kafka, even if sessions are not limited otherwise."""
    exchange = new_token_exchange(session_ms=session_ms)
    exchange.choose("OAUTHBEARER")
    assert exchange.uses_token
    answer = exchange.send(token_of("alice", seconds))
    assert answer.session_lifetime.total_seconds() == pytest.approx(expected_s, rel=0.05)
    assert (exchange.principal, exchange.uses_token) == ("User:alice", False)
    exchange.check_session(exchange.now + expected_s / 2)
    with pytest.raises(SessionExpiredError):
        exchange.check_session(exchange.now + expected_s + 1)


def test_session_of_a_token_that_has_just_expired_ends_at_once() -> None:
    """The difference of clocks lets the token log in, but zero must not mean: no end."""
    exchange = new_token_exchange()
    exchange.choose("OAUTHBEARER")
    exchange.send(token_of("alice", -2))
    assert exchange.principal == "User:alice"
    with pytest.raises(SessionExpiredError):
        exchange.check_session(exchange.now + 0.001)


def test_new_token_of_the_same_user_extends_the_session() -> None:
    exchange = new_token_exchange()
    for seconds in (1000, 3000):
        exchange.choose("OAUTHBEARER")
        assert exchange.send(token_of("alice", seconds)).error_code == ErrorCode.NONE
        exchange.now += 800
    exchange.check_session(exchange.now + 1000)
    exchange.choose("OAUTHBEARER")
    refused = exchange.send(token_of("bob", 300))
    assert "Cannot change principals" in str(refused.error_message)
    assert exchange.has_failed


def test_unsecured_token_proves_nothing() -> None:
    """Changes of its user are not forwarded to a cluster: anyone could have made the token."""
    exchange = new_token_exchange()
    exchange.choose("OAUTHBEARER")
    exchange.send(token_of("alice", 300))
    assert exchange.authentication is Authentication.NONE


def test_reason_of_an_invalid_token_is_logged_but_not_sent() -> None:
    exchange = new_token_exchange()
    exchange.choose("OAUTHBEARER")
    told = exchange.send(token_of("alice", -60))
    assert (told.error_code, told.auth_bytes) == (ErrorCode.NONE, REFUSAL.encode())
    refused = exchange.send(b"\x01")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        REFUSAL,
    )
    assert exchange.failure == f"{REFUSAL}: Signature has expired"
