import gc
import ssl
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authorizerd.config.tls import TLS_VERSIONS, ClientAuth, new_tls_settings
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.tls.context import new_client_context, new_server_context
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.material import read_material
from authorizerd.tls.stream import RECORDS_WITHOUT_DATA_MAX, TlsStream
from tests.support.certificates import Authority, expired
from tests.support.tls_records import ClientRecords
from tests.support.turns import Turns

NAMES = {key.name: key.name for key in ssl_keys()}
Transport = trio.abc.HalfCloseableStream


class Peers:
    """The contexts of a server and a client with one CA.

    Args:
        keystore: the server's.
        client_keystore: the client's.
    """

    def __init__(
        self,
        authority: Authority,
        keystore: Path,
        client_keystore: Path | None = None,
        client_auth: ClientAuth = ClientAuth.NONE,
        protocols: Sequence[str] = TLS_VERSIONS,
    ) -> None:
        trust = {"ssl.truststore.location": str(authority.ca_file)}
        server = {"ssl.keystore.location": str(keystore), "ssl.client.auth": client_auth, **trust}
        client: dict[str, object] = dict(trust)
        if client_keystore is not None:
            client["ssl.keystore.location"] = str(client_keystore)
        settings = new_tls_settings({**server, "ssl.enabled.protocols": protocols}, NAMES)
        self.server = new_server_context(settings, read_material(settings))
        settings = new_tls_settings(client, NAMES)
        self.client = new_client_context(settings, read_material(settings))

    def new_pair(
        self, host: str = "localhost", wrap: Callable[[Transport], Transport] = lambda each: each
    ) -> tuple[TlsStream, TlsStream]:
        """Return both ends before the handshake; ``wrap`` gives the server's transport."""
        ours, theirs = trio.testing.memory_stream_pair()
        server = TlsStream(wrap(ours), self.server, server_side=True)
        client = TlsStream(theirs, self.client, server_side=False, server_hostname=host)
        return server, client

    async def connect(
        self, wrap: Callable[[Transport], Transport] = lambda each: each
    ) -> tuple[TlsStream, TlsStream]:
        """Return both ends after the handshake."""
        server, client = self.new_pair(wrap=wrap)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.handshake)
            nursery.start_soon(client.handshake)
        return server, client


@pytest.fixture(scope="module")
def peers(authority: Authority) -> Peers:
    return Peers(authority, authority.issue("server", "localhost"))


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 200_000])
async def test_data_arrives_whole_in_both_directions(peers: Peers, size: int) -> None:
    for sender, receiver in (ends := await peers.connect(), reversed(ends)):
        data = bytes(range(256)) * (size // 256 + 1)
        data = data[:size]
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.send_all, data)
            while len(received) < size:
                received += await receiver.receive_some(5000)
        assert received == data


async def test_end_is_announced_and_the_other_direction_stays_open(peers: Peers) -> None:
    server, client = await peers.connect()
    await client.send_eof()
    assert await server.receive_some() == b""
    await server.send_all(b"answer")
    assert await client.receive_some() == b"answer"


