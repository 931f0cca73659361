"""Connections of any protocol: admission, eviction, and what a fault ends."""

import errno
import logging
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import trio
import trio.testing

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.net import connection as connection_module
from authorizerd.daemon.net import connection_server
from authorizerd.daemon.net.accepting import ACCEPT_DELAY_SECONDS_MAX
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.daemon.net.open_connections import IDLE_SECONDS_MIN, STALL_SECONDS_MIN
from authorizerd.tls.server import Identity, TlsServer
from authorizerd.tls.stream import Working
from tests.daemon.net.echo_server import (
    FAULT,
    HELLO,
    IDLE_S,
    LOGIN_S,
    PING,
    WAIT,
    Server,
    Stream,
    ask,
    is_closed,
    new_limits,
)
from tests.daemon.serving import MemoryListener, serve_in_memory, with_listener

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_newcomer_replaces_the_oldest_silent_connection(nursery: trio.Nursery) -> None:
    """Silent connections cannot lock out new clients; an established connection stays."""
    server, listener = await with_listener(nursery, Server(connections_max=3))
    first = listener.connect()
    assert await ask(first) == HELLO
    silent = [listener.connect() for _ in range(20)]
    await trio.testing.wait_all_tasks_blocked()
    assert await ask(listener.connect()) == HELLO
    for client in silent[:19]:
        assert await is_closed(client)
    assert await ask(silent[19]) == HELLO
    assert await ask(first) == HELLO
    seen = server.statistics
    assert (seen.connections_open, seen.connections_evicted, seen.connections_refused) == (3, 19, 0)


async def test_established_connection_yields_only_after_idling_long(nursery: trio.Nursery) -> None:
    """Until then a newcomer is refused. A connection that has sent a request since then stays."""
    server, listener = await with_listener(nursery, Server())
    idle, busy = listener.connect(), listener.connect()
    await ask(idle)
    await ask(busy)
    assert await ask(listener.connect(), b"?") == b"too many"
    await trio.sleep(IDLE_SECONDS_MIN + 2 * SWEEP_SECONDS)
    await ask(busy)
    assert await ask(listener.connect()) == HELLO
    assert await is_closed(idle)
    assert await ask(busy) == HELLO
    assert await ask(listener.connect(), b"?") == b"too many"
    seen = server.statistics
    assert (seen.connections_refused, seen.connections_refused_per_ip) == (2, 0)


@pytest.mark.parametrize("others", [0, 1])
async def test_connection_that_asks_while_it_gives_way_keeps_no_place(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, others: int
) -> None:
    """Its task still answers the request that has arrived, but it gives way only once."""
    server, listener = await with_listener(nursery, Server())
    client, *_ = [listener.connect() for _ in range(1 + others)]
    await trio.testing.wait_all_tasks_blocked()
    await client.send_all(PING)  # the server's task has not run since
    assert server._slots.evict(None)
    await trio.testing.wait_all_tasks_blocked()
    assert server.newest is not None
    server.newest.enter(Phase.IDLE)  # as after an answer that a socket took at once
    for _ in range(others):
        assert server._slots.evict(None)
    assert not server._slots.evict(None)
    assert not caplog.records


async def test_stranger_that_was_answered_gives_way_at_once(nursery: trio.Nursery) -> None:
    """The one that has been quiet for the longest time does. Known peers stay."""
    server, listener = await with_listener(nursery, Server(connections_max=3))
    known, strangers = listener.connect(), [listener.connect() for _ in range(2)]
    assert await ask(known) == HELLO
    for stranger in strangers:
        assert await ask(stranger, PING) == PING
    await trio.sleep(1)
    assert await ask(strangers[0], PING) == PING
    newcomer = listener.connect()
    assert await ask(newcomer) == HELLO
    assert await is_closed(strangers[1])
    for client in (known, strangers[0], newcomer):
        assert await ask(client, PING) == PING
    seen = server.statistics
    assert (seen.connections_evicted, seen.connections_refused) == (1, 0)


async def test_connection_with_a_request_under_way_never_gives_way(nursery: trio.Nursery) -> None:
    server, listener = await with_listener(nursery, Server())
    clients = [listener.connect() for _ in range(2)]
    await ask(clients[0])
    for client in clients:
        await client.send_all(WAIT)
    await trio.sleep(2 * IDLE_S)
    assert await ask(listener.connect(), b"?") == b"too many"
    server.goes_on.set()
    for client in clients:
        assert await client.receive_some() == WAIT


async def test_requests_do_not_extend_the_time_to_log_in(nursery: trio.Nursery) -> None:
    """A client that is served but does not log in is closed at the deadline."""
    server = Server()
    client = (await serve_in_memory(nursery, server)).connect()
    started = trio.current_time()
    with suppress(trio.BrokenResourceError):
        for _ in range(int(2 * LOGIN_S)):
            assert await ask(client, b"?") in (b"?", b"")
            await trio.sleep(1)
    assert LOGIN_S <= trio.current_time() - started <= LOGIN_S + 2
    seen = server.statistics
    assert (seen.connections_timed_out, seen.connections_never_established) == (1, 1)


