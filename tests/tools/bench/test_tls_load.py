"""The load generators over TLS: decisions on open connections, and handshakes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.support.daemon_process import wait_until
from tests.tools.bench.servers import send, send_and_close, serving
from tools.bench import handshake_load, http_load
from tools.bench.certificates import Certificate, KeyKind, issue_certificate
from tools.bench.closed_loop import LoadError
from tools.bench.polite_client import ClientPlan, ask_steadily

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + b"x" * 40_000
REQUESTS = [http_load.post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]
LARGE_REQUEST = http_load.post("localhost", "/path", b"x" * 40_000)


@pytest.fixture(params=KeyKind, ids=lambda kind: kind.value)
def certificate(request: pytest.FixtureRequest, tmp_path: Path) -> Certificate:
    return issue_certificate(tmp_path, request.param)


@pytest.fixture
def server(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain_file, certificate.key_file)
    return context


@pytest.fixture
def client(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.ca_file)


@pytest.mark.parametrize("answer", [ANSWER, LARGE], ids=["one record", "several records"])
def test_every_encrypted_answer_is_counted(
    answer: bytes, server: ssl.SSLContext, client: ssl.SSLContext
) -> None:
    with serving(send(answer), server) as (address, received):
        report = http_load.drive(address, REQUESTS, 4, 0.05, client)
    assert len(received) - 4 <= report.requests <= len(received)
    assert {*received} <= {*REQUESTS}


def test_request_of_several_records_is_sent_completely(
    server: ssl.SSLContext, client: ssl.SSLContext
) -> None:
    with serving(send(ANSWER), server) as (address, received):
        connection = http_load.Connection(address, client)
        connection.ask(LARGE_REQUEST)
        wait_until(lambda: sum(map(len, received)) >= len(LARGE_REQUEST), "all records arrive")
        connection.socket.close()
    assert b"".join(received) == LARGE_REQUEST


def test_each_counted_handshake_is_a_full_one_with_an_answer(
    server: ssl.SSLContext, client: ssl.SSLContext
) -> None:
    with serving(send(ANSWER), server) as (address, received):
        report = handshake_load.drive(address, REQUESTS, 4, 0.1, client)
    assert report.failed == 0
    assert report.load.requests <= len(received) <= report.load.requests + 4
    assert server.session_stats()["accept_good"] >= report.load.requests
    assert server.session_stats()["hits"] == 0


def test_connections_without_an_answer_end_the_load(
    monkeypatch: pytest.MonkeyPatch, server: ssl.SSLContext, client: ssl.SSLContext
) -> None:
    monkeypatch.setattr(handshake_load, "FAILED_MAX", 5)
    with (
        serving(send_and_close(b""), server) as (address, _),
        pytest.raises(LoadError, match=r"more than 5 failed: .*closed"),
    ):
        handshake_load.drive(address, REQUESTS, 2, 0.05, client)


def test_polite_client_asks_over_tls(certificate: Certificate, server: ssl.SSLContext) -> None:
    with serving(send(ANSWER), server) as ((host, port), received):
        plan = ClientPlan(
            address=f"{host}:{port}",
            outcomes="http",
            opening=b"",
            request=REQUESTS[0],
            requests_per_second=1000,
            seconds=0.05,
            ca_file=str(certificate.ca_file),
        )
        report = ask_steadily(plan)
    assert report.timed == len(received) > 0
    assert report.refused == {}
