"""A real daemon with TLS on every port."""

import json
import shutil
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.protocol.decisions.stream import StreamQuestion
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.support.acls import acl
from tests.support.certificates import Authority, connect_tls
from tests.support.daemon_process import DaemonProcess, ask, ask_at, connect, new_log, running
from tests.support.kafka_connection import KafkaConnection
from tests.support.stream_connection import StreamConnection

ALLOWED: Acl = acl("User:alice", "READ", topic="orders")
QUESTION = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "READ"},
    "resource": {"type": "topic", "id": "orders"},
}
STREAM_QUESTION: StreamQuestion = ("User:alice", None, 3, 2, "orders")
ALERT_RECORD = 0x15


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DaemonProcess, Authority]]:
    """Return a daemon with TLS on all ports except one Kafka listener, and its CA."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    config = {
        "listeners": "PLAIN://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURE:SSL",
        **authority.server_keys(),
        **authority.server_keys("listener.name.secure."),
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.workers": str(request.param),
        "super.users": "User:ANONYMOUS",
    }
    with running(folder, new_log(folder), config) as daemon:
        admin = KafkaConnection(
            daemon.ready["listeners"]["SECURE"], context=authority.client_context()
        )
        assert admin.create(ALLOWED) == [None]
        admin.close()
        yield daemon, authority


def ask_https(address: str, context: ssl.SSLContext) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection = HTTPSConnection(host, int(port), context=context)
    headers = {"Content-Type": "application/json"}
    body = json.dumps(QUESTION).encode()
    answer = ask(connection, "POST", "/access/v1/evaluation", body, headers)
    connection.close()
    return answer.status, answer.body


def test_decisions_come_over_tls(secured: tuple[DaemonProcess, Authority]) -> None:
    daemon, authority = secured
    context = authority.client_context()
    status, body = ask_https(daemon.ready["decision_http"], context)
    assert (status, json.loads(body)["decision"]) == (200, True)
    stream = StreamConnection(daemon.ready["decision_stream"], context=context)
    many = [STREAM_QUESTION] * 2000  # several TLS records
    assert stream.ask(*many).decisions == bytes([1]) * 2000
    stream.close()


@pytest.mark.parametrize("port", ["decision_stream", "SECURE"])
def test_client_without_tls_gets_an_alert(
    secured: tuple[DaemonProcess, Authority], port: str
) -> None:
    ready = secured[0].ready
    connection = connect(ready["listeners"][port] if port == "SECURE" else ready[port])
    connection.sendall(bytes(100))
    assert connection.recv(100)[0] == ALERT_RECORD
    assert connection.recv(100) == b""
    connection.close()


def test_http_client_without_tls_gets_status_400(secured: tuple[DaemonProcess, Authority]) -> None:
    answer = ask_at(secured[0].ready["decision_http"], "GET", "/")
    assert (answer.status, answer.body) == (400, b"this port expects TLS: use https://\n")


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_only_new_versions_are_accepted(
    secured: tuple[DaemonProcess, Authority], version: ssl.TLSVersion, accepted: bool
) -> None:
    daemon, authority = secured
    context = authority.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    try:
        connect_tls(daemon.ready["decision_http"], context).close()
    except ssl.SSLError:
        assert not accepted
    else:
        assert accepted


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, Authority]]:
    """Return a daemon whose ports ask for client certificates; the stream has a Unix socket."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder)
    trust = {"truststore_location": str(authority.ca_file)}
    rules = "RULE:^CN=([^,]+),.*$/$1/L,DEFAULT"
    config = {
        "listeners": "REQUIRED://127.0.0.1:0,REQUESTED://127.0.0.1:0",
        "listener.security.protocol.map": "REQUIRED:SSL,REQUESTED:SSL",
        **authority.server_keys("", **trust, client_auth="requested"),
        "ssl.principal.mapping.rules": rules,
        "listener.name.required.ssl.client.auth": "required",
        **authority.server_keys(**trust, client_auth="requested"),
        "authorizerd.http.ssl.principal.mapping.rules": rules,
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": f"unix:{folder}/stream",
        "super.users": "User:admin",
    }
    with running(folder, new_log(folder), config) as daemon:
        admin = connect_as(daemon, authority, "REQUIRED", "Admin")
        assert admin.create(ALLOWED) == [None]
        admin.close()
        yield daemon, authority


def connect_as(
    daemon: DaemonProcess, authority: Authority, listener: str, name: str | None
) -> KafkaConnection:
    keystore = None if name is None else authority.issue("client", common_name=name)
    context = authority.client_context(keystore)
    return KafkaConnection(daemon.ready["listeners"][listener], context=context)


@pytest.mark.parametrize(
    ("listener", "name", "may_create"),
    [
        ("REQUIRED", "Admin", True),
        ("REQUIRED", "alice", False),
        ("REQUESTED", "Admin", True),
        ("REQUESTED", None, False),
    ],
)
def test_kafka_client_is_the_principal_of_its_certificate(
    mutual: tuple[DaemonProcess, Authority], listener: str, name: str | None, may_create: bool
) -> None:
    connection = connect_as(*mutual, listener, name)
    (error,) = connection.create(ALLOWED)
    assert (error is None) is may_create
    connection.close()


def test_client_certificates_close_the_unix_socket_to_callers_without_credentials(
    mutual: tuple[DaemonProcess, Authority],
) -> None:
    stream = StreamConnection(mutual[0].ready["decision_stream"])
    assert stream.greeting.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    stream.close()


def test_admin_port_on_other_addresses_needs_credentials(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    config = {
        **authority.server_keys(
            truststore_location=str(authority.ca_file), client_auth="requested"
        ),
        "authorizerd.admin.http": "https://127.1:0",  # 127.0.0.1, which counts as a host name
    }
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        host, _, port = daemon.ready["admin_http"].rpartition(":")
        for keystore, status in ((None, 401), (authority.issue("client"), 200)):
            context = authority.client_context(keystore)
            connection = HTTPSConnection(host, int(port), context=context)
            assert ask(connection, "GET", "/healthz").status == status
            connection.close()
        assert daemon.stop()[0] == 0


@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("curl") is None,
    reason="openssl or curl is not installed",
)
def test_page_leads_from_nothing_to_an_answer_over_tls(tmp_path: Path) -> None:
    """The profile of docs/command-line.md then lists the ACLs of the same daemon."""
    real = {
        "kafka-1:9093,kafka-2:9093": "localhost:9093",
        "/etc/authorizerd/": f"{tmp_path}/",
        "PASSWORD": "admin-secret",
    }
    with Shell(tmp_path, HOME=str(tmp_path)) as shell:
        names = Names(real, Ports())
        for page in ("tls.md", "command-line.md"):
            run_page(page, "tests/end_to_end/test_tls.py", shell, names)
