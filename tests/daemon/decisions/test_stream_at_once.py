"""Frames that the Selector, or a connection's task, answers at once, next to all others."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.daemon.decisions.stream_server import QUESTIONS_PER_TURN, StreamServer
from authorizerd.protocol.decisions.stream import Answer, StreamClientConnection
from authorizerd.protocol.framing import frame
from tests.daemon.decision_place import Place
from tests.daemon.http_service import connect, receive_all
from tests.daemon.serving import send_pieces, serve_in_memory, serve_on_loopback, split_at
from tests.daemon.stream_questions import ACLS, ALLOWED, DENIED, MAY, MAY_NOT, question
from tests.daemon.stream_service import Client, new_server
from tests.support.sizes import size

ASK = StreamClientConnection(0).ask
ASKED = (MAY, MAY_NOT, question(name=""), question("User:*"))
FRAMES = st.one_of(
    st.builds(
        ASK,
        st.integers(0, 9),
        st.lists(st.sampled_from(ASKED), max_size=4),
        st.sampled_from([-1, 0]),
    ),
    st.sampled_from(
        [
            ASK(1, [MAY] * (2 * QUESTIONS_PER_TURN)),
            ASK(2, [question("p" * 5000)]),
            frame(msgspec.msgpack.encode((9, [MAY[:4]]))),
            frame(b""),
            frame(b"x"),
            b"HTTP/1.1 200 OK\r\n\r\n",
        ]
    ),
)


async def connect_to(
    nursery: trio.Nursery, server: StreamServer, *, in_memory: bool
) -> trio.abc.HalfCloseableStream:
    if in_memory:
        return (await serve_in_memory(nursery, server)).connect()
    return await connect(await serve_on_loopback(nursery, server))


async def answers_to(server: StreamServer, pieces: Sequence[bytes], *, in_memory: bool) -> bytes:
    """Return all that a server of its own sends to a client that sends these pieces."""
    async with trio.open_nursery() as nursery:
        client = await connect_to(nursery, server, in_memory=in_memory)
        await Client(client).greet()
        received = await send_pieces(client, pieces, receive_all)
        nursery.cancel_scope.cancel()
    return received


@settings(max_examples=size(10, 60), deadline=None)
@given(frames=st.lists(FRAMES, min_size=1, max_size=6), data=st.data())
async def test_answers_ignore_split_and_path(frames: list[bytes], data: st.DataObject) -> None:
    """The Selector, a task that answers at once, and one that takes turns give the same bytes."""
    stream = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    split = split_at(frames, cuts)
    servers = [new_server(Place(None, *ACLS)) for _ in range(3)]
    asked: list[tuple[list[bytes], bool]] = [(split, False), (split, True), ([stream], True)]
    answers = [
        await answers_to(server, pieces, in_memory=in_memory)
        for server, (pieces, in_memory) in zip(servers, asked, strict=True)
    ]
    if b"reset" not in answers:  # of data after an invalid frame
        assert answers[0] == answers[1] == answers[2]
    counts = [
        (server.statistics.requests, server.counts.allowed, server.counts.invalid)
        for server in servers
    ]
    assert len(set(counts)) == 1


@pytest.mark.parametrize("in_memory", [False, True])
async def test_single_frame_needs_no_task(
    in_memory: bool, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test of equal answers would compare nothing. A longer frame takes turns."""
    server = new_server(Place(None, *ACLS))
    client = Client(await connect_to(nursery, server, in_memory=in_memory))
    await client.greet()

    async def answer_all(self: Any) -> None:  # noqa: ANN401 - a private class
        assert len(self._unanswered.questions) == QUESTIONS_PER_TURN
        self._unanswered = None
        await self._connection.send(ASK(7, []))

    monkeypatch.setattr(
        "authorizerd.daemon.decisions.stream_server._Conversation._answer_all", answer_all
    )
    for number in range(3):
        assert await client.ask([MAY, MAY_NOT], number) == Answer(number, 0, 0, ALLOWED + DENIED)
    assert server.counts.allowed == 3
    (connection,) = server._open
    assert connection.since == server.next_sweep
    assert connection.reservation.size == 0
    await client.stream.send_all(ASK(1, [MAY] * QUESTIONS_PER_TURN))
    assert await client.stream.receive_some(100) == ASK(7, [])
    await client.stream.aclose()


async def test_silent_connection_times_out_while_the_selector_has_it(nursery: trio.Nursery) -> None:
    """The idle time begins again with a frame that is answered at once."""
    server = new_server(Place(None, *ACLS))
    client = Client(await connect_to(nursery, server, in_memory=False))
    await client.greet()
    await client.ask([MAY])
    (connection,) = server._open
    connection.since -= 1000
    assert await client.is_closed()
    assert server.statistics.connections_timed_out == 1
    await client.stream.aclose()
