"""Arrivals: who is served next, how many in one turn, and what a silent connection costs."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.tls import ClientAuth
from authorizerd.daemon.net import connection_server
from authorizerd.daemon.net.accepting import ACCEPTS_PER_TURN, Accepted, Acceptor
from authorizerd.daemon.net.arrivals import (
    STARTS_PER_TURN,
    Arrival,
    ArrivalQueue,
    Arrivals,
    Opening,
)
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS, ConnectionServer
from authorizerd.daemon.net.handshakes import HANDSHAKES_STARTED_MAX
from authorizerd.tls import stream as stream_module
from authorizerd.tls.client_hello import is_last_answer
from tests.daemon.net.echo_server import HELLO, LOGIN_S, PART, Server, ask, is_closed
from tests.daemon.serving import serve_on_loopback
from tests.support.certificates import Authority
from tests.support.tls_servers import new_tls_server, server_settings

NETWORKS = st.sampled_from("abc")
UNANSWERED_MAX = 8  # instead of 64 answers with a signature each
PART_OF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00"


class Named:
    """An arrival, with the only field that a queue reads."""

    def __init__(self, network: str) -> None:
        self.network = network


@given(st.lists(NETWORKS, max_size=12), st.lists(st.integers(0, 11), max_size=3))
def test_networks_take_turns_newest_first(networks: list[str], discarded: list[int]) -> None:
    """Between two arrivals of one network comes one of each other network that waits."""
    queue = ArrivalQueue()
    arrivals = [cast(Arrival, Named(network)) for network in networks]
    for arrival in arrivals:
        queue.add(arrival)
    gone = [arrival for number, arrival in enumerate(arrivals) if number in discarded]
    for arrival in gone:
        queue.discard(arrival)
    waiting = [arrival for arrival in arrivals if arrival not in gone]
    since: dict[str | None, set[str | None]] = {}
    while waiting:
        served = queue.pop()
        network = served.network
        assert served is [each for each in waiting if each.network == network][-1]
        assert since.get(network, set()) >= {each.network for each in waiting} - {network} or (
            network not in since
        )
        since = {each: served_since | {network} for each, served_since in since.items()}
        since[network] = set()
        waiting = [each for each in waiting if each is not served]
    assert not queue


@contextmanager
def sent(*, count: int) -> Iterator[list[Arrival]]:
    """Yield arrivals whose peers have sent a byte."""
    pairs = [socket.socketpair() for _ in range(count)]
    for _, theirs in pairs:
        theirs.send(b"?")
    try:
        yield [Arrival(ours, Server().limits, 0) for ours, _ in pairs]
    finally:
        for pair in pairs:
            for each in pair:
                each.close()


def new_arrivals(
    classify: Callable[[Arrival, bytes], Opening],
    started: list[Arrival],
    ended: list[Arrival] | None = None,
    may_start: Callable[[], bool] = lambda: True,
    *,
    is_served: bool = True,
) -> Arrivals:
    """Return arrivals that are only noted when they are served or ended.

    Without ``is_served``, each must send more before it is served, like a TLS client.
    """

    def start(arrival: Arrival) -> bool:
        if is_served:
            arrivals.discard(arrival)
        started.append(arrival)
        return is_served

    def end(arrival: Arrival) -> None:
        arrivals.discard(arrival)
        assert ended is not None
        ended.append(arrival)

    arrivals = Arrivals(classify, may_start, start, end)
    return arrivals


class EachTurn(trio.abc.Instrument):
    """How much a list has grown in each turn of the event loop."""

    def __init__(self, counted: list[socket.socket] | list[Arrival]) -> None:
        self._counted = counted
        self._before = 0
        self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, len(self._counted) - self._before)
        self._before = len(self._counted)


async def count_in_turns(
    counted: list[socket.socket] | list[Arrival], most: int, run: Callable[[], Awaitable[object]]
) -> int:
    """Run until ``most`` are counted, and return how many were counted in one turn at most."""
    each_turn = EachTurn(counted)
    trio.lowlevel.add_instrument(each_turn)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            with trio.fail_after(5):
                while len(counted) < most:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    finally:
        trio.lowlevel.remove_instrument(each_turn)
    return each_turn.most


@pytest.mark.parametrize(
    ("opening", "is_served", "allowed"),
    [
        (Opening.READY, True, STARTS_PER_TURN),
        (Opening.READY, False, 1),
        (Opening.DOUBTFUL, True, 1),
    ],
)
async def test_only_a_few_arrivals_begin_in_one_turn(
    opening: Opening, is_served: bool, allowed: int
) -> None:
    started: list[Arrival] = []
    with sent(count=10 * STARTS_PER_TURN) as waiting:
        arrivals = new_arrivals(
            lambda arrival, _: Opening.PARTIAL if arrival in started else opening,
            started,
            is_served=is_served,
        )
        with arrivals:
            for arrival in waiting:
                arrivals.add(arrival)
            most = await count_in_turns(started, len(waiting), arrivals.run)
    assert most == allowed


async def test_only_some_connections_are_accepted_in_one_turn() -> None:
    taken: list[socket.socket] = []
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listener.socket.getsockname()
    with ExitStack() as stack:
        for _ in range(5 * ACCEPTS_PER_TURN):
            stack.enter_context(socket.create_connection(address))

        class Taker(Acceptor):
            def _take(self, accepted: Accepted) -> None:
                assert isinstance(accepted, socket.socket)
                taken.append(stack.enter_context(accepted))

        server = Server()
        taker = Taker(server, server._slots, server._arrivals, b"")

        async def accept() -> None:
            await taker.accept_all(listener)

        assert await count_in_turns(taken, 5 * ACCEPTS_PER_TURN, accept) == ACCEPTS_PER_TURN


async def test_proven_arrivals_come_before_doubtful_ones() -> None:
    started: list[Arrival] = []
    with sent(count=4) as waiting:
        doubtful = set(waiting[::2])
        arrivals = new_arrivals(
            lambda arrival, _: Opening.DOUBTFUL if arrival in doubtful else Opening.READY, started
        )
        with arrivals, trio.move_on_after(0.2):
            for arrival in waiting:
                arrivals.add(arrival)
            await arrivals.run()
        assert [each in doubtful for each in started] == [False, False, True, True]


async def test_arrival_is_doubtful_until_the_rest_of_its_request_has_arrived() -> None:
    started: list[Arrival] = []
    may_start = False

    def classify(_: Arrival, opening: bytes) -> Opening:
        return Opening.READY if opening == b"??" else Opening.DOUBTFUL

    ours, theirs = socket.socketpair()
    theirs.send(b"?")
    with ours, theirs, sent(count=1) as [part]:
        whole = Arrival(ours, Server().limits, 0)
        arrivals = new_arrivals(classify, started, may_start=lambda: may_start)
        with arrivals:
            arrivals.add(whole)
            arrivals.add(part)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(arrivals.run)
                theirs.send(b"?")
                await trio.testing.wait_all_tasks_blocked(0.01)
                may_start = True
                arrivals.wake()
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
        assert started == [whole, part]
        assert not arrivals._doubtful


async def test_broken_connection_ends_alone() -> None:
    """Also if it breaks while its first bytes are answered."""
    ended: list[Arrival] = []

    def classify(arrival: Arrival, _: bytes) -> Opening:
        if arrival is waiting[0]:
            raise ConnectionResetError
        return Opening.READY

    started: list[Arrival] = []
    with sent(count=2) as waiting:
        arrivals = new_arrivals(classify, started, ended)
        with arrivals, trio.move_on_after(0.2):
            for arrival in waiting:
                arrivals.add(arrival)
            await arrivals.run()
        assert (ended, started) == (waiting[:1], waiting[1:])


async def connect(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


async def until_accepted(server: ConnectionServer, count: int) -> None:
    with trio.fail_after(5):
        while server.statistics.connections_accepted < count:
            await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()


async def test_silent_connection_has_a_place_and_no_task(nursery: trio.Nursery) -> None:
    server = Server()
    silent = await connect(await serve_on_loopback(nursery, server))
    await until_accepted(server, 1)
    assert (server.statistics.connections_open, len(server._open)) == (1, 0)
    assert await ask(silent) == HELLO
    assert (server.statistics.connections_open, len(server._open)) == (1, 1)
    await silent.aclose()


async def test_whole_requests_come_before_parts(nursery: trio.Nursery) -> None:
    server = Server(connections_max=10)
    arrivals = server._arrivals
    began: list[bytes] = []
    may_start, start = False, arrivals._start

    def note(arrival: Arrival) -> bool:
        began.append(arrival.socket.recv(100, socket.MSG_PEEK))
        return start(arrival)

    arrivals._may_start, arrivals._start = lambda: may_start, note  # type: ignore[misc]  # before the start
    port = await serve_on_loopback(nursery, server)
    clients = [await connect(port) for _ in range(4)]
    for client, data in zip(clients, [PART, HELLO, PART, PART], strict=True):
        await client.send_all(data)
    await until_accepted(server, 4)
    await trio.testing.wait_all_tasks_blocked(0.01)
    may_start = True
    arrivals.wake()
    await trio.testing.wait_all_tasks_blocked(0.01)
    for client in clients:
        await client.aclose()
    assert began == [HELLO, PART, PART, PART]


async def test_connection_that_is_closed_at_once_takes_nobodys_place(nursery: trio.Nursery) -> None:
    server = Server(connections_max=1)
    port = await serve_on_loopback(nursery, server)
    silent = await connect(port)
    await until_accepted(server, 1)
    for _ in range(20):
        socket.create_connection(("127.0.0.1", port)).close()
    await until_accepted(server, 21)
    seen = server.statistics
    assert (seen.connections_evicted, seen.connections_refused) == (0, 0)
    assert await ask(silent) == HELLO
    await silent.aclose()


async def test_silent_connection_ends_at_the_login_timeout(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server()
    autojump_clock.autojump_threshold = float("inf")
    silent = await connect(await serve_on_loopback(nursery, server))
    await until_accepted(server, 1)
    autojump_clock.jump(LOGIN_S + 2 * SWEEP_SECONDS)
    await trio.testing.wait_all_tasks_blocked()
    assert await is_closed(silent)
    await silent.aclose()
    seen = server.statistics
    assert (seen.connections_timed_out, seen.connections_never_established) == (1, 1)
    assert seen.connections_open == 0


async def test_connection_after_a_pause_of_the_process_is_not_late(nursery: trio.Nursery) -> None:
    """The time of the next sweep is then an old one."""
    server = Server()
    port = await serve_on_loopback(nursery, server)
    await trio.testing.wait_all_tasks_blocked()
    server.next_sweep = trio.current_time() - 2 * LOGIN_S
    silent = await connect(port)
    await until_accepted(server, 1)
    server._end_late_arrivals(trio.current_time())
    assert await ask(silent) == HELLO
    await silent.aclose()


async def test_drain_answers_what_has_arrived_and_ends_the_others(nursery: trio.Nursery) -> None:
    server = Server(connections_max=10)
    port = await serve_on_loopback(nursery, server)
    silent, asking = await connect(port), await connect(port)
    await until_accepted(server, 2)
    await asking.send_all(HELLO)
    with trio.fail_after(5):
        await server.drain()
    assert await asking.receive_some() == HELLO
    assert await is_closed(silent)
    assert server.statistics.connections_open == 0
    for each in (silent, asking):
        await each.aclose()


async def test_drain_ends_connections_that_were_accepted_as_it_began(nursery: trio.Nursery) -> None:
    """Otherwise it would wait for an authentication that nobody answers any more."""
    for _ in range(20):  # the order of tasks in a turn of the loop is random
        server = Server(connections_max=10)
        port = await serve_on_loopback(nursery, server)
        await trio.testing.wait_all_tasks_blocked()
        with socket.create_connection(("127.0.0.1", port)):
            await trio.lowlevel.checkpoint()
            with trio.fail_after(5):
                await server.drain()


@pytest.fixture
def no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_server, "SWEEP_SECONDS", 1000.0)


@pytest.mark.usefixtures("no_sweeps")
@pytest.mark.parametrize("client_auth", [ClientAuth.NONE, ClientAuth.REQUIRED])
async def test_in_a_flood_a_client_answers_before_a_key_exchange(
    authority: Authority, nursery: trio.Nursery, client_auth: ClientAuth,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its first hello is retried, and its handshake completes. A part of a hello only waits."""
    monkeypatch.setattr("authorizerd.daemon.net.handshakes.UNANSWERED_MAX", UNANSWERED_MAX)
    server = new_server(authority, client_auth)
    assert server._handshakes is not None
    server._handshakes._pressed_until = float("inf")
    port = await serve_on_loopback(nursery, server)
    silent = []
    for number in range(UNANSWERED_MAX + 2):
        silent.append(await connect(port))
        await silent[-1].send_all(new_hello())
        with trio.fail_after(5):
            answer = bytes(await silent[-1].receive_some())
        assert is_last_answer(answer) == (number <= UNANSWERED_MAX)
    partial = await connect(port)
    await partial.send_all(PART_OF_HELLO)
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(authority.issue("alice"))
    with trio.fail_after(5):
        assert await trio.to_thread.run_sync(greet, port, context) == HELLO
    assert server.statistics.handshakes == 1
    for each in (partial, *silent):
        await each.aclose()


