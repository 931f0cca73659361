"""SASL authentication at a Kafka listener."""

from datetime import timedelta
from typing import Any

import pytest
import trio

from authorizerd.actors.authorizer import Authentication
from authorizerd.config.bounds import FREE_BYTES, TOKEN_BYTES_MAX
from authorizerd.config.jaas import PlainUsers
from authorizerd.config.oauth import TokenRules
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.daemon.kafka.listener import KafkaStatistics
from authorizerd.daemon.kafka.login.issuer_keys import IssuerKeys, Keys, parse_keys
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_listener_service import (
    BAD_TOKEN,
    GOOD_TOKEN,
    HEADER,
    USERS,
    Client,
    Listen,
    Service,
    answer,
    echoed,
    free_echo,
    request,
    to_echo,
    until,
    with_client,
)
from tests.support.issuer import (
    ISSUER,
    KEY,
    claims_of,
    first_message,
    jwk_of,
    jwks_of,
    new_key,
    sign,
)
from tests.support.sasl import SHA_256, LoadedCredentials, ScramTokens, credential_of, sasl_settings

ALICE = credential_of("alice", "alice-secret")


async def test_log_in_sets_the_principal(listen: Listen) -> None:
    """The client sends SaslHandshake version 1, SaslAuthenticate of any version, then requests."""
    echo = free_echo()
    service = await listen(echo, users=USERS)
    for version in range(3):
        client = await service.connect()
        chosen = await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.NONE, ("PLAIN",))
        taken = await client.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=GOOD_TOKEN)
        assert (taken.error_code, taken.error_message) == (ErrorCode.NONE, "")
        await client.echo(b"")
    assert {(session.principal, session.security_protocol) for session in echo.sessions} == {
        ("User:alice", "SASL_PLAINTEXT")
    }
    assert service.listener.statistics.logins_failed == 0


async def test_failed_log_in_is_answered_late_and_closed(listen: Listen) -> None:
    """Requests that were pipelined after it are never read."""
    echo = free_echo()
    service, client = await with_client(await listen(echo, users=USERS))
    await client.choose()
    started = trio.current_time()
    await client.send_token(BAD_TOKEN)
    refused = answer(ApiKey.SASL_AUTHENTICATE, 2, await client.receive())
    assert trio.current_time() - started >= 0.1
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.error_message == "Authentication failed: Invalid username or password"
    assert await client.is_closed()
    impatient = await service.connect()
    await impatient.choose()
    await impatient.send(
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=BAD_TOKEN),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN),
        to_echo(b"in"),
    )
    await impatient.receive()
    assert await impatient.is_closed()
    assert service.listener.statistics.logins_failed == 2
    assert echo.bodies == []


async def test_failed_raw_token_closes_unanswered(listen: Listen) -> None:
    service, client = await with_client(await listen(users=USERS))
    await client.choose(version=0)
    started = trio.current_time()
    await client.send(frame(BAD_TOKEN))
    assert await client.is_closed()
    assert trio.current_time() - started >= 0.1
    assert service.listener.statistics.logins_failed == 1


@pytest.mark.parametrize(
    "early",
    [
        to_echo(b"early"),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN),
        frame(GOOD_TOKEN),
    ],
    ids=["request", "authenticate", "raw token"],
)
@pytest.mark.parametrize("has_handshake", [False, True])
async def test_request_out_of_turn_closes_the_connection(
    listen: Listen, early: bytes, has_handshake: bool
) -> None:
    """It is a request or a token that comes too early, or a wrong kind of token."""
    echo = free_echo()
    service, client = await with_client(await listen(echo, users=USERS))
    if has_handshake:
        handshake_version = 0 if b"early" not in early and early != frame(GOOD_TOKEN) else 1
        await client.ask(ApiKey.SASL_HANDSHAKE, handshake_version, mechanism="PLAIN")
    await client.send(early)
    assert await client.is_closed()
    assert echo.sessions == []
    assert service.listener.statistics.connections_broken == 1


async def test_requests_are_limited_to_4_kib_before_the_log_in(listen: Listen) -> None:
    service, client = await with_client(await listen(users=USERS))
    await client.send((LOGIN_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await client.is_closed()
    known = await service.connect()
    await known.log_in()
    await known.echo(bytes(LOGIN_BYTES_MAX + 1))
    at_most = await service.connect()
    padding = bytes(LOGIN_BYTES_MAX - 10)
    await at_most.send(frame(HEADER.pack(ApiKey.API_VERSIONS, 0, 1, -1), padding))
    assert answer(ApiKey.API_VERSIONS, 0, await at_most.receive()).error_code == 0


async def start_scram(
    listen: Listen,
    credentials: LoadedCredentials | None = None,
    *,
    users: PlainUsers | None = None,
    session_ms: int = 0,
    **settings: Any,  # noqa: ANN401 - of a listener
) -> Service:
    """Return a listener with SCRAM, and with PLAIN if there are users; it knows ALICE."""
    sasl = sasl_settings(SHA_256.text, users=users, session_ms=session_ms)
    credentials = credentials or LoadedCredentials(ALICE)
    return await listen(sasl=sasl, credentials=credentials, **settings)


async def log_in_by_scram(client: Client, user: str, password: str) -> Any:  # noqa: ANN401
    """Return the last answer: to the second token, or to the first token if it is refused."""
    tokens = ScramTokens(user, password)
    await client.choose(SHA_256.text)
    challenge = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=tokens.first())
    if challenge.error_code:
        return challenge
    final = tokens.final(challenge.auth_bytes)
    return await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)


