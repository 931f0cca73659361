"""The Python clients' watch: a copy of the ACLs that survives lost connections."""

import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from unittest.mock import patch

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors import acl_journal
from authorizerd.actors.acl_journal import CHANGE_BYTES
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.request_head import HttpLimits
from authorizerd_client import (
    AclEvent,
    Changes,
    ConnectionLostError,
    ForbiddenError,
    Listing,
    ProtocolError,
    Resumed,
    Suspended,
    TokenRefusedError,
    blocking,
)
from authorizerd_client.following import Follower
from authorizerd_client.http_answer import HttpAnswer
from authorizerd_client.values import Address
from tests.clients.conftest import daemon_with_tokens
from tests.clients.python_clients import WATCHES, Events
from tests.daemon.decisions.acl_place import AclPlace
from tests.support.acl_events import copy_of
from tests.support.admin_client import binding, create_acls, delete_acls, filter_of, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import ROOT, closed_address
from tests.support.sockets import accepting
from tests.support.strategies import logs

ADDRESS = Address(None, "localhost", 8181)
SECONDS_MAX = 30.0


class Copy:
    """The ACLs as a program knows them that follows them. Each event must fit."""

    def __init__(self) -> None:
        self.acls: dict[str, dict[str, str]] | None = None
        self.offset = -1
        self.listings = 0

    def apply(self, event: AclEvent) -> None:
        match event:
            case Listing(offset, acls):
                self.acls = {key: acl._asdict() for key, acl in acls.items()}
                self.offset = offset
                self.listings += 1
            case Changes(offset, changes):
                assert self.acls is not None
                assert offset > self.offset
                self.offset = offset
                for change in changes:
                    if change.is_added:
                        assert change.id not in self.acls
                        self.acls[change.id] = change.acl._asdict()
                    else:
                        assert self.acls.pop(change.id) == change.acl._asdict()
            case _:
                raise AssertionError(event)

    @property
    def names(self) -> set[str]:
        assert self.acls is not None
        return {acl["resource_name"] for acl in self.acls.values()}


class Connection:
    """A follower's connection to a daemon without sockets; it breaks after ``bytes_max`` bytes."""

    def __init__(self, place: AclPlace, follower: Follower, copy: Copy, bytes_max: int) -> None:
        self._place = place
        self._follower = follower
        self._copy = copy
        self._left = bytes_max
        self._server = ServerConnection(HttpLimits(body_bytes_max=0))
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        self._server.receive_data(self._follower.begin(ADDRESS))
        request = self._server.next_event()
        assert isinstance(request, Request)
        response = await self._place.handlers[request.path](request)
        try:
            with self.scope:
                if isinstance(response, Response):
                    self._deliver(self._server.send(response))
                    return
                self._deliver(self._server.start(response))
                await response.write(self._send)
                self._deliver(self._server.end())
        except trio.BrokenResourceError:
            pass
        finally:
            if not isinstance(response, Response):
                response.close()

    async def _send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if data:
            self._deliver(self._server.part(data))

    def _deliver(self, data: bytes) -> None:
        """Deliver bytes in pieces of different sizes."""
        received = data[: self._left]
        self._left -= len(received)
        for start in range(0, len(received), 97):
            if self._follower.needs_connection:
                break
            for event in self._follower.receive_data(received[start : start + 97]):
                self._copy.apply(event)
        if not self._left:
            raise trio.BrokenResourceError