@pytest.mark.usefixtures("no_sweeps")
@pytest.mark.parametrize("client_auth", [ClientAuth.NONE, ClientAuth.REQUIRED])
async def test_clients_that_complete_their_handshakes_are_no_flood(
    authority: Authority, nursery: trio.Nursery, client_auth: ClientAuth
) -> None:
    server = new_server(authority, client_auth)
    assert server._handshakes is not None
    server._handshakes._pressed_until = float("inf")
    port = await serve_on_loopback(nursery, server)
    context = ssl.create_default_context(cafile=authority.ca_file)
    context.load_cert_chain(authority.issue("alice"))
    for _ in range(3):
        assert await trio.to_thread.run_sync(greet, port, context) == HELLO
    assert server._handshakes._unanswered == 0


async def test_quick_handshake_needs_no_thread(
    authority: Authority, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection has a task before its client has answered; a failure is counted."""
    server = new_server(authority, ClientAuth.NONE)
    port = await serve_on_loopback(nursery, server)
    context = ssl.create_default_context(cafile=authority.ca_file)
    monkeypatch.setattr(stream_module, "_HANDSHAKES", None)  # a thread would have no limiter
    silent = await connect(port)
    await silent.send_all(new_hello())
    with trio.fail_after(5):
        assert is_last_answer(bytes(await silent.receive_some()))
    assert not server._open
    with trio.fail_after(5):
        assert await trio.to_thread.run_sync(greet, port, context) == HELLO
    await silent.aclose()
    with trio.fail_after(5):
        while not server.statistics.handshakes_failed:
            await trio.lowlevel.checkpoint()
    assert server.statistics.handshakes == 1


def new_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def greet(port: int, context: ssl.SSLContext) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.send(HELLO)
        return client.recv(100)


async def test_no_handshake_begins_while_many_wait_for_threads(
    authority: Authority, nursery: trio.Nursery
) -> None:
    server = new_server(authority, ClientAuth.REQUIRED)
    assert server._handshakes is not None
    server._handshakes.started = HANDSHAKES_STARTED_MAX
    port = await serve_on_loopback(nursery, server)
    first = await connect(port)
    await first.send_all(new_hello())
    await until_accepted(server, 1)
    assert not server._open
    server._handshakes.started = 0
    server._arrivals.wake()
    with trio.fail_after(5):
        assert (await first.receive_some())[:1] == b"\x16"
    await first.aclose()


def new_server(authority: Authority, client_auth: ClientAuth) -> Server:
    settings = server_settings(authority, client_auth=client_auth)
    return Server(connections_max=20, tls=new_tls_server(settings))
