"""The decision stream: its connections and their callers' rights, from the hello to the drain."""

import logging
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from authorizerd.daemon.net.connection import Connection
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.protocol.decisions.stream import (
    Answer,
    Greeting,
    StreamClientConnection,
    StreamQuestion,
)
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.decision_place import OTHER, PROXY, ROOT, Place, cluster_action
from tests.daemon.stream_questions import (
    ACLS,
    ALICE,
    ALLOWED,
    DENIED,
    MAY,
    NOT_READY,
    at_offset,
    question,
)
from tests.daemon.stream_service import (
    DRAIN_TIMEOUT_S,
    FRAME_BYTES_MAX,
    IDLE_TIMEOUT_S,
    LOGIN_TIMEOUT_S,
    connected,
    new_server,
    start,
    until,
)
from tests.support.acls import acl

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_the_greeting_has_version_and_offset(nursery: trio.Nursery) -> None:
    """The offset is the daemon's position in the log."""
    place = Place(None)
    place.snapshot.publish(at_offset(41))
    client = (await start(nursery, new_server(place))).connect_client()
    assert await client.greet() == Greeting("hello", 1, ErrorCode.NONE, 41)


async def test_a_client_that_does_not_read_is_not_read_from(nursery: trio.Nursery) -> None:
    """The memory for its answers is bounded, and it is closed at the deadline."""
    server = new_server(Place(None, *ACLS))
    client = (await start(nursery, server, lockstep_stream_pair)).connect_client()
    nursery.start_soon(client.stream.send_all, client.frames.hello())
    await client.greeting()
    ask = client.frames.ask(1, [])
    sent = 0

    async def send() -> None:
        nonlocal sent
        with suppress(trio.BrokenResourceError):
            while True:
                await client.stream.send_all(ask * 100)
                sent += 100

    async with trio.open_nursery() as sending:
        sending.start_soon(send)
        await wait_all_tasks_blocked()
        taken = sent
        assert taken <= 200
        await trio.sleep(IDLE_TIMEOUT_S - 1)
        assert (sent, server.statistics.connections_open) == (taken, 1)
        await trio.sleep(2)
        sending.cancel_scope.cancel()
    assert server.statistics.connections_open == 0
    assert server.statistics.connections_timed_out == 1


async def test_an_idle_connection_is_closed(nursery: trio.Nursery) -> None:
    """It may idle before its hello, between frames or within one. It does not count as broken."""
    server = new_server(Place(None))
    listener = await start(nursery, server)
    for has_greeted, sent in ((False, b""), (False, b"\0\0"), (True, b""), (True, b"\0\0")):
        client = listener.connect_client()
        if has_greeted:
            await client.greet()
        if sent:
            await client.stream.send_all(sent)
        started = trio.current_time()
        assert await client.is_closed()
        timeout = IDLE_TIMEOUT_S if has_greeted else LOGIN_TIMEOUT_S
        assert timeout <= trio.current_time() - started <= timeout + 2 * SWEEP_SECONDS
    assert server.statistics.connections_timed_out == 4
    assert server.statistics.connections_broken == 0


