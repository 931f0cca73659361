"""A TLS server that refuses or misbehaves, and the errors that its clients must raise."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

import trustme

from authorizerd.protocol.decisions.stream import encode_answer
from tests.clients.stand_in import GREETING

TLS_1_2: Final = ssl.TLSVersion.TLSv1_2
TLS_1_3: Final = ssl.TLSVersion.TLSv1_3
PAST: Final = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC))
FUTURE: Final = (datetime(2090, 1, 1, tzinfo=UTC), datetime(2091, 1, 1, tzinfo=UTC))


def write_certificates(folder: Path) -> Path:
    """Write PEM files into ``folder``: certificates with their keys, and those of the CAs."""
    ca, other = trustme.CA(), trustme.CA()
    hosts = ("127.0.0.1", "localhost")
    leaves = {
        "server": ca.issue_cert(*hosts),
        "elsewhere": ca.issue_cert("10.0.0.1", "other.example"),
        "expired": ca.issue_cert(*hosts, not_before=PAST[0], not_after=PAST[1]),
        "future": ca.issue_cert(*hosts, not_before=FUTURE[0], not_after=FUTURE[1]),
        "client": ca.issue_cert("client@example.org", common_name="proxy"),
        "foreign-client": other.issue_cert("client@example.org"),
        "expired-client": ca.issue_cert(
            "client@example.org", not_before=PAST[0], not_after=PAST[1]
        ),
    }
    for name, leaf in leaves.items():
        leaf.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    other.cert_pem.write_to_path(folder / "other-ca.pem")
    (folder / "self-signed.pem").write_bytes(other.private_key_pem.bytes() + other.cert_pem.bytes())
    return folder


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """What a client of any language needs for TLS.

    Attributes:
        ca: the file of the CAs to trust; None for the system's.
        certificate: the file of the client's certificate and key.
        version: the newest version to speak, by Java's name; None for any.
    """

    ca: Path | None = None
    certificate: Path | None = None
    version: str | None = None

    def new_context(self) -> ssl.SSLContext:
        """Return the option of the Python clients."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.version is not None:
            context.maximum_version = ssl.TLSVersion[self.version.replace(".", "_")]
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context


@dataclass(frozen=True, kw_only=True)
class TlsFault:
    """A peer and a client that cannot agree on TLS.

    Attributes:
        server: the peer's certificate; None for a peer that answers a handshake with ``answer``.
        requires: whether the peer requires a client certificate.
        closes: whether the peer closes after the handshake.
        handshakes: after this many, the peer closes each connection at once.
        version: the version that the peer speaks.
        client_version: the newest version that the client speaks.
        ca: the CAs that the client trusts; None for the system's.
        client: the client's certificate.
        reason, remedy: parts of the error's text.
    """

    server: str | None = "server"
    answer: bytes = b""
    requires: bool = False
    closes: bool = False
    handshakes: int = 1000
    version: ssl.TLSVersion = TLS_1_3
    client_version: ssl.TLSVersion = TLS_1_3
    ca: str | None = "ca"
    client: str | None = None
    host: str = "127.0.0.1"
    reason: str
    remedy: str

    def client_files(self, certificates: Path) -> TlsFiles | None:
        """Return what the client presents and trusts; None for the defaults."""
        if self.ca is None:
            return None
        certificate = None if self.client is None else certificates / f"{self.client}.pem"
        version = None if self.client_version == TLS_1_3 else "TLSv1.2"
        return TlsFiles(
            ca=certificates / f"{self.ca}.pem", certificate=certificate, version=version
        )

    @property
    def is_trusted(self) -> bool:
        return (self.server, self.ca) == ("server", "ca")


TLS_FAULTS: Final = {
    "wrong address": TlsFault(
        server="elsewhere", reason="not valid for '127.0.0.1'", remedy="a name in the certificate",
    ),
    "wrong host": TlsFault(
        server="elsewhere", host="localhost", reason="not valid for 'localhost'",
        remedy="a name in the certificate",
    ),
    "expired": TlsFault(server="expired", reason="has expired", remedy="renew it"),
    "not valid yet": TlsFault(server="future", reason="not valid yet", remedy="clocks"),
    "unknown CA": TlsFault(ca="other-ca", reason="unknown CA", remedy="load the CA"),
    "not a CA of the system": TlsFault(ca=None, reason="unknown CA", remedy="load the CA"),
    "self-signed": TlsFault(server="self-signed", reason="self-signed", remedy="load it"),
    "no client certificate": TlsFault(
        requires=True, reason="requires a client certificate", remedy="load the client's",
    ),
    "no client certificate, TLS 1.2": TlsFault(
        requires=True, version=TLS_1_2, reason="requires a client certificate",
        remedy="load the client's",
    ),
    "client certificate of an unknown CA": TlsFault(
        requires=True, client="foreign-client", reason="does not know the CA", remedy="truststore",
    ),
    "client certificate of an unknown CA, TLS 1.2": TlsFault(
        requires=True, client="foreign-client", version=TLS_1_2, reason="does not know the CA",
        remedy="truststore",
    ),
    "expired client certificate": TlsFault(
        requires=True, client="expired-client", reason="client certificate has expired",
        remedy="renew it",
    ),
    "no common version": TlsFault(
        client_version=TLS_1_2, reason="no TLS version in common", remedy="ssl.enabled.protocols",
    ),
    "closes after the handshake": TlsFault(
        closes=True, reason="closed the connection after the handshake", remedy="its log",
    ),
    "another protocol": TlsFault(
        server=None, answer=b"HTTP/1.1 400 Bad Request\r\n\r\n", reason="does not speak TLS",
        remedy="use tcp://",
    ),
    "closes during the handshake": TlsFault(
        server=None, reason="closed the connection during the handshake", remedy="use tcp://",
    ),
}  # fmt: skip


@contextmanager
def running_peer(certificates: Path, fault: TlsFault, *answers: bytes) -> Iterator[str]:
    """Run the peer of a fault, and yield its address.

    Fail if a client that must not trust the peer sends it anything, such as its token.

    Args:
        answers: one for each message that the peer receives. After the last one, it closes.
    """
    context = None
    if fault.server is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / f"{fault.server}.pem")
        context.minimum_version = context.maximum_version = fault.version
        if fault.requires:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificates / "ca.pem")
    sent = () if fault.closes else answers
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context, fault, sent, received))
        thread.start()
        try:
            yield f"{fault.host}:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            assert not thread.is_alive()
            assert fault.is_trusted or not any(received)


def _serve(
    listener: socket.socket, context: ssl.SSLContext | None, fault: TlsFault,
    sent: tuple[bytes, ...], received: list[bytes],
) -> None:  # fmt: skip
    for number in count(1):
        try:
            accepted, _ = listener.accept()
        except OSError:
            return  # the test has ended
        accepted.settimeout(10)
        with suppress(OSError), accepted:
            if context is None:
                accepted.recv(65536)
                accepted.sendall(fault.answer)
                continue
            if number > fault.handshakes:
                continue
            with context.wrap_socket(accepted, server_side=True) as stream:
                for each in sent:
                    received.append(stream.recv(65536))
                    stream.sendall(each)


ANSWERS: Final = (GREETING, encode_answer(1, 0, 0, b"\1"))