async def test_established_connection_that_idles_is_counted_as_such(nursery: trio.Nursery) -> None:
    server = Server()
    client = (await serve_in_memory(nursery, server)).connect()
    assert await ask(client) == HELLO
    assert await is_closed(client)
    seen = server.statistics
    assert (seen.connections_timed_out, seen.connections_never_established) == (1, 0)


@pytest.mark.parametrize(
    ("is_established", "stalls_s"), [(False, STALL_SECONDS_MIN), (True, IDLE_SECONDS_MIN)]
)
async def test_memory_of_a_stalled_request_goes_to_others(
    nursery: trio.Nursery, is_established: bool, stalls_s: float
) -> None:
    """Memory is taken from a connection only after a long stall."""
    server, listener = await with_listener(nursery, Server())
    holder, other = listener.connect(), listener.connect()
    for client in (holder, other) if is_established else (other,):
        await ask(client)
    half = b"large" + bytes(FREE_BYTES + 900)
    await holder.send_all(half)
    await trio.sleep(stalls_s / 2)
    await other.send_all(half)
    assert await is_closed(other)
    await trio.sleep(stalls_s / 2 + 2 * SWEEP_SECONDS)
    third = listener.connect()
    await third.send_all(half)
    assert await is_closed(holder)
    assert server.memory.bytes_held == len(half) - FREE_BYTES
    seen = server.statistics
    assert (seen.connections_open, seen.connections_evicted, seen.requests_refused) == (1, 1, 1)


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("fault"),
        OSError(errno.ENOTCONN, "not connected"),
        ExceptionGroup("several", [ValueError("a"), OSError("b")]),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_fault_of_any_kind_ends_its_own_connection_only(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    """The fault is logged once, and counted."""
    server = Server()
    server.fault = fault
    listener = await serve_in_memory(nursery, server)
    client, other = listener.connect(), listener.connect()
    await client.send_all(FAULT)
    assert await is_closed(client)
    assert await ask(other) == HELLO
    assert server.statistics.connections_broken == 1
    assert [record.getMessage() for record in caplog.records] == ["TEST: connection closed"]


async def test_fault_during_a_cancellation_is_logged_and_the_cancellation_propagates(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    ended = trio.Event()

    class Mixed(Server):
        async def converse(self, connection: Connection) -> None:
            async with trio.open_nursery() as inner:
                inner.start_soon(trio.sleep_forever)
                try:
                    await trio.sleep_forever()
                finally:
                    ended.set()
                    raise ValueError("fault")

    client = (await serve_in_memory(nursery, Mixed())).connect()
    await trio.testing.wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True), trio.fail_after(5):
        await ended.wait()
        assert await is_closed(client)
    assert [record.getMessage() for record in caplog.records] == ["TEST: connection closed"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EPERM])