async def test_scram_logs_in(listen: Listen) -> None:
    echo = free_echo()
    service, client = await with_client(await start_scram(listen, handlers=echo))
    assert (await log_in_by_scram(client, "alice", "alice-secret")).error_code == ErrorCode.NONE
    await client.echo(b"well")
    assert [(session.principal, session.authentication) for session in echo.sessions] == [
        ("User:alice", Authentication.SCRAM)
    ]
    assert service.listener.statistics.logins == {(SHA_256.text, True): 1}


async def test_scram_logs_in_with_raw_tokens(listen: Listen) -> None:
    """After SaslHandshake version 0, neither tokens nor answers are in requests."""
    client = await (await start_scram(listen)).connect()
    tokens = ScramTokens("alice", "alice-secret")
    await client.choose(SHA_256.text, version=0)
    await client.send(frame(tokens.first()))
    await client.send(frame(tokens.final(await client.receive())), to_echo(b"pipelined"))
    tokens.check(await client.receive())
    assert await client.receive() == echoed(b"pipelined")


@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_failed_scram_log_in_is_answered_late_and_counted(listen: Listen, user: str) -> None:
    """An unknown user gets the same answers, as late, as one with a wrong password."""
    service, client = await with_client(await start_scram(listen, failed_login_delay_ms=200))
    started = trio.current_time()
    refused = await log_in_by_scram(client, user, "wrong")
    assert trio.current_time() - started >= 0.2
    assert (refused.error_code, refused.error_message, refused.auth_bytes) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed during authentication due to invalid credentials with SASL"
        " mechanism SCRAM-SHA-256",
        b"",
    )
    assert await client.is_closed()
    statistics = service.listener.statistics
    assert (statistics.logins_failed, statistics.logins) == (1, {(SHA_256.text, False): 1})


async def test_scram_log_in_waits_until_the_credentials_are_loaded(listen: Listen) -> None:
    """A half-loaded log may still contain removed users. PLAIN does not wait."""
    credentials = LoadedCredentials(credential_of("alice", "old"), is_loaded=False)
    service = await start_scram(listen, credentials, users=USERS)
    await (await service.connect()).log_in()
    client, tokens = await service.connect(), ScramTokens("alice", "alice-secret")
    await client.choose(SHA_256.text)
    await client.send_token(tokens.first())
    with trio.move_on_after(0.2):
        await client.receive()
        pytest.fail("the answer does not wait")
    credentials.load(ALICE)
    challenge = answer(ApiKey.SASL_AUTHENTICATE, 2, await client.receive())
    final = tokens.final(challenge.auth_bytes)
    taken = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final)
    assert taken.error_code == ErrorCode.NONE


async def test_wait_for_credentials_ends_with_the_login_timeout(listen: Listen) -> None:
    service = await start_scram(listen, LoadedCredentials(is_loaded=False), login_timeout_ms=300)
    client = await service.connect()
    await client.choose(SHA_256.text)
    first = ScramTokens("alice", "alice-secret").first()
    await client.send_token(first)
    assert await client.is_closed()
    assert service.listener.statistics.connections_timed_out == 1


async def test_client_that_waits_for_credentials_gives_way(listen: Listen) -> None:
    """Otherwise a few clients could lock out those that log in with PLAIN."""
    service = await start_scram(
        listen, LoadedCredentials(is_loaded=False), users=USERS, max_connections=1
    )
    waiting = await service.connect()
    await waiting.choose(SHA_256.text)
    first = ScramTokens("alice", "alice-secret").first()
    await waiting.send_token(first)
    await until(lambda: service.listener.statistics.requests == 2)
    await (await service.connect()).log_in()
    assert await waiting.is_closed()


async def limited(listen: Listen) -> tuple[Service, Client]:
    """Return a listener whose sessions last half a second, and a client that has logged in."""
    service, client = await with_client(await start_scram(listen, users=USERS, session_ms=500))
    taken = await log_in_by_scram(client, "alice", "alice-secret")
    assert taken.session_lifetime == timedelta(milliseconds=500)
    return service, client


def totals(statistics: KafkaStatistics) -> tuple[int, int, int, int]:
    """Return the counts of authentications, re-authentications, failures and expired sessions."""
    return (
        statistics.logins.total(),
        statistics.reauthentications.total(),
        statistics.logins_failed,
        statistics.sessions_expired,
    )