async def test_buffered_data_is_not_received_without_a_turn_of_others(peers: Peers) -> None:
    """A client that has sent many records at once must not hold the event loop."""
    server, client = await peers.connect()
    await client.send_all(b"first")
    await client.send_all(b"second")
    assert await server.receive_some() == b"first"
    with trio.testing.assert_checkpoints():
        assert await server.receive_some() == b"second"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the threads in which steps run, in order."""
    threads: list[int] = []
    start = trio.to_thread.run_sync

    async def spy(sync: Callable[[], object], **options: object) -> object:
        def run() -> object:
            threads.append(threading.get_ident())
            return sync()

        return await start(run, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(trio.to_thread, "run_sync", spy)
    return threads


async def test_handshake_runs_outside_the_event_loop(peers: Peers, threads: list[int]) -> None:
    await peers.connect()
    assert len(threads) >= 4
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("host", ["localhost", "elsewhere"])
async def test_handshake_leaves_no_cycle(peers: Peers, host: str) -> None:
    """Whether it succeeds or fails: the daemon never frees a cycle of frozen objects."""
    gc.disable()
    try:
        server, client = peers.new_pair(host)

        async def shake_hands(stream: TlsStream) -> None:
            with suppress(TlsError):
                await stream.handshake()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(shake_hands, server)
            nursery.start_soon(shake_hands, client)
        await trio.testing.wait_all_tasks_blocked()
        left = [weakref.ref(server), weakref.ref(client)]
        del server, client
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()


async def test_single_bytes_do_not_take_a_thread_each(peers: Peers, threads: list[int]) -> None:
    await peers.connect(lambda stream: Fragmented(stream, [1]))
    assert len(threads) <= 6


@pytest.fixture
async def records(peers: Peers, tmp_path: Path) -> tuple[TlsStream, TlsStream, ClientRecords]:
    """Return both ends of a connection, and records that the client may send."""
    key_log = tmp_path / "keys"
    peers.client.keylog_filename = str(key_log)
    server, client = await peers.connect()
    return server, client, ClientRecords(key_log, client._tls)


@pytest.mark.parametrize("is_requested", [False, True])
async def test_each_key_update_takes_a_separate_turn(
    records: tuple[TlsStream, TlsStream, ClientRecords], is_requested: bool
) -> None:
    """Thousands of them fit in one receive, and would hold the event loop for 200 ms."""
    server, client, client_records = records
    turns = Turns()
    updates = RECORDS_WITHOUT_DATA_MAX
    sent = [client_records.update_key(is_requested=is_requested) for _ in range(updates)]
    await client._transport.send_all(b"".join(sent) + client_records.encrypt(b"data"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        assert await server.receive_some() == b"data"
        nursery.cancel_scope.cancel()
    assert turns.count >= updates


async def test_flood_of_records_without_data_ends_the_connection(
    records: tuple[TlsStream, TlsStream, ClientRecords],
) -> None:
    server, client, client_records = records
    updates = RECORDS_WITHOUT_DATA_MAX + 1
    sent = [client_records.update_key(is_requested=False) for _ in range(updates)]
    await client._transport.send_all(b"".join(sent) + client_records.encrypt(b"data"))
    with pytest.raises(trio.BrokenResourceError, match="too many records without data"):
        await server.receive_some()


async def test_records_sent_with_the_end_of_the_handshake_take_turns_too(peers: Peers) -> None:
    """OpenSSL must not have more than one record when the handshake is complete."""
    server, client = peers.new_pair()
    theirs = client._transport
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.handshake)
        with pytest.raises(ssl.SSLWantReadError):
            client._tls.do_handshake()
        await theirs.send_all(client._outgoing.read())
        while True:
            client._incoming.write(await theirs.receive_some())
            try:
                client._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
        client._tls.write(b"early")
        client._tls.write(b"bird")
        await theirs.send_all(client._outgoing.read())
    assert server._incoming.pending == 0
    assert await server.receive_some() == b"early"
    assert await server.receive_some() == b"bird"


class Fragmented(trio.abc.HalfCloseableStream):
    """Receive pieces of these sizes in turn. ``changed`` is the position of a changed byte."""

    def __init__(
        self, stream: trio.abc.HalfCloseableStream, sizes: Sequence[int], changed: int | None = None
    ) -> None:
        self._stream = stream
        self._sizes = sizes
        self._receives = 0
        self.position = 0
        self.changed = changed

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        size = self._sizes[self._receives % len(self._sizes)]
        self._receives += 1
        data = bytearray(await self._stream.receive_some(min(size, max_bytes or size)))
        if self.changed is not None and 0 <= self.changed - self.position < len(data):
            data[self.changed - self.position] ^= 0xFF
        self.position += len(data)
        return bytes(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


@settings(max_examples=30, deadline=None)
@example(parts=[1], sizes=[1, 1, 2], reads=1, change=0.0, version=ssl.TLSVersion.TLSv1_2)
@given(
    parts=st.lists(st.integers(0, 17_000), max_size=3),
    sizes=st.lists(st.integers(1, 70_000) | st.integers(1, 40), min_size=1, max_size=5),
    reads=st.integers(1, 20_000),
    change=st.none() | st.floats(0, 1, exclude_max=True),
    version=st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
)
def test_fragments_are_joined_and_changed_ones_are_rejected(
    peers: Peers,
    parts: list[int],
    sizes: list[int],
    reads: int,
    change: float | None,
    version: ssl.TLSVersion,
) -> None:
    data = b"".join(bytes((number + 1,)) * size for number, size in enumerate(parts))
    peers.client.maximum_version = version
    try:
        received, error = trio.run(partial(transfer, peers, parts, sizes, reads, change))
    finally:
        peers.client.maximum_version = ssl.TLSVersion.TLSv1_3
    if change is None:
        assert (received, error) == (data, "")
    else:
        assert data.startswith(received)
        assert error or received == data or not data


async def transfer(
    peers: Peers, parts: list[int], sizes: list[int], reads: int, change: float | None
) -> tuple[bytes, str]:
    """Return what the server receives of the parts that the client sends, and its error."""
    received = bytearray()
    with trio.fail_after(20):
        server, client = await peers.connect(lambda stream: Fragmented(stream, sizes))
        transport = server._transport
        assert isinstance(transport, Fragmented)
        for number, size in enumerate(parts):
            client._tls.write(bytes((number + 1,)) * size)
        encrypted = client._outgoing.read()
        if change is not None:
            transport.changed = transport.position + int(change * len(encrypted))
        await client._transport.send_all(encrypted)
        await client._transport.send_eof()
        try:
            while some := await server.receive_some(reads):
                received += some
        except trio.BrokenResourceError as error:
            return bytes(received), str(error)
    # OpenSSL gets whole headers, so it may not see the last bytes after a changed record.
    return bytes(received), "the end is within a header" if server._unread else ""


async def refused(peers: Peers, host: str = "localhost") -> set[str]:
    """Return the reasons for which each side refuses the other."""
    server, client = peers.new_pair(host)
    reasons: set[str] = set()

    async def agree(stream: TlsStream, *, reads: bool) -> None:
        try:
            await stream.handshake()
            if reads:  # TLS 1.3 reports the server's refusal here
                await stream.receive_some()
            else:
                await stream.send_eof()
        except (TlsError, trio.BrokenResourceError) as error:
            reasons.add(str(error))
            await stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: agree(server, reads=False))
        await agree(client, reads=True)
    return reasons


async def test_server_is_refused_by_name(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    for peers, host, reason in (
        (Peers(authority, authority.issue("a", "localhost")), "127.0.0.1", "IP address mismatch"),
        (Peers(authority, authority.issue("a", "localhost")), "example.com", "Hostname mismatch"),
        (
            Peers(authority, authority.issue("a", "localhost", not_after=expired())),
            "localhost",
            "certificate has expired",
        ),
        (
            Peers(authority, other.issue("a", "localhost")),
            "localhost",
            "unable to get local issuer certificate",
        ),
    ):
        assert any(reason in text for text in await refused(peers, host)), reason


@pytest.mark.parametrize(
    ("client_auth", "client", "reason"),
    [
        (ClientAuth.REQUIRED, None, "peer did not return a certificate"),
        (ClientAuth.REQUIRED, "other", "unable to get local issuer certificate"),
        (ClientAuth.REQUESTED, "other", "unable to get local issuer certificate"),
        (ClientAuth.REQUIRED, "expired", "certificate has expired"),
    ],
)
async def test_client_is_refused_by_name(
    authority: Authority,
    tmp_path: Path,
    client_auth: ClientAuth,
    client: str | None,
    reason: str,
) -> None:
    keystores = {
        None: None,
        "other": Authority(tmp_path, "other").issue("client"),
        "expired": authority.issue("expired", not_after=expired()),
    }
    keystore = authority.issue("server", "localhost")
    reasons = await refused(Peers(authority, keystore, keystores[client], client_auth))
    assert any(reason in text for text in reasons), reasons


@pytest.mark.parametrize(
    ("client_auth", "has_certificate", "expected"),
    [
        (ClientAuth.NONE, True, False),
        (ClientAuth.REQUESTED, False, False),
        (ClientAuth.REQUESTED, True, True),
        (ClientAuth.REQUIRED, True, True),
    ],
)
async def test_verified_certificate_is_known_to_the_server(
    authority: Authority, client_auth: ClientAuth, has_certificate: bool, expected: bool
) -> None:
    keystore = authority.issue("client") if has_certificate else None
    peers = Peers(authority, authority.issue("server", "localhost"), keystore, client_auth)
    server, _ = await peers.connect()
    assert (server.peer_certificate is not None) is expected


async def test_client_without_tls_is_recognized(peers: Peers) -> None:
    for first in (b"GET / HTTP/1.1\r\n", bytes(16), b"\xff"):
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(first)
        with pytest.raises(NotTlsError, match="the peer does not speak TLS"):
            await TlsStream(ours, peers.server, server_side=True).handshake()


@pytest.mark.parametrize("end", [0, 1, 40])
async def test_client_that_leaves_early_ends_the_handshake(peers: Peers, end: int) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = peers.client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(outgoing.read()[:end])
    await theirs.send_eof()
    with pytest.raises(TlsError, match="closed the connection during the handshake"):
        await TlsStream(ours, peers.server, server_side=True).handshake()


@pytest.mark.parametrize("position", [0, 1, 5, 60, -1])
async def test_changed_record_is_never_data(peers: Peers, position: int) -> None:
    server, client = await peers.connect()
    client._tls.write(b"x" * 100)
    record = bytearray(client._outgoing.read())
    record[position] ^= 0xFF
    await client._transport.send_all(record)
    await client._transport.send_eof()
    with pytest.raises(trio.BrokenResourceError):
        await server.receive_some()


@pytest.mark.parametrize("spoken", TLS_VERSIONS)
@pytest.mark.parametrize("enabled", [*([version] for version in TLS_VERSIONS), TLS_VERSIONS])
async def test_only_enabled_protocols_are_spoken(
    authority: Authority, spoken: str, enabled: Sequence[str]
) -> None:
    peers = Peers(authority, authority.issue("server", "localhost"), protocols=enabled)
    version = ssl.TLSVersion[spoken.replace(".", "_")]
    peers.client.minimum_version = peers.client.maximum_version = version
    if spoken in enabled:
        server, client = await peers.connect()
        assert server.version == client.version == spoken
    else:
        assert any("protocol" in text for text in await refused(peers))
