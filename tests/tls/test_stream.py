from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.config.tls import TLS_VERSIONS, ClientAuth, new_tls_settings
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.tls.context import new_client_context, new_server_context
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.material import read_material
from authorizerd.tls.stream import TlsStream
from tests.support.certificates import Authority, expired

NAMES = {key.name: key.name for key in ssl_keys()}


class Peers:
    """The contexts of a server and a client of one authority.

    Args:
        keystore: of the server.
        client_keystore: of the client.
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

    async def connect(self, host: str = "localhost") -> tuple[TlsStream, TlsStream]:
        """Return both ends after the handshake."""
        ours, theirs = trio.testing.memory_stream_pair()
        server = TlsStream(ours, self.server, server_side=True)
        client = TlsStream(theirs, self.client, server_side=False, server_hostname=host)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.handshake)
            nursery.start_soon(client.handshake)
        return server, client


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


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


async def test_handshake_runs_outside_the_event_loop(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    start = trio.to_thread.run_sync

    async def spy(sync: Callable[[], None], **options: object) -> None:
        def run() -> None:
            threads.append(threading.get_ident())
            sync()

        await start(run, **options)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(trio.to_thread, "run_sync", spy)
    await peers.connect()
    assert len(threads) >= 4
    assert threading.get_ident() not in threads


async def refused(peers: Peers, host: str = "localhost") -> set[str]:
    """Return the reasons for which either side refuses."""
    ours, theirs = trio.testing.memory_stream_pair()
    server = TlsStream(ours, peers.server, server_side=True)
    client = TlsStream(theirs, peers.client, server_side=False, server_hostname=host)
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


async def test_client_without_tls_is_told_apart(peers: Peers) -> None:
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
