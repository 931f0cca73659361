"""The metrics port of a daemon process: what it serves, and what it never reveals."""

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from authorizerd.protocol.kafka.api import ApiKey
from tests.daemon.decision_place import entry
from tests.support.acls import acl
from tests.support.certificates import Authority
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    ask,
    connect,
    new_log,
    running,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation

PATHS = ("/metrics", "/healthz", "/readyz")
MARKER = "planted"
USER, PASSWORD, TOKEN = f"{MARKER}-user", f"{MARKER}-password", f"{MARKER}-token"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Run a daemon in which every name, path and secret contains the marker."""
    folder = tmp_path_factory.mktemp(MARKER)
    tokens = folder / "tokens"
    tokens.write_text(entry("proxy", f"User:{USER}", TOKEN))
    tokens.chmod(0o600)
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "super.users": f"User:{USER}",
        "authorizerd.metrics.http": "http://127.0.0.1:0",
        "authorizerd.tokens.file": str(tokens),
        "authorizerd.audit.log": str(folder / "audit.log"),
    }
    with running(folder, new_log(folder), config) as daemon:
        yield daemon


@pytest.fixture
def port(daemon: DaemonProcess) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(daemon.ready["metrics_http"], timeout=SECONDS_MAX)
    yield connection
    connection.close()


def test_metrics_port_serves_what_the_admin_port_serves(
    daemon: DaemonProcess, port: HTTPConnection
) -> None:
    for path in PATHS[1:]:
        expected = ask(daemon.admin, "GET", path)
        answer = ask(port, "GET", path)
        assert (answer.status, answer.body) == (200, expected.body)
    metrics = ask(port, "GET", PATHS[0])
    assert metrics.status == 200
    assert b'authorizerd_endpoint_open{listener="metrics_http"} 1.0' in metrics.body
    assert b'authorizerd_http_requests_total{listener="metrics_http"}' in metrics.body
    assert metrics.headers["Content-Type"].startswith("text/plain; version=")


def test_scraper_may_use_any_name_of_the_machine(port: HTTPConnection) -> None:
    """Prometheus and Kubernetes use the pod's address or a service's name."""
    assert ask(port, "GET", "/healthz", headers={"Host": "authorizerd.example:9182"}).status == 200


@pytest.mark.parametrize("path", PATHS)
def test_metrics_port_answers_only_get_and_head(port: HTTPConnection, path: str) -> None:
    assert ask(port, "HEAD", path).body == b""
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused = ask(port, method, path, b"{}")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/access/v1/evaluation", "/v1/data/kafka/authz/allow"])
def test_metrics_port_answers_no_decisions(port: HTTPConnection, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    assert ask(port, "POST", path, b"{}", headers).status == 404


def test_no_answer_contains_a_name_a_path_or_a_secret(
    daemon: DaemonProcess, port: HTTPConnection
) -> None:
    """The marker is in ACLs, users, passwords, tokens, paths, decisions and failed logins."""
    listener = daemon.ready["listeners"]["SASL_PLAINTEXT"]
    client = KafkaConnection(listener, USER, PASSWORD)
    assert client.create(acl(f"User:{USER}", "READ", topic=f"{MARKER}-topic")) == [None]
    client.close()
    stranger = KafkaConnection(listener)
    assert stranger.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    wrong = f"\0{USER}\0{PASSWORD}-wrong".encode()
    assert stranger.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=wrong).error_code != 0
    stranger.close()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer proxy.{TOKEN}"}
    question = json.dumps(evaluation(USER, topic=f"{MARKER}-topic", host="10.0.0.1")).encode()
    decided = ask(daemon.decision, "POST", "/access/v1/evaluation", question, headers)
    assert decided.json["decision"] is True
    assert daemon.metric('authorizerd_kafka_logins_failed_total{listener="SASL_PLAINTEXT"}') > 0
    for path in (*PATHS, f"/{MARKER}"):
        answer = ask(port, "GET", path)
        assert MARKER not in f"{answer.headers}{answer.body!r}"


def test_tls_needs_no_client_certificate_and_a_stalled_handshake_is_ended(tmp_path: Path) -> None:
    """Kubernetes' probes have no certificate, even if callers of the decision port need one."""
    authority = Authority(tmp_path)
    config = {
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.metrics.http": "https://127.0.0.1:0",
        "authorizerd.login.timeout.ms": "1000",
        **authority.server_keys(
            client_auth="required",
            truststore_type="PEM",
            truststore_location=str(authority.ca_file),
            keystore_type="PEM",
        ),
    }
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        address = daemon.ready["metrics_http"]
        stalled = connect(address)
        stalled.sendall(b"\x16\x03\x01")  # the first bytes of a handshake
        context = authority.client_context()
        with closing(HTTPSConnection(address, timeout=SECONDS_MAX, context=context)) as port:
            for path in PATHS:
                assert ask(port, "GET", path).status == 200
        with suppress(ConnectionResetError):  # what it has sent was not read
            assert stalled.recv(1) == b""
        stalled.close()
        name = 'authorizerd_http_connections_never_established_total{listener="metrics_http"}'
        assert daemon.metric(name) == 1