async def test_client_logs_in_again_on_its_connection(
    listen: Listen, slow_clock: trio.testing.MockClock
) -> None:
    """It may do so even after the end of its session, as long as it sends nothing else."""
    service, client = await limited(listen)
    await client.echo(b"first session")
    slow_clock.jump(0.6)
    taken = await log_in_by_scram(client, "alice", "alice-secret")
    assert taken.session_lifetime == timedelta(milliseconds=500)
    await client.echo(b"second session")
    statistics = service.listener.statistics
    assert totals(statistics) == (1, 1, 0, 0)
    assert statistics.reauthentications == {(SHA_256.text, True): 1}


@pytest.mark.parametrize("late", [to_echo(b"late"), request(ApiKey.API_VERSIONS, 0)])
async def test_request_after_the_session_closes_the_connection(
    listen: Listen, slow_clock: trio.testing.MockClock, late: bytes
) -> None:
    service, client = await limited(listen)
    slow_clock.jump(0.6)
    await client.send(late)
    assert await client.is_closed()
    assert totals(service.listener.statistics) == (1, 0, 0, 1)


async def test_other_mechanism_closes_the_connection_late_and_unanswered(listen: Listen) -> None:
    service, client = await limited(listen)
    await client.choose()
    started = trio.current_time()
    await client.send_token(GOOD_TOKEN)
    assert await client.is_closed()
    assert trio.current_time() - started >= 0.1
    assert totals(service.listener.statistics) == (1, 1, 1, 0)
    assert service.listener.statistics.reauthentications == {("PLAIN", False): 1}


async def start_oauth(listen: Listen, keys: list[bytes]) -> tuple[Service, Any]:
    """Return a listener with OAUTHBEARER, and an echo; each reading takes the next ``keys``."""

    async def read(_: TokenRules) -> Keys:
        await trio.sleep(0.2)
        return parse_keys(keys.pop(0))

    rules = TokenRules(keys_url=parse_document_url("https://issuer.test/keys"), issuer=ISSUER)
    tokens, echo = TokenCheck(rules, IssuerKeys(rules, "TEST", read)), free_echo()
    service = await listen(echo, sasl=sasl_settings("OAUTHBEARER"), tokens=tokens)
    return service, echo


async def test_token_logs_in_once_the_issuers_keys_are_read(listen: Listen) -> None:
    """A login that comes before the first reading waits, and so does one with a new key."""
    new = new_key()
    both = jwks_of(jwk_of(KEY, "k1"), jwk_of(new, "k2"))
    service, echo = await start_oauth(listen, [jwks_of(jwk_of(KEY, "k1")), both])
    for key, kid in ((KEY, "k1"), (new, "k2")):
        client = await service.connect()
        await client.choose("OAUTHBEARER")
        message = first_message(sign(claims_of(aud=None), key, kid=kid))
        taken = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
        assert (taken.error_code, taken.auth_bytes) == (ErrorCode.NONE, b"")
        assert timedelta() < taken.session_lifetime <= timedelta(seconds=300)
        await client.echo(b"in")
    assert [(each.principal, each.authentication) for each in echo.sessions] == 2 * [
        ("User:alice", Authentication.TOKEN)
    ]
    assert service.listener.statistics.logins == {("OAUTHBEARER", True): 2}


async def test_refused_token_is_answered_in_two_steps_and_closed(listen: Listen) -> None:
    service, echo = await start_oauth(listen, [jwks_of(jwk_of(KEY, "k1"))])
    client = await service.connect()
    await client.choose("OAUTHBEARER")
    forged = first_message(sign(claims_of(aud=None), new_key()))
    told = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=forged)
    assert (told.error_code, told.auth_bytes) == (ErrorCode.NONE, b'{"status":"invalid_token"}')
    refused = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\x01")
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await client.is_closed()
    assert echo.sessions == []
    assert service.listener.statistics.logins == {("OAUTHBEARER", False): 1}


async def test_large_token_logs_in_and_takes_only_free_bytes(listen: Listen) -> None:
    service, echo = await start_oauth(listen, [jwks_of(jwk_of(KEY, "k1"))])
    listener = service.listener
    client = await service.connect()
    await client.choose("OAUTHBEARER")
    groups = [f"group-{number:04}" for number in range(1800)]
    message = first_message(sign(claims_of(aud=None, groups=groups), KEY, kid="k1"))
    assert TOKEN_BYTES_MAX - 2000 < len(message) < TOKEN_BYTES_MAX - 100
    half = await service.connect()
    await half.send(TOKEN_BYTES_MAX.to_bytes(4, "big") + bytes(TOKEN_BYTES_MAX - 1))
    taken = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)
    assert taken.error_code == ErrorCode.NONE
    assert listener.memory.bytes_held == 0
    await client.send((FREE_BYTES + 100).to_bytes(4, "big") + bytes(FREE_BYTES))
    await until(lambda: listener.memory.bytes_held == 4)
    too_large = await service.connect()
    await too_large.send((TOKEN_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await too_large.is_closed()
    assert [each.principal for each in echo.sessions] == []
