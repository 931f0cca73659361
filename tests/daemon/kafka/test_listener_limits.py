"""The limits of a Kafka listener, peers that do not read, and the drain."""

import os
import socket
from contextlib import suppress

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.daemon.net.open_connections import IDLE_SECONDS_MIN
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_listener_service import (
    BAD_TOKEN,
    ENOUGH_S,
    GOOD_TOKEN,
    HEADER,
    ROOT_TOKEN,
    USERS,
    Echo,
    Listen,
    echoed,
    free_echo,
    to_echo,
    until,
    with_client,
)

LARGE_BODY = bytes(64 * 1024 * 1024)
"""More bytes than the buffers of two sockets can hold."""


async def test_connections_above_the_limit_are_closed(listen: Listen) -> None:
    """They are counted; when one ends, another is accepted."""
    service = await listen(users=USERS, max_connections=2)
    first, second = await service.connect(), await service.connect()
    await first.log_in()
    await second.log_in()
    assert await (await service.connect()).is_closed()
    assert service.listener.statistics.connections_refused == 1
    await first.stream.aclose()
    await until(lambda: service.statistics[0] == 1)
    await (await service.connect()).log_in()


async def test_client_without_log_in_gives_way(listen: Listen) -> None:
    """However many requests it has sent. The one that was quiet for the longest time does."""
    service = await listen(max_connections=2)
    first, second = await service.connect(), await service.connect()
    await first.echo(b"1")
    await second.echo(b"2")
    await (await service.connect()).echo(b"3")
    assert await first.is_closed()
    await second.echo(b"4")
    assert service.listener.statistics.connections_refused == 0


async def test_idle_connection_is_closed(listen: Listen) -> None:
    """It may idle between requests, within one, or before authentication."""
    service = await listen(idle_timeout_ms=50)
    for sent in (b"", to_echo(b"cut")[:-1]):
        client = await service.connect()
        if sent:
            await client.send(sent)
        assert await client.is_closed()
    await until(lambda: service.statistics[0] == 0)