@given(
    log=logs(unknown_codes=True),
    actions=st.lists(st.one_of(st.just("apply"), st.integers(1, 1200)), max_size=12),
    journal_bytes=st.sampled_from([CHANGE_BYTES, 1 << 20]),
    part=st.integers(1, 3),
)
async def test_follower_ends_with_the_daemons_acls(
    tmp_path_factory: pytest.TempPathFactory, log: list[ChangeBatch], actions: list[str | int],
    journal_bytes: int, part: int,
) -> None:  # fmt: skip
    """Wherever its connections break."""
    batches = iter(log)
    follower, copy = Follower("root.secret"), Copy()
    with patch.object(acl_journal, "CHANGES_PER_PART", part):
        async with trio.open_nursery() as nursery:
            place = AclPlace(tmp_path_factory.mktemp("tokens"), journal_bytes=journal_bytes)
            await place.load(nursery)
            current: Connection | None = None

            async def connect(bytes_max: int) -> None:
                nonlocal current
                if current is not None:
                    current.scope.cancel()
                    await trio.testing.wait_all_tasks_blocked()
                current = Connection(place, follower, copy, bytes_max)
                nursery.start_soon(current.run)
                await trio.testing.wait_all_tasks_blocked()

            for action in actions:
                if isinstance(action, int):
                    await connect(action)
                elif (batch := next(batches, None)) is not None:
                    await place.change(*batch.changes)
            for batch in batches:
                await place.change(*batch.changes)
            for _ in range(3):  # the offset may have expired: list, then watch
                await connect(1 << 30)
            assert copy.acls == copy_of(place.applier.applied.newest)
            if journal_bytes == 1 << 20:
                assert copy.listings == 1
            nursery.cancel_scope.cancel()


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def watching_follower() -> Follower:
    """Return a follower that has got a listing at offset 1, and the head of its watch."""
    follower = Follower(None)
    follower.begin(ADDRESS)
    follower.receive_data(HEAD + chunk(b'{"offset":1}\n{"count":0}\n'))
    assert b"/v1/watch?after=1 " in follower.begin(ADDRESS)
    assert follower.receive_data(HEAD) == []
    return follower


def events_of(*blocks: bytes) -> list[AclEvent]:
    """Return the events of a watch with this body."""
    follower = watching_follower()
    return [event for block in blocks for event in follower.receive_data(chunk(block))]


def test_state_of_the_daemon_is_an_event() -> None:
    reason = b'{"offset":1,"reason":"stale"}'
    assert events_of(
        b"event: suspended\ndata: %b\n\n" % reason,
        b": heartbeat\n\n",
        b"event: resumed\ndata: %b\n\n" % reason,
        b'event: later version\ndata: {"a":1}\n\n',
    ) == [Suspended("stale"), Resumed()]


def test_watch_that_begins_again_shows_that_decisions_have_resumed() -> None:
    """The daemon tells only those who are connected."""
    follower = watching_follower()
    stopped = b'event: suspended\ndata: {"offset":1,"reason":"stale"}\n\n'
    assert follower.receive_data(chunk(stopped)) == [Suspended("stale")]
    begun = b'event: begin\ndata: {"after":1,"offset":1}\n\n'
    for resumed in ([Resumed()], []):
        follower.begin(ADDRESS)
        follower.receive_data(HEAD)
        assert follower.receive_data(chunk(begun)) == resumed