async def test_failed_accept_is_retried_and_logged_once_a_minute(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """The delay between tries grows. No traceback is logged."""
    server = Server()
    listener = MemoryListener()
    for _ in range(20):
        listener.fail(OSError(number, "fault"))
    started = trio.current_time()
    await nursery.start(lambda task_status: server.serve([listener], task_status=task_status))
    assert await ask(listener.connect()) == HELLO
    took = trio.current_time() - started
    assert 10 * ACCEPT_DELAY_SECONDS_MAX < took <= 20 * ACCEPT_DELAY_SECONDS_MAX
    assert server.statistics.accepts_failed == 20
    [record] = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "connections cannot be accepted" in record.getMessage()


class SlowServer(Server):
    """A server that delays each connection by ``delay_s``."""

    delay_s = 5.0

    def reserve_accept(self) -> float:
        return self.delay_s


async def test_delayed_connections_are_served_one_after_another(nursery: trio.Nursery) -> None:
    """No connection is refused, and the open ones are served meanwhile."""
    server, listener = await with_listener(nursery, SlowServer(connections_max=10))
    started = trio.current_time()
    clients = [listener.connect() for _ in range(3)]
    for number, client in enumerate(clients, 1):
        assert await ask(client) == HELLO
        assert trio.current_time() - started == pytest.approx(number * SlowServer.delay_s)
        assert await ask(clients[0]) == HELLO
        assert trio.current_time() - started == pytest.approx(number * SlowServer.delay_s)
    assert server.statistics.connections_refused == 0


async def test_delayed_connection_is_closed_when_the_server_drains(nursery: trio.Nursery) -> None:
    server = SlowServer()
    client = (await serve_in_memory(nursery, server)).connect()
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    await server.drain()
    assert await is_closed(client)
    assert trio.current_time() == started
    assert server.statistics.connections_accepted == 0


@pytest.mark.parametrize(
    ("address", "most"),
    [
        ("127.0.0.1", 2**31 - 1),
        ("127.8.0.1", 2**31 - 1),
        ("0:0:0:0:0:0:0:1", 2**31 - 1),
        ("10.0.0.1", 3),
        ("fe80:0:0:0:0:0:0:1%eth0", 3),
        ("2001:db8:0:0:0:0:0:1", 3),
        ("10.0.0.2", 7),
    ],
)
def test_address_limit(address: str, most: int) -> None:
    """Loopback is shared by all users of a machine, so it has no limit by default."""
    assert new_limits(per_address=3, overrides={"10.0.0.2": 7}).of_address(address) == most


class Handshakes(TlsServer):
    """Handshakes without TLS: a step runs until ``goes_on`` is set, and then the peer must send."""

    def __init__(self) -> None:
        self.goes_on = trio.Event()

    async def accept(
        self, transport: Stream, working: Working = nullcontext, *, answered: object = None
    ) -> tuple[Any, Identity | None]:
        if await transport.receive_some(1) == b"h":
            with working():
                await self.goes_on.wait()
        return transport, None


async def test_handshakes_that_wait_for_a_thread_are_not_evicted(nursery: trio.Nursery) -> None:
    """Otherwise a flood would evict each client before its turn, and nobody could connect."""
    tls = Handshakes()
    server, listener = await with_listener(nursery, Server(connections_max=4, tls=tls))
    working = listener.connect()
    await working.send_all(b"h")
    silent = [listener.connect() for _ in range(4)]
    await trio.testing.wait_all_tasks_blocked()
    assert await is_closed(silent[0])
    await silent[1].send_all(b"h")
    await trio.testing.wait_all_tasks_blocked()
    # Now half of the places wait for threads: newcomers do not make the others lose theirs.
    assert await is_closed(listener.connect())
    assert server.statistics.connections_evicted == 1
    tls.goes_on.set()
    await trio.testing.wait_all_tasks_blocked()
    for client in (working, silent[1]):
        assert await ask(client) == HELLO
    newcomer = listener.connect()
    await trio.testing.wait_all_tasks_blocked()
    assert await is_closed(silent[2])
    await newcomer.send_all(b"h")
    assert await ask(newcomer) == HELLO


async def test_drain_ends_handshakes_after_their_step(nursery: trio.Nursery) -> None:
    tls = Handshakes()
    server = Server(tls=tls)
    client = (await serve_in_memory(nursery, server)).connect()
    await client.send_all(b"h")
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    tls.goes_on.set()
    assert await is_closed(client)
    assert trio.current_time() == started


async def test_identity_ends_with_its_certificate(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is being sent is completed first."""
    server, listener = await with_listener(nursery, Server())
    idle, busy = listener.connect(), listener.connect()
    for client in (idle, busy):
        assert await ask(client) == HELLO
        assert server.newest is not None
        server.newest.principal = "User:alice"
        server.newest.expires_at = 5
    monkeypatch.setattr(connection_module, "wall_clock", trio.current_time)
    await busy.send_all(WAIT)
    await trio.sleep(4)
    assert server.statistics.connections_open == 2
    await trio.sleep(2)
    assert await is_closed(idle)
    assert server.statistics.connections_open == 1
    server.goes_on.set()
    assert await busy.receive_some() == WAIT
    assert await is_closed(busy)
    assert server.statistics.connections_expired == 2


async def test_connection_that_ends_during_the_sweep_is_not_counted_as_expired(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_server, "_SWEPT_AT_ONCE", 1)
    server, listener = await with_listener(nursery, Server(connections_max=20))
    clients = [listener.connect() for _ in range(20)]
    for client in clients:
        assert await ask(client) == HELLO
    assert server.newest is not None
    server.newest.expires_at = server.next_sweep
    monkeypatch.setattr(connection_module, "wall_clock", trio.current_time)
    await trio.sleep_until(server.next_sweep)
    await clients[-1].aclose()
    await trio.sleep(SWEEP_SECONDS)
    seen = server.statistics
    assert (seen.connections_open, seen.connections_expired) == (19, 0)


async def test_only_identified_connections_are_ended(nursery: trio.Nursery) -> None:
    server, listener = await with_listener(nursery, Server())
    anonymous, identified = listener.connect(), listener.connect()
    for client in (anonymous, identified):
        assert await ask(client) == HELLO
    assert server.newest is not None
    server.newest.principal = "User:alice"
    server.end_identified()
    await trio.sleep(2 * SWEEP_SECONDS)
    assert await is_closed(identified)
    assert await ask(anonymous) == HELLO
