"""The Selector over real sockets, and the stream of a connection."""

import os
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from authorizerd.daemon.net import selector as module
from authorizerd.daemon.net import turns
from authorizerd.daemon.net.selector import EVENTS_MAX, Selector
from authorizerd.daemon.net.socket_stream import LINGER_SECONDS, SocketStream, send_last
from authorizerd.daemon.process.gc_control import automatic_collection_off

LARGE = bytes(16 * 1024 * 1024)
"""More than a socket takes."""


class Echo:
    """Echo at once; leave bytes that begin with ``?`` to the task, and answer ``!`` at length."""

    def __init__(self) -> None:
        self.unsent: list[int] = []
        self.left: list[bytes] = []

    def receive(self, data: bytes) -> bytes | None:
        if not data or data.startswith(b"?"):
            self.left.append(data)
            return None
        if data == b"fault":
            raise ZeroDivisionError
        if data == b"!":
            return LARGE
        return data

    def hold_unsent(self, size: int) -> None:
        self.unsent.append(size)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Selector, trio.Nursery]]:
    """Yield a Selector that runs, and a nursery for tasks that wait."""
    with Selector() as selector:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(selector.run)
            yield selector, nursery
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        ours.settimeout(5)
        yield ours, theirs


async def test_request_is_answered_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not wait until the Selector's own task runs, which here never does."""

    async def wait_forever(_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio.lowlevel, "wait_readable", wait_forever)
    monkeypatch.setattr(turns, "BETWEEN_NS", 0)
    async with socket_pair() as (ours, theirs), running() as (selector, nursery):
        nursery.start_soon(selector.wait, theirs.fileno(), Echo())
        await trio.testing.wait_all_tasks_blocked()
        ours.send(b"a")
        await turns.current_turns().wait()
        assert ours.recv(9, socket.MSG_DONTWAIT) == b"a"


async def test_requests_are_answered_until_one_needs_the_task() -> None:
    """Then no more is read."""
    async with socket_pair() as (ours, theirs), running() as (selector, _):
        echo, waited = Echo(), []

        async def wait() -> None:
            waited.append(await selector.wait(theirs.fileno(), echo))

        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            for data in (b"a", b"b"):
                ours.send(data)
                await trio.lowlevel.wait_readable(ours)
                assert ours.recv(10) == data
            ours.send(b"?c")
        assert (waited, echo.left) == ([b""], [b"?c"])
        ours.send(b"d")
        await trio.testing.wait_all_tasks_blocked()
        assert not selector.is_ready, "nobody waits, so nobody is registered"


async def test_end_of_the_stream_reaches_the_task() -> None:
    async with socket_pair() as (ours, theirs), running() as (selector, _):
        ours.shutdown(socket.SHUT_WR)
        echo = Echo()
        assert await selector.wait(theirs.fileno(), echo) == b""
        assert echo.left == [b""]


async def test_rest_of_an_answer_reaches_the_task() -> None:
    async with socket_pair() as (ours, theirs), running() as (selector, _):
        echo = Echo()
        ours.send(b"!")
        unsent = await selector.wait(theirs.fileno(), echo)
        assert echo.unsent == [len(unsent)]
        taken = len(LARGE) - len(unsent)
        assert 0 < taken < len(LARGE)
        # The socket is full now, so all of the next answer is left.
        ours.send(b"!")
        assert await selector.wait(theirs.fileno(), echo) == LARGE


async def test_fault_and_reset_reach_only_their_own_task() -> None:
    async with (
        socket_pair() as (faulty, faulty_end),
        socket_pair() as (sound, sound_end),
        running() as (selector, nursery),
    ):
        nursery.start_soon(selector.wait, sound_end.fileno(), Echo())
        faulty.send(b"fault")
        with pytest.raises(ZeroDivisionError):
            await selector.wait(faulty_end.fileno(), Echo())
        faulty_end.send(b"unread")
        faulty.close()
        with pytest.raises(trio.BrokenResourceError):
            await selector.wait(faulty_end.fileno(), Echo())
        sound.send(b"a")
        await trio.lowlevel.wait_readable(sound)
        assert sound.recv(10) == b"a"