INVALID_FRAMES = {
    "oversized": (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
    "a second hello": StreamClientConnection(0).hello(),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("bad", INVALID_FRAMES.values(), ids=INVALID_FRAMES)
async def test_an_invalid_frame_closes_only_its_own_connection(
    nursery: trio.Nursery, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Frames before it are answered, and bytes after it are ignored."""
    caplog.set_level(logging.INFO)
    server = new_server(Place(None, *ACLS))
    listener = await start(nursery, server)
    client, other = listener.connect_client(), listener.connect_client()
    await client.greet()
    await other.greet()
    ask = client.frames.ask
    await client.stream.send_all(ask(1, [MAY]) + bad + ask(2, [MAY]))
    assert await client.answer() == Answer(1, 0, 0, ALLOWED)
    assert await client.is_closed()
    assert (await other.ask([MAY])).decisions == ALLOWED
    assert server.statistics.connections_broken == 1
    assert [record.levelname for record in caplog.records] == ["INFO"]


async def test_a_connection_that_begins_without_a_hello_is_closed(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets no answer, and the log has one line."""
    caplog.set_level(logging.INFO)
    client = (await start(nursery, new_server(Place(None, *ACLS)))).connect_client()
    await client.stream.send_all(frame(msgspec.msgpack.encode((1, [MAY]))))
    assert await client.is_closed()
    assert [record.levelname for record in caplog.records] == ["INFO"]


async def test_too_many_connections_are_refused(nursery: trio.Nursery, tmp_path: Path) -> None:
    """If all others have a token, the newest is closed at once.

    The others stay. Once one ends, another is accepted.
    """
    server = new_server(Place(tmp_path, *ACLS), max_connections=2)
    listener = await start(nursery, server)
    first, second = listener.connect_client(), listener.connect_client()
    await first.greet("root.secret")
    await second.greet("root.secret")
    third = listener.connect_client()
    too_many = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert await third.greeting() == Greeting("hello", 1, too_many, -1)
    assert await third.is_closed()
    assert server.statistics.connections_refused == 1
    assert (await first.ask([MAY])).decisions == ALLOWED
    await second.stream.aclose()
    await until(lambda: server.statistics.connections_open == 1)
    await listener.connect_client().greet("root.secret")


async def test_callers_without_credentials_give_way(nursery: trio.Nursery) -> None:
    """Whatever they have asked: nothing proves who they are."""
    server = new_server(Place(None, *ACLS), max_connections=1)
    listener = await start(nursery, server)
    first = listener.connect_client()
    await first.greet()
    assert (await first.ask([MAY])).decisions == ALLOWED
    await listener.connect_client().greet()
    assert await first.is_closed()
    assert server.statistics.connections_refused == 0


async def test_a_drain_answers_current_requests(nursery: trio.Nursery) -> None:
    """This includes a frame that waits for its offset. Idle connections are closed at once."""
    place = Place(None)
    server = new_server(place)
    listener = await start(nursery, server)
    idle, busy = listener.connect_client(), listener.connect_client()
    await idle.greet()
    await busy.greet()
    await busy.stream.send_all(busy.frames.ask(1, [MAY], 5) + busy.frames.ask(2, [MAY]))
    await wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    assert await idle.is_closed()
    place.snapshot.publish(at_offset(5, *ACLS))
    assert await busy.answer() == Answer(1, 0, 5, ALLOWED)
    assert await busy.answer() == Answer(2, 0, 5, ALLOWED)
    assert await busy.is_closed()
    assert trio.current_time() < DRAIN_TIMEOUT_S


async def test_the_wait_of_a_drain_is_bounded(nursery: trio.Nursery) -> None:
    """A frame that waits for its offset does not delay the shutdown beyond the limit."""
    server, client = await connected(nursery, Place(None))
    await client.stream.send_all(client.frames.ask(1, [MAY], 5))
    await wait_all_tasks_blocked()
    await server.drain()
    assert await client.is_closed()
    assert trio.current_time() == pytest.approx(DRAIN_TIMEOUT_S)


@pytest.mark.parametrize(
    ("version", "token", "error"),
    [
        (0, "proxy.secret", ErrorCode.UNSUPPORTED_VERSION),
        (2, "proxy.secret", ErrorCode.UNSUPPORTED_VERSION),
        (1, None, ErrorCode.SASL_AUTHENTICATION_FAILED),
        (1, "proxy.wrong", ErrorCode.SASL_AUTHENTICATION_FAILED),
        (1, "nobody.secret", ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
)
async def test_a_refused_hello_gets_the_reason_and_is_closed(
    nursery: trio.Nursery,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    version: int,
    token: str | None,
    error: ErrorCode,
) -> None:
    """Later frames are not answered. The log has the reason but no token."""
    caplog.set_level(logging.DEBUG)
    server = new_server(Place(tmp_path, *ACLS))
    client = (await start(nursery, server)).connect_client()
    hello = frame(msgspec.msgpack.encode(("hello", version, token)))
    await client.stream.send_all(hello + client.frames.ask(1, [MAY]))
    assert await client.greeting() == Greeting("hello", 1, error, -1)
    assert await client.is_closed()
    assert server.statistics.connections_broken == 1
    assert error.name in caplog.text
    assert "secret" not in caplog.text


def about(*principals: str) -> list[StreamQuestion]:
    return [question(principal) for principal in principals]


async def test_a_caller_may_ask_about_itself(nursery: trio.Nursery, tmp_path: Path) -> None:
    """One question about another principal without the right refuses the whole frame."""
    place = Place(tmp_path, *ACLS, acl(PROXY, "READ", topic="orders"), cluster_action(PROXY))
    place.grant(search=PROXY, read=PROXY)
    server, client = await connected(nursery, place, "proxy.secret")
    assert await client.ask(about(PROXY, PROXY)) == Answer(1, 0, 0, ALLOWED * 2)
    assert [line for line in place.audit_log.lines if "Cluster" in line] == []
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, b"")
    for others in (about(ALICE), about(ALICE, OTHER), about(ROOT)):
        assert await client.ask(others) == refused
    for number in range(20):  # whichever of the two is checked first
        assert await client.ask(about(PROXY, f"User:{number}")) == refused
    assert (server.counts.allowed, server.counts.invalid) == (2, 44)
    assert await client.ask([]) == Answer(1, 0, 0, b"")


@pytest.mark.parametrize("token", ["proxy.secret", "root.secret"])
async def test_with_the_right_to_ask_a_caller_may_ask_about_all(
    nursery: trio.Nursery, tmp_path: Path, token: str
) -> None:
    """A super user may do so, too. A reload takes the right from the open connection."""
    place = Place(tmp_path, *ACLS)
    place.grant(ask=PROXY)
    server, client = await connected(nursery, place, token)
    assert await client.ask(about(ALICE, PROXY, OTHER)) == Answer(1, 0, 0, ALLOWED + DENIED * 2)
    assert (server.counts.allowed, server.counts.denied) == (1, 2)
    place.grant(search=PROXY, read=PROXY)
    error = 0 if token == "root.secret" else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (await client.ask(about(ALICE))).error_code == error


async def test_frame_that_takes_turns_is_refused_once_the_right_is_gone(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, *ACLS)
    place.grant(ask=PROXY)
    wait_for_turn = Connection.wait_for_turn

    async def reload_meanwhile(connection: Connection) -> None:
        await wait_for_turn(connection)
        place.grant(search=PROXY, read=PROXY)

    _, client = await connected(nursery, place, "proxy.secret")
    monkeypatch.setattr(Connection, "wait_for_turn", reload_meanwhile)
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, b"")
    assert await client.ask(about(*[ALICE] * 1000)) == refused


async def test_only_super_users_are_judged_before_loading(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A caller without the right is refused already."""
    place = Place(tmp_path, loaded=False)
    place.grant(ask=OTHER)
    listener = await start(nursery, new_server(place))
    proxy, other = listener.connect_client(), listener.connect_client()
    await proxy.greet("proxy.secret")
    await other.greet("other.secret")
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, b"")
    assert await proxy.ask(about(ROOT)) == refused
    assert await other.ask(about(ALICE)) == Answer(1, ErrorCode.AUTHORIZER_NOT_READY, -1, b"")
    assert await other.ask(about(ROOT, ALICE)) == Answer(1, 0, -1, ALLOWED + NOT_READY)


async def test_removed_token_ends_on_a_connection(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Its caller cannot even ask about itself."""
    place = Place(tmp_path, acl(PROXY, "READ", topic="orders"))
    _, client = await connected(nursery, place, "proxy.secret")
    assert (await client.ask(about(PROXY))).decisions == ALLOWED
    place.rewrite_tokens("")
    place.callers.prepare_reload()()
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, b"")
    assert await client.ask(about(PROXY)) == refused


async def test_frame_after_the_certificate_expired_is_not_answered(nursery: trio.Nursery) -> None:
    server, client = await connected(nursery, Place(None, *ACLS), None)
    (connection,) = server._open
    connection.expires_at = 0
    await client.stream.send_all(client.frames.ask(1, about(ALICE)))
    assert await client.is_closed()
    assert (server.counts.allowed, server.statistics.connections_expired) == (0, 1)


async def test_trust_ends_on_open_connections_once_tokens_are_due(nursery: trio.Nursery) -> None:
    """A reload can make TLS ask for certificates. The connection ends without an answer."""
    place = Place(None, *ACLS)
    server, client = await connected(nursery, place, None)
    assert (await client.ask(about(ALICE))).decisions == ALLOWED
    place.callers.require_credentials()
    await client.stream.send_all(client.frames.ask(2, about(ALICE)))
    assert await client.is_closed()
    assert server.counts.allowed == 1
