"""How clients log in to SASL listeners."""

from __future__ import annotations

import pytest

from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, PlainUsers
from authorizerd.config.sasl import SaslSettings
from tests.config.properties_file import BASE, configure, refuse

LISTENER = "listeners=SASL_PLAINTEXT://127.0.0.1:1"
PREFIX = "listener.name.sasl_plaintext."
USERS = f"{PREFIX}plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_a=b;"
SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256"
SCRAM_LOGIN = f'{SCRAM_LOGIN_MODULE} required username="b" password="hidden";'


def settings(*lines: str) -> SaslSettings:
    return configure(LISTENER, *lines).sasl_listeners["SASL_PLAINTEXT"]


def test_scram_needs_no_users() -> None:
    """SCRAM's users are in the log. The mechanisms keep their order, each once."""
    scram = settings(f"{SCRAM},SCRAM-SHA-512")
    assert scram.mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    assert scram.users == PlainUsers({})


def test_kafkas_login_line_for_scram_is_accepted() -> None:
    """Its options are for the broker's own connections, so the daemon does not use them."""
    line = f"{PREFIX}scram-sha-256.sasl.jaas.config={SCRAM_LOGIN}"
    configuration = configure(LISTENER, SCRAM, line)
    assert configuration.ignored_keys == ()
    assert configuration.sasl_listeners["SASL_PLAINTEXT"] == settings(SCRAM)


def test_listeners_own_mechanisms_replace_the_general_ones() -> None:
    both = settings(SCRAM, f"{PREFIX}sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN", USERS)
    assert both.mechanisms == ("SCRAM-SHA-256", "PLAIN")
    assert both.users == PlainUsers({"a": "b"})


@pytest.mark.parametrize(
    ("lines", "session_ms"),
    [
        ([], (0, 0)),
        (["connections.max.reauth.ms=5"], (5, 5)),
        (["connections.max.reauth.ms=-5"], (0, 0)),
        (["connections.max.reauth.ms=5", f"{PREFIX}connections.max.reauth.ms=6"], (6, 6)),
        ([f"{PREFIX}plain.connections.max.reauth.ms=7"], (7, 0)),
        (
            [
                "connections.max.reauth.ms=5",
                f"{PREFIX}connections.max.reauth.ms=6",
                f"{PREFIX}scram-sha-256.connections.max.reauth.ms=0",
            ],
            (6, 0),
        ),
    ],
)
def test_narrowest_session_length_counts(lines: list[str], session_ms: tuple[int, int]) -> None:
    """The mechanism's precedes the listener's, which precedes the general one."""
    mechanisms = f"{PREFIX}sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"
    configuration = configure(LISTENER, mechanisms, USERS, *lines)
    found = configuration.sasl_listeners["SASL_PLAINTEXT"].session_ms
    assert (found["PLAIN"], found["SCRAM-SHA-256"]) == session_ms
    assert configuration.ignored_keys == ()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], f": {PREFIX}plain.sasl.jaas.config: required because SASL_PLAINTEXT enables PLAIN"),
        (
            ["sasl.enabled.mechanisms=GSSAPI"],
            ":4: sasl.enabled.mechanisms: this version does not support GSSAPI: use one or more of"
            " PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            [f"{PREFIX}sasl.enabled.mechanisms=PLAIN,OAUTHBEARER"],
            f":4: {PREFIX}sasl.enabled.mechanisms: this version does not support OAUTHBEARER",
        ),
        (
            ["sasl.enabled.mechanisms=SCRAM-SHA-1"],
            ":4: sasl.enabled.mechanisms: invalid SASL mechanism 'SCRAM-SHA-1': expected one of",
        ),
        (
            [SCRAM, f"{PREFIX}scram-sha-512.sasl.jaas.config={PLAIN_LOGIN_MODULE} required a=b;"],
            f":5: {PREFIX}scram-sha-512.sasl.jaas.config: expected the login module"
            f" {SCRAM_LOGIN_MODULE}",
        ),
        (
            [SCRAM, f"{PREFIX}scram-sha-256.connections.max.reauth.ms=1s"],
            f":5: {PREFIX}scram-sha-256.connections.max.reauth.ms: expected an integer",
        ),
        (
            [SCRAM, f"connections.max.reauth.ms={2**63 - 1}"],
            ":5: connections.max.reauth.ms: expected an integer",
        ),
        (
            [SCRAM, "connection.failed.authentication.delay.ms=5", "connections.max.idle.ms=5"],
            ":5: connection.failed.authentication.delay.ms: expected less than"
            " connections.max.idle.ms (5), found 5",
        ),
    ],
    ids=lambda part: part[-1][-40:] if isinstance(part, list) and part else "",
)
def test_invalid_log_ins_are_rejected(lines: list[str], said: str) -> None:
    """The error names the key and its place."""
    text = refuse("\n".join((f"{BASE}{LISTENER}", *lines, "")))
    assert said in text
    assert "hidden" not in text


def test_delay_of_failed_log_ins_is_kafkas() -> None:
    assert configure().connection_failed_authentication_delay_ms == 100
    configuration = configure("connection.failed.authentication.delay.ms=0")
    assert configuration.connection_failed_authentication_delay_ms == 0


def test_listeners_with_tls_have_the_same_settings() -> None:
    configuration = configure(
        "listeners=SASL_SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2,SSL://127.0.0.1:3",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/k.pem",
        SCRAM,
    )
    assert configuration.sasl_listeners == {"SASL_SSL": settings(SCRAM)}
