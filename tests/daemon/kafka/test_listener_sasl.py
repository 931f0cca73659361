"""Log-ins at a Kafka listener."""

from __future__ import annotations

import pytest
import trio

from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.kafka.listener import FAILED_LOGIN_DELAY_S
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_listener_service import (
    BAD_TOKEN,
    GOOD_TOKEN,
    HEADER,
    USERS,
    answer,
    echoed,
    free_echo,
    request,
    start,
    to_echo,
)


async def test_log_in_sets_the_principal(nursery: trio.Nursery) -> None:
    """The client sends SaslHandshake version 1, SaslAuthenticate of any version, then requests."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    for version in range(3):
        client = await service.connect()
        chosen = await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.NONE, ("PLAIN",))
        taken = await client.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=GOOD_TOKEN)
        assert (taken.error_code, taken.error_message) == (ErrorCode.NONE, "")
        await client.echo(b"")
    assert {session.principal for session in echo.sessions} == {"User:alice"}
    assert service.listener.statistics.logins_failed == 0


async def test_log_in_with_a_raw_token(nursery: trio.Nursery) -> None:
    """After SaslHandshake version 0 the token is not in a request; the answer is empty."""
    echo = free_echo()
    client = await (await start(nursery, echo, users=USERS)).connect()
    chosen = await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    assert chosen.error_code == ErrorCode.NONE
    await client.send(frame(GOOD_TOKEN), to_echo(b"pipelined"))
    assert await client.receive() == b""
    assert await client.receive() == echoed(b"pipelined")
    assert echo.sessions[0].principal == "User:alice"


async def test_failed_log_in_is_answered_late_and_closed(nursery: trio.Nursery) -> None:
    """Requests that were pipelined after it are never read."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    client = await service.connect()
    await client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    started = trio.current_time()
    await client.send(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=BAD_TOKEN))
    refused = answer(ApiKey.SASL_AUTHENTICATE, 2, await client.receive())
    assert trio.current_time() - started >= FAILED_LOGIN_DELAY_S
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.error_message == "Authentication failed: Invalid username or password"
    assert await client.is_closed()
    impatient = await service.connect()
    await impatient.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    await impatient.send(
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=BAD_TOKEN),
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN),
        to_echo(b"in"),
    )
    await impatient.receive()
    assert await impatient.is_closed()
    assert service.listener.statistics.logins_failed == 2
    assert echo.bodies == []


async def test_failed_raw_token_closes_unanswered(nursery: trio.Nursery) -> None:
    service = await start(nursery, users=USERS)
    client = await service.connect()
    await client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    started = trio.current_time()
    await client.send(frame(BAD_TOKEN))
    assert await client.is_closed()
    assert trio.current_time() - started >= FAILED_LOGIN_DELAY_S
    assert service.listener.statistics.logins_failed == 1


@pytest.mark.parametrize("version", [0, 1])
async def test_unsupported_mechanism_gets_the_supported_ones_and_is_closed(
    nursery: trio.Nursery, version: int
) -> None:
    client = await (await start(nursery, users=USERS)).connect()
    refused = await client.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="SCRAM-SHA-256")
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == ("PLAIN",)
    assert await client.is_closed()


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
    nursery: trio.Nursery, early: bytes, has_handshake: bool
) -> None:
    """It is a request before the log-in, a token before the handshake, or a wrong kind of token."""
    echo = free_echo()
    service = await start(nursery, echo, users=USERS)
    client = await service.connect()
    if has_handshake:
        handshake_version = 0 if b"early" not in early and early != frame(GOOD_TOKEN) else 1
        await client.ask(ApiKey.SASL_HANDSHAKE, handshake_version, mechanism="PLAIN")
    await client.send(early)
    assert await client.is_closed()
    assert echo.sessions == []
    assert service.listener.statistics.connections_broken == 1


@pytest.mark.parametrize("users", [None, USERS])
async def test_second_log_in_is_refused(nursery: trio.Nursery, users: PlainUsers | None) -> None:
    """The error is ILLEGAL_SASL_STATE, even without log-ins. The principal stays the same."""
    echo = free_echo()
    client = await (await start(nursery, echo, users=users)).connect()
    if users is not None:
        await client.log_in()
    for version in (0, 1):
        refused = await client.ask(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
        again = await client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=GOOD_TOKEN)
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    await client.echo(b"well")
    principal = "User:ANONYMOUS" if users is None else "User:alice"
    assert [session.principal for session in echo.sessions] == [principal]


async def test_requests_are_limited_to_4_kib_before_the_log_in(nursery: trio.Nursery) -> None:
    service = await start(nursery, users=USERS)
    client = await service.connect()
    await client.send((LOGIN_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await client.is_closed()
    known = await service.connect()
    await known.log_in()
    await known.echo(bytes(LOGIN_BYTES_MAX + 1))
    at_most = await service.connect()
    padding = bytes(LOGIN_BYTES_MAX - 10)
    await at_most.send(frame(HEADER.pack(ApiKey.API_VERSIONS, 0, 1, -1), padding))
    assert answer(ApiKey.API_VERSIONS, 0, await at_most.receive()).error_code == 0
