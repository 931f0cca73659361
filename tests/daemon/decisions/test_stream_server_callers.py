"""The callers of a decision stream, and their right to ask."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
import trio

from authorizerd.daemon.net.connection import Connection
from authorizerd.protocol.decisions.stream import Answer, Greeting, StreamQuestion
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
    question,
)
from tests.daemon.stream_service import connected, new_server, start
from tests.support.acls import acl


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
    client = (await start(nursery, server)).connect()
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


async def test_before_the_acls_are_loaded_only_super_users_are_decided_about(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A caller without the right is refused already."""
    place = Place(tmp_path, loaded=False)
    place.grant(ask=OTHER)
    server = new_server(place)
    listener = await start(nursery, server)
    proxy, other = listener.connect(), listener.connect()
    await proxy.greet("proxy.secret")
    await other.greet("other.secret")
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, b"")
    assert await proxy.ask(about(ROOT)) == refused
    assert await other.ask(about(ALICE)) == Answer(1, ErrorCode.AUTHORIZER_NOT_READY, -1, b"")
    assert await other.ask(about(ROOT, ALICE)) == Answer(1, 0, -1, ALLOWED + NOT_READY)


async def test_a_removed_token_is_invalid_on_an_open_connection(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Its caller cannot even ask about itself."""
    place = Place(tmp_path, acl(PROXY, "READ", topic="orders"))
    _, client = await connected(nursery, place, "proxy.secret")
    assert (await client.ask(about(PROXY))).decisions == ALLOWED
    place.rewrite_tokens("")
    place.callers.prepare_reload()()
    refused = Answer(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0, b"")
    assert await client.ask(about(PROXY)) == refused


async def test_trust_ends_on_open_connections_once_credentials_are_required(
    nursery: trio.Nursery,
) -> None:
    """A reload can make TLS ask for certificates. The connection ends without an answer."""
    place = Place(None, *ACLS)
    server, client = await connected(nursery, place, None)
    assert (await client.ask(about(ALICE))).decisions == ALLOWED
    place.callers.require_credentials()
    await client.stream.send_all(client.frames.ask(2, about(ALICE)))
    assert await client.is_closed()
    assert server.counts.allowed == 1