async def test_slow_answer_is_not_idle(listen: Listen, slow_clock: trio.testing.MockClock) -> None:
    echo = Echo()
    client = await (await listen(echo, idle_timeout_ms=50)).connect()
    await client.send(to_echo(b"slow"))
    await until(lambda: echo.under_way == 1)
    for _ in range(3):
        slow_clock.jump(SWEEP_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
    echo.goes_on.set()
    assert await client.receive() == echoed(b"slow")


async def test_client_that_does_not_read_is_closed(listen: Listen) -> None:
    echo = free_echo()
    echo.answers = lambda body: LARGE_BODY
    service, client = await with_client(await listen(echo, idle_timeout_ms=100))
    await client.send(to_echo(b""))
    await until(lambda: service.statistics == (0, 0))
    assert service.listener.statistics.connections_timed_out == 1


async def test_requests_before_the_log_in_do_not_extend_its_time(
    listen: Listen, slow_clock: trio.testing.MockClock
) -> None:
    """ApiVersions of an unknown version may be repeated only until then."""
    service = await listen(users=USERS, login_timeout_ms=300)
    known, client = await service.connect(), await service.connect()
    await known.log_in()
    unknown_version = frame(HEADER.pack(ApiKey.API_VERSIONS, 99, 1, -1), b"\0")
    with trio.fail_after(ENOUGH_S), suppress(trio.BrokenResourceError):
        while True:
            await client.send(unknown_version)
            if not await client.stream.receive_some():
                break
            slow_clock.jump(0.02)
    assert service.listener.statistics.connections_timed_out == 1
    await known.echo(b"well")


async def test_without_log_ins_the_first_request_has_the_login_timeout(
    listen: Listen, slow_clock: trio.testing.MockClock
) -> None:
    """A connection that asks stays, a silent one is closed."""
    service = await listen(login_timeout_ms=300)
    asking, silent = await service.connect(), await service.connect()
    await asking.echo(b"1")
    await until(lambda: service.statistics[0] == 2)
    slow_clock.jump(0.3 + 2 * SWEEP_SECONDS)
    assert await silent.is_closed()
    await asking.echo(b"2")


async def test_requests_before_the_log_in_use_only_free_bytes(listen: Listen) -> None:
    service = await listen(users=USERS)
    for _ in range(3):
        client = await service.connect()
        await client.send(LOGIN_BYTES_MAX.to_bytes(4, "big") + bytes(LOGIN_BYTES_MAX - 1))
    await until(lambda: service.statistics[0] == 3)
    await (await service.connect()).log_in()
    assert service.listener.memory.bytes_held == 0
    assert service.statistics == (4, 0)


async def test_super_user_logs_in_on_a_reserved_place(listen: Listen) -> None:
    """Connections of other users on a reserved place are closed without an answer."""
    service = await listen(users=USERS, max_connections=1, reserved=2)
    alice = await service.connect()
    await alice.log_in()
    other = await service.connect()
    await other.choose()
    await other.send_token(GOOD_TOKEN)
    assert await other.is_closed()
    for _ in range(2):
        root = await service.connect()
        assert (await root.log_in(ROOT_TOKEN)).error_code == ErrorCode.NONE
        await root.echo(b"repair")
    assert await (await service.connect()).is_closed()
    await alice.echo(b"well")
    assert service.listener.statistics.connections_refused == 2


async def test_failed_log_in_gives_way(listen: Listen, mock_clock: trio.testing.MockClock) -> None:
    """It gives way even while its answer is delayed. Authenticated connections stay."""
    service, alice = await with_client(await listen(users=USERS, max_connections=2))
    await alice.log_in()
    mock_clock.jump(IDLE_SECONDS_MIN + 2 * SWEEP_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(3):
        stranger = await service.connect()
        await stranger.choose()
        await stranger.send_token(BAD_TOKEN)
    await until(lambda: service.listener.statistics.logins_failed == 3)
    await (await service.connect()).log_in()
    await alice.echo(b"well")


async def test_unauthenticated_client_that_does_not_read_gives_way(
    listen: Listen, nursery: trio.Nursery
) -> None:
    """ApiVersions of an unknown version may be requested any number of times."""
    service, stranger = await with_client(await listen(users=USERS, max_connections=1))
    stranger.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    unknown_version = frame(HEADER.pack(ApiKey.API_VERSIONS, 99, 1, -1), b"\0")

    async def ask_forever() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                await stranger.send(unknown_version * 1000)

    nursery.start_soon(ask_forever)
    await trio.testing.wait_all_tasks_blocked(0.2)
    await (await service.connect()).log_in()
    assert service.listener.statistics.connections_evicted == 1


async def test_drain_answers_requests_under_way(listen: Listen, nursery: trio.Nursery) -> None:
    """Idle connections are closed at once, new ones refused; then serve returns."""
    echo = Echo()
    service = await listen(echo)
    idle, busy = await service.connect(), await service.connect()
    await busy.send(to_echo(b"busy"))
    await until(lambda: echo.under_way == 1 and service.statistics[0] == 2)
    nursery.start_soon(service.listener.drain)
    assert await idle.is_closed()
    with pytest.raises(OSError, match="connect"):
        await service.connect()
    assert echo.under_way == 1
    echo.goes_on.set()
    assert await busy.receive() == echoed(b"busy")
    assert await busy.is_closed()
    with trio.fail_after(ENOUGH_S):
        await service.has_ended.wait()


async def test_drain_answers_a_request_that_has_arrived_unread(listen: Listen) -> None:
    service, client = await with_client(await listen())
    await client.echo(b"idle from here")
    await wait_all_tasks_blocked()
    os.write(client.stream.socket.fileno(), to_echo(b"arrived"))
    with trio.fail_after(ENOUGH_S):
        await service.listener.drain()
    assert await client.receive() == echoed(b"arrived")
    assert await client.is_closed()
