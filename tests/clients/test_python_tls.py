"""TLS of the clients: faults, sessions without a socket, and certificates as identities."""

import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from authorizerd_client import AuthorizerdError, ConnectionLostError, Question, TlsError
from authorizerd_client.tls import TlsEndpoint, TlsSession
from tests.clients.conftest import in_python
from tests.clients.python_clients import NewClient
from tests.clients.stand_in import start_stand_in
from tests.clients.tls_peer import ANSWERS, TLS_FAULTS, TlsFault, TlsFiles, running_peer
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, running

ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")


@pytest.mark.parametrize("fault", TLS_FAULTS.values(), ids=TLS_FAULTS)
async def test_fault_is_named_at_once(
    new_client: NewClient, certificates: Path, fault: TlsFault
) -> None:
    """The second call fails with the same error as the first one."""
    with running_peer(certificates, fault, *ANSWERS) as address:
        client = new_client(f"tls://{address}", tls=fault.client_files(certificates))
        for call in (client.connect(), client.decide(ALICE)):
            with trio.fail_after(60), pytest.raises(TlsError) as raised:
                await call
            assert fault.reason in str(raised.value)
            assert fault.remedy in str(raised.value)
        client.close()


@pytest.mark.parametrize("client_certificate", [None, "client"])
async def test_client_decides_over_tls(
    new_client: NewClient, certificates: Path, client_certificate: str | None
) -> None:
    """After each answer the peer closes the connection, and the client connects again."""
    fault = TlsFault(
        requires=client_certificate is not None, client=client_certificate, reason="", remedy=""
    )
    with running_peer(certificates, fault, *ANSWERS) as address:
        client = new_client(f"tls://{address}", tls=fault.client_files(certificates))
        assert [await client.decide(ALICE) for _ in range(3)] == [True] * 3
        client.close()


async def test_closed_handshake_of_a_known_daemon_is_a_lost_connection(
    new_client: NewClient, certificates: Path
) -> None:
    """A daemon that restarts may close connections during the handshake: the client tries again."""
    fault = TlsFault(handshakes=1, reason="", remedy="")
    with running_peer(certificates, fault, *ANSWERS) as address:
        context = fault.client_files(certificates)
        client = new_client(f"tls://{address}", tls=context)
        assert await client.decide(ALICE)
        with pytest.raises(ConnectionLostError, match="not connected: the daemon"):
            await client.decide(ALICE, timeout_seconds=0.3)
        client.close()