@pytest.mark.parametrize("block", [
    b"event: acls\ndata: x\n\n",
    b"event: acls\ndata: []\n\n",
    b"event: acls\ndata: {}\n\n",
    b'event: acls\ndata: {"offset":2,"more":false,"changes":[{}]}\n\n',
    b'event: acls\ndata: {"offset":2,"more":false,"changes":[{"change":"add","id":"i"}]}\n\n',
    b"event: suspended\ndata: {}\n\n",
    b"id: x\n\n",
    b"id: " + b"1" * 5_000 + b"\n\n",
    b"event: acls\ndata: \xff\n\n",
    b"event: acls\ndata: " + b"[" * 100_000 + b"\n\n",
])  # fmt: skip
def test_other_data_ends_the_watch(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        events_of(block)


def test_changes_before_a_fault_are_listed_again() -> None:
    """Those in the same bytes are lost with it, so the next request must not go on after them."""
    follower = watching_follower()
    change = b'id: 2\nevent: acls\ndata: {"offset":2,"more":false,"changes":[]}\n\n'
    with pytest.raises(ProtocolError):
        follower.receive_data(chunk(change + b"event: acls\ndata: x\n\n"))
    assert follower.begin(ADDRESS).startswith(b"GET /v1/acls ")


@pytest.mark.parametrize("data", [
    b"\0hello",
    b"HTTP/2 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + b"x" * 300,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
])  # fmt: skip
def test_invalid_http_is_reported(data: bytes) -> None:
    """However it is split."""

    def receive(size: int) -> None:
        answer = HttpAnswer()
        for start in range(0, len(data), size):
            answer.receive_data(data[start : start + size])

    for size in (7, len(data)):
        with pytest.raises(ProtocolError):
            receive(size)


@pytest.mark.parametrize("address", ["tcp://h:1", "h:1", "unix:/x", "http://h", "http://h:x", ""])
def test_invalid_address_is_rejected(address: str) -> None:
    for watch in WATCHES.values():
        with pytest.raises(ValueError, match="invalid address"):
            watch(address)


NewEvents = Callable[..., Events]


@pytest.fixture(params=WATCHES)
async def new_events(request: pytest.FixtureRequest) -> AsyncIterator[NewEvents]:
    """Return what watches with one of the clients; it has the arguments of ``watch``."""
    with ExitStack() as stack:

        def new(*arguments: object, **options: object) -> Events:
            return stack.enter_context(closing(Events(request.param, *arguments, **options)))

        yield new


async def test_watch_survives_a_restart(new_events: NewEvents, tmp_path: Path) -> None:
    """The daemon has forgotten the changes then, so a new listing follows."""
    copy = Copy()
    with daemon_with_tokens(tmp_path) as daemon:
        place = daemon.ready["decision_http"]
        events = new_events(f"http://{place}", token="root.secret")
        copy.apply(await events.next())
        assert copy.names == set()
        admin = new_admin(daemon)
        create_acls(admin, binding("orders"), binding("payments"))
        copy.apply(await events.next())
        assert copy.names == {"orders", "payments"}
        delete_acls(admin, filter_of("orders"))
        copy.apply(await events.next())
        assert copy.names == {"payments"}
        assert daemon.stop()[0] == 0
    with daemon_with_tokens(tmp_path, authorizerd_decision_http=f"http://{place}") as daemon:
        copy.apply(await events.next())
        assert (copy.names, copy.listings) == ({"payments"}, 2)
        create_acls(new_admin(daemon), binding("returns"))
        copy.apply(await events.next())
        assert copy.names == {"payments", "returns"}


async def test_watch_that_cannot_go_on_raises(new_events: NewEvents, tmp_path: Path) -> None:
    with daemon_with_tokens(tmp_path) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        for token, error in (
            ("other.secret", ForbiddenError),
            ("root.wrong", TokenRefusedError),
            (None, TokenRefusedError),
        ):
            with pytest.raises(error):
                await new_events(address, token=token).next()
        stream = f"http://{daemon.ready['decision_stream']}"
        with pytest.raises((ProtocolError, ConnectionLostError)):
            await new_events(stream, retry_seconds=0.0).next()


async def test_unreachable_daemon_is_tried_for_the_given_time(new_events: NewEvents) -> None:
    with pytest.raises(ConnectionLostError, match="not connected"):
        await new_events(f"http://{closed_address()}", retry_seconds=0.1).next()


async def test_silent_daemon_is_left(new_events: NewEvents) -> None:
    """It should have sent a heartbeat."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionLostError, match=r"not answered for 0\.1 s"):
            await new_events(address, silence_seconds=0.1, retry_seconds=0.2).next()


def dripping_peer(start: bytes) -> AbstractContextManager[str]:
    """Answer each request with ``start`` and then byte by byte, for two seconds."""

    def drip(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(start)
        for _ in range(100):
            time.sleep(0.02)
            connection.sendall(b"a")

    return accepting(drip)


@pytest.mark.parametrize(("scheme", "start", "limit", "error"), [
    ("http", b"HTTP/1.1 200 OK\r\nX: ", "silence_seconds", r"has not answered for 0\.2 s"),
    ("https", b"\x16\x03\x03" + (16_000).to_bytes(2), "connect_timeout_seconds",
     "did not answer in time"),
], ids=["head", "handshake"])  # fmt: skip
async def test_dripped_answer_ends_at_the_limit(
    new_events: NewEvents, scheme: str, start: bytes, limit: str, error: str
) -> None:
    with dripping_peer(start) as address:
        events = new_events(f"{scheme}://{address}", retry_seconds=0.1, **{limit: 0.2})
        with pytest.raises(ConnectionLostError, match=error):
            await events.next()


async def test_watch_over_tls(new_events: NewEvents, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {"authorizerd_decision_http": "https://127.0.0.1:0"}
    with daemon_with_tokens(tmp_path, authority.server_keys(), **settings) as daemon:
        context = ssl.create_default_context(cafile=authority.ca_file)
        address = f"https://{daemon.ready['decision_http']}"
        events = new_events(address, token="root.secret", tls=context)
        copy = Copy()
        copy.apply(await events.next())
        create_acls(new_admin(daemon), binding("orders"))
        copy.apply(await events.next())
        assert copy.names == {"orders"}


async def test_second_daemon_begins_with_a_listing(new_events: NewEvents, tmp_path: Path) -> None:
    """Its offsets may be others."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    copy = Copy()
    with (
        daemon_with_tokens(tmp_path / "first") as first,
        daemon_with_tokens(tmp_path / "second") as second,
    ):
        create_acls(new_admin(first), binding("first"))
        create_acls(new_admin(second), binding("second"))
        addresses = [f"http://{each.ready['decision_http']}" for each in (first, second)]
        events = new_events(addresses, token="root.secret")
        copy.apply(await events.next())
        assert copy.names == {"first"}
        first.process.kill()
        copy.apply(await events.next())
        assert copy.names == {"second"}


def test_close_ends_a_wait_in_another_thread(tmp_path: Path) -> None:
    with daemon_with_tokens(tmp_path) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        with blocking.watch(address, token="root.secret") as events:
            assert isinstance(next(events), Listing)

            def close_later() -> None:
                time.sleep(0.2)
                events.close()

            closing = threading.Thread(target=close_later)
            closing.start()
            assert list(events) == []
            closing.join()


@pytest.mark.parametrize("new_events", ["trio", "asyncio"], indirect=True)
async def test_cancelled_wait_can_be_repeated(new_events: NewEvents, tmp_path: Path) -> None:
    with daemon_with_tokens(tmp_path) as daemon:
        events = new_events(f"http://{daemon.ready['decision_http']}", token="root.secret")
        copy = Copy()
        copy.apply(await events.next())
        with trio.move_on_after(0.2):
            await events.next()
        await trio.to_thread.run_sync(create_acls, new_admin(daemon), binding("orders"))
        copy.apply(await events.next())
        assert (copy.names, copy.listings) == ({"orders"}, 1)


def test_program_of_the_page_follows_the_acls(tmp_path: Path) -> None:
    """The block of the README runs as it is shown."""
    text = (ROOT / "clients" / "python" / "README.md").read_text()
    (program,) = [
        block
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if "import watch" in block
    ]
    with daemon_with_tokens(tmp_path) as daemon:
        program = program.replace("127.0.0.1:8181", daemon.ready["decision_http"])
        (tmp_path / "follow.py").write_text(program.replace("ID.SECRET", "root.secret"))
        path = str(ROOT / "clients" / "python" / "src")
        with subprocess.Popen(
            [sys.executable, "follow.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().endswith(" []\n")
                create_acls(new_admin(daemon), binding("orders"))
                assert process.stdout.readline().endswith(" ['orders']\n")
            finally:
                process.kill()