@pytest.mark.parametrize("sent", [b"fault", b""], ids=["fault", "reset"])
async def test_connection_that_ends_with_an_error_is_freed_uncollected(sent: bytes) -> None:
    """Otherwise each one would leak, since the daemon freezes its objects while it waits."""
    async with socket_pair() as (ours, theirs), running() as (selector, _):
        theirs.send(b"unread")
        ours.send(sent)
        if not sent:
            ours.close()
        channel = Echo()
        freed = weakref.ref(channel)
        with automatic_collection_off():
            # Not pytest.raises, which would keep the frames.
            try:
                await selector.wait(theirs.fileno(), channel)
            except (ZeroDivisionError, trio.BrokenResourceError):
                del channel
            assert freed() is None


async def test_cancelled_wait_reads_nothing() -> None:
    """Its number is free at once: the kernel may give it to the next connection."""
    async with socket_pair() as (ours, theirs), running() as (selector, _):
        with trio.move_on_after(0):
            await selector.wait(theirs.fileno(), Echo())
        ours.send(b"a")
        await trio.testing.wait_all_tasks_blocked()
        assert os.read(theirs.fileno(), 10) == b"a"
        ours.send(b"?b")
        echo = Echo()
        await selector.wait(theirs.fileno(), echo)
        assert echo.left == [b"?b"]


async def test_connections_without_pauses_delay_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each turn ends after one request, all are still served in turn."""
    monkeypatch.setattr(module, "TURN_NS_MAX", 0)
    served: list[int] = []
    # The kernel reports them in turn, so the last one of each report is always one of two.
    pairs = [socket.socketpair() for _ in range(2 * EVENTS_MAX)]

    class Busy:
        def __init__(self, number: int) -> None:
            self.number = number

        def receive(self, data: bytes) -> bytes:
            served.append(self.number)
            pairs[self.number][0].send(b"again")
            return b"x"

        def hold_unsent(self, size: int) -> None:
            raise AssertionError

    async with running() as (selector, nursery):
        for number, (ours, theirs) in enumerate(pairs):
            theirs.setblocking(False)
            nursery.start_soon(selector.wait, theirs.fileno(), Busy(number))
            ours.send(b"first")
        with trio.fail_after(20):
            while len(served) < 2 * len(pairs):
                await trio.lowlevel.checkpoint()
        assert set(served[: 2 * len(pairs)]) == set(range(len(pairs)))
    for pair in pairs:
        for end in pair:
            end.close()


SENT = bytes(1 << 20) + b"end"


def new_pair() -> tuple[SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return SocketStream(trio.SocketStream(ours)), trio.SocketStream(theirs)


@pytest.mark.parametrize("call", ["read", "write"])
async def test_unready_socket_is_waited_for(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The kernel may report data that is not there, and may have no space to write."""
    real = getattr(os, call)
    calls = 0

    def do_at_second_try(descriptor: int, argument: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise BlockingIOError
        return real(descriptor, argument)

    ours, theirs = new_pair()
    async with ours, theirs:
        monkeypatch.setattr(os, call, do_at_second_try)
        await ours.send_all(b"answer")
        with trio.fail_after(5):
            assert await theirs.receive_some() == b"answer"
        await theirs.send_all(b"request")
        assert await ours.receive_some() == b"request"
    assert calls >= 1


async def test_partial_write_is_completed_in_order() -> None:
    ours, theirs = new_pair()
    received = bytearray()

    async def send() -> None:
        async with ours:
            await ours.send_all(SENT)

    async with theirs, trio.open_nursery() as nursery:
        nursery.start_soon(send)
        async for data in theirs:
            received += data
    assert len(received) == len(SENT)
    assert received.endswith(b"end")


async def test_disconnected_peer_raises_trios_error() -> None:
    ours, theirs = new_pair()
    async with ours:
        await theirs.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(b"answer")


@pytest.mark.usefixtures("autojump_clock")
async def test_last_answer_waits_until_the_peer_has_read_it() -> None:
    """Closing earlier would reset the connection. The wait is bounded."""
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with ours, theirs:
        await theirs.send_all(b"not read yet")
        await send_last(ours, b"bye")
        assert trio.current_time() - began == LINGER_SECONDS
        assert await theirs.receive_some() == b"bye"
        assert await theirs.receive_some() == b""