async def test_silent_handshake_ends_at_the_limit_of_an_attempt(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    address = await start_stand_in(nursery, then_closes=False)
    client = new_client(
        address.replace("tcp:", "tls:"), timeout_seconds=0.4, connect_timeout_seconds=0.1
    )
    with trio.fail_after(5), pytest.raises(ConnectionLostError, match="did not answer in time"):
        await client.decide(ALICE)


@pytest.mark.parametrize("sent", [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00"])
async def test_peer_that_expects_tls_is_named(
    new_client: NewClient, nursery: trio.Nursery, sent: bytes
) -> None:
    client = new_client(await start_stand_in(nursery, sent))
    with trio.fail_after(60), pytest.raises(TlsError, match=r"expects TLS .* use tls://"):
        await client.decide(ALICE)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tcp://127.0.0.1:1", "unix:/run/stream"])
async def test_tls_for_a_plain_address_is_rejected(new_client: NewClient, address: str) -> None:
    with pytest.raises(ValueError, match="use tls://HOST:PORT"):
        new_client(address, tls=TlsFiles())


@in_python
async def test_invalid_host_is_rejected(new_client: NewClient) -> None:
    with pytest.raises(ValueError, match="label"):
        new_client(f"tls://{'x' * 64}:1")


@in_python
async def test_default_context_checks_certificate_and_host(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def record() -> ssl.SSLContext:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", record)
    new_client("tls://127.0.0.1:1")
    (context,) = made
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


class Server:
    """The server's side of a session, without a socket."""

    def __init__(self, certificates: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem")
        # With TLS 1.2, the server finishes the handshake, so data may follow at once.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = False

    def shake_hands(self, data: bytes) -> bytes:
        self._incoming.write(data)
        try:
            self.tls.do_handshake()
            self.is_established = True
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def send(self, data: bytes) -> bytes:
        if data:
            self.tls.write(data)
        return self._outgoing.read()

    def receive(self, data: bytes, count: int) -> bytes:
        self._incoming.write(data)
        received = b""
        while len(received) < count:
            received += self.tls.read(count)
        return received


def new_endpoint(certificates: Path) -> TlsEndpoint:
    return TlsEndpoint(ssl.create_default_context(cafile=str(certificates / "ca.pem")), "localhost")


def shake_hands(session: TlsSession, server: Server, sent_after: bytes) -> None:
    """Complete the handshake byte by byte; the server's last bytes end with a record of data."""
    to_server = session.start_handshake()
    while not session.is_established:
        to_client = server.shake_hands(to_server)
        if server.is_established:
            session.shake_hands(to_client + server.send(sent_after))
            return
        to_server = b"".join(session.shake_hands(bytes([byte])) for byte in to_client)


@pytest.fixture
def pair(certificates: Path) -> tuple[TlsSession, Server]:
    session, server = new_endpoint(certificates).new_session(), Server(certificates)
    shake_hands(session, server, b"early")
    return session, server


def test_data_behind_the_handshake_is_kept(pair: tuple[TlsSession, Server]) -> None:
    session, _ = pair
    assert session.decrypt_pending() == b"early"


def test_data_of_any_size_passes_in_both_directions(pair: tuple[TlsSession, Server]) -> None:
    session, server = pair
    session.decrypt_pending()
    large = bytes(range(256)) * 150  # three records
    assert server.receive(session.encrypt(large), len(large)) == large
    received = [session.decrypt(bytes([byte])) for byte in server.send(large)]
    assert b"".join(received) == large
    assert b"" in received


def test_end_of_the_session_is_a_lost_connection(certificates: Path) -> None:
    """The data before the end is still read, whether or not it arrives together with the end."""
    for sent in (b"", b"last"):
        session, server = new_endpoint(certificates).new_session(), Server(certificates)
        shake_hands(session, server, b"early")
        session.decrypt_pending()
        end = server.send(sent)
        with pytest.raises(ssl.SSLWantReadError):
            server.tls.unwrap()
        end += server.send(b"")
        if sent:
            assert session.decrypt(end) == sent
            end = b""
        with pytest.raises(ConnectionLostError, match="closed"):
            session.decrypt(end)


def test_broken_record_after_an_answer_is_a_lost_connection(
    pair: tuple[TlsSession, Server],
) -> None:
    session, server = pair
    session.decrypt_pending()
    record = bytearray(server.send(b"answer"))
    record[-1] ^= 1
    with pytest.raises(ConnectionLostError, match="the connection broke"):
        session.decrypt(record)
    with pytest.raises(ConnectionLostError):
        session.encrypt(b"question")


def test_refused_server_is_told_why(certificates: Path) -> None:
    endpoint = TlsEndpoint(ssl.create_default_context(), "localhost")
    session, server = endpoint.new_session(), Server(certificates)
    with pytest.raises(TlsError, match="unknown CA"):
        session.shake_hands(server.shake_hands(session.start_handshake()))
    with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
        server.shake_hands(session.encode_alert())


OWN = Question("User:self", None, "READ", "TOPIC", "orders")


@dataclass(frozen=True)
class Secured:
    """A daemon that requires client certificates, and certificates by name."""

    daemon: DaemonProcess
    ca_file: Path
    certificates: dict[str, Path]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, prepared_log: Path) -> Iterator[Secured]:
    """User:proxy may ask about everybody."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder)
    config = authority.server_keys(
        truststore_location=str(authority.ca_file),
        client_auth="required",
        principal_mapping_rules="RULE:^.*[Cc][Nn]=([^,]*).*$/$1/",
    )
    config["authorizerd.decision.stream"] = "tls://127.0.0.1:0"
    config["authorizerd.callers.ask"] = "User:proxy"
    certificates = {name: authority.issue(name, common_name=name) for name in ("proxy", "self")}
    certificates["foreign"] = Authority(folder, "other").issue("foreign", common_name="proxy")
    log_dir = Path(shutil.copytree(prepared_log, folder / "log"))
    with running(folder, log_dir, config) as daemon:
        yield Secured(daemon, authority.ca_file, certificates)


@pytest.mark.parametrize(("scheme", "name", "token", "question", "answer"), [
    ("tls", "proxy", "", ALICE, "true"),
    ("tls", "self", "", OWN, "false"),
    ("tls", "self", "", ALICE, "ForbiddenError"),
    ("tls", "proxy", "id.wrong", ALICE, "TokenRefusedError"),
    ("tls", None, "", ALICE, "TlsError: the daemon requires a client certificate"),
    ("tls", "foreign", "", ALICE, "TlsError: the daemon does not know the CA"),
    ("tcp", "proxy", "", ALICE, "TlsError: the daemon expects TLS"),
])  # fmt: skip
async def test_certificate_is_the_callers_identity(
    new_client: NewClient, secured: Secured, scheme: str, name: str | None, token: str,
    question: Question, answer: str,
) -> None:  # fmt: skip
    certificate = None if name is None else secured.certificates[name]
    files = TlsFiles(ca=secured.ca_file, certificate=certificate) if scheme == "tls" else None
    address = f"{scheme}://{secured.daemon.ready['decision_stream']}"
    client = new_client(address, tls=files, token=token or None)
    try:
        answered = str(await client.decide(question)).lower()
    except AuthorizerdError as error:
        answered = f"{type(error).__name__}: {error}"
    assert answered.startswith(answer)
