"""The log-in of a connection, step by step."""

from __future__ import annotations

import pytest

from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.kafka.authentication import OutOfTurnError, SaslExchange
from authorizerd.protocol.kafka.error_codes import ErrorCode

USERS = PlainUsers({"alice": "alice-secret"})
GOOD = b"\0alice\0alice-secret"
BAD = b"\0alice\0wrong"


@pytest.mark.parametrize("version", [0, 1])
def test_mechanism_and_token_log_in(version: int) -> None:
    """Version 0 of the handshake is followed by a raw token, version 1 by a request."""
    exchange = SaslExchange(USERS)
    assert exchange.choose_mechanism("PLAIN", version).error_code == ErrorCode.NONE
    assert exchange.expects_raw_token is (version == 0)
    assert exchange.principal is None
    assert exchange.authenticate(GOOD).error_code == ErrorCode.NONE
    assert exchange.principal == "User:alice"
    assert not exchange.expects_raw_token
    assert not exchange.has_failed


def test_wrong_password_ends_the_login() -> None:
    """No second token is accepted on the same connection."""
    exchange = SaslExchange(USERS)
    exchange.choose_mechanism("PLAIN", 1)
    assert exchange.authenticate(BAD).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert exchange.has_failed
    with pytest.raises(OutOfTurnError):
        exchange.authenticate(GOOD)
    with pytest.raises(OutOfTurnError):
        exchange.choose_mechanism("PLAIN", 1)
    assert exchange.principal is None


@pytest.mark.parametrize("mechanism", ["plain", "SCRAM-SHA-512", ""])
def test_unsupported_mechanism_fails(mechanism: str) -> None:
    """The answer names the supported mechanisms."""
    exchange = SaslExchange(USERS)
    answer = exchange.choose_mechanism(mechanism, 1)
    assert (answer.error_code, answer.mechanisms) == (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ("PLAIN",),
    )
    assert exchange.has_failed


def test_requests_out_of_turn_are_not_answered() -> None:
    """A token before the mechanism, or a second mechanism instead of a raw token."""
    exchange = SaslExchange(USERS)
    with pytest.raises(OutOfTurnError):
        exchange.authenticate(GOOD)
    exchange.choose_mechanism("PLAIN", 0)
    with pytest.raises(OutOfTurnError):
        exchange.choose_mechanism("PLAIN", 1)


def test_other_request_between_mechanism_and_token_fails_the_login() -> None:
    """As in Kafka, it is still answered if the token is expected in a SaslAuthenticate request."""
    exchange = SaslExchange(USERS)
    exchange.choose_mechanism("PLAIN", 1)
    answer = exchange.choose_mechanism("PLAIN", 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
    assert exchange.has_failed
    exchange = SaslExchange(USERS)
    exchange.choose_mechanism("PLAIN", 1)
    assert exchange.accept_versions_request() == ErrorCode.ILLEGAL_SASL_STATE
    assert exchange.has_failed


def test_versions_are_answered_once_before_the_login() -> None:
    """An authenticated client may ask again and again."""
    exchange = SaslExchange(USERS)
    assert exchange.accept_versions_request() == ErrorCode.NONE
    with pytest.raises(OutOfTurnError):
        exchange.accept_versions_request()
    exchange.choose_mechanism("PLAIN", 1)
    exchange.authenticate(GOOD)
    for known in (exchange, SaslExchange(None)):
        for _ in range(2):
            assert known.accept_versions_request() == ErrorCode.NONE


def test_principal_never_changes_after_the_login() -> None:
    """A second handshake or token is refused, also if everyone is ANONYMOUS."""
    logged_in = SaslExchange(USERS)
    logged_in.choose_mechanism("PLAIN", 1)
    logged_in.authenticate(GOOD)
    for exchange, principal in ((logged_in, "User:alice"), (SaslExchange(None), "User:ANONYMOUS")):
        handshake = exchange.choose_mechanism("PLAIN", 1)
        assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
        assert exchange.authenticate(BAD).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert exchange.principal == principal
        assert not exchange.has_failed
