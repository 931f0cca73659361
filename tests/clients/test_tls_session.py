"""TLS without a socket, against a server of the standard library."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from authorizerd_client import ConnectionLostError, TlsError
from authorizerd_client.tls import TlsEndpoint, TlsSession


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
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    return TlsEndpoint(context, "localhost")


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
