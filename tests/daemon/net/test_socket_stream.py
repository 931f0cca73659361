"""The stream of a connection, tested over a pair of sockets."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing

from authorizerd.daemon.net.socket_stream import LINGER_SECONDS, SocketStream, send_last

SENT = bytes(1 << 20) + b"end"


def new_pair() -> tuple[SocketStream, trio.SocketStream]:
    ours, theirs = trio.socket.socketpair()
    return SocketStream(trio.SocketStream(ours)), trio.SocketStream(theirs)


@pytest.mark.parametrize("call", ["read", "write"])
async def test_socket_that_is_not_ready_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
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


async def test_last_answer_waits_until_the_peer_has_read_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Closing earlier would reset the connection. The wait is bounded."""
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with ours, theirs:
        await theirs.send_all(b"not read yet")
        await send_last(ours, b"bye")
        assert trio.current_time() - began == LINGER_SECONDS
        assert await theirs.receive_some() == b"bye"
        assert await theirs.receive_some() == b""
