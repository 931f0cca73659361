"""Real daemons serve their OpenAPI documents, and answer as these say, whatever is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from authorizerd.daemon.decisions.endpoints import (
    DECISION_DESCRIPTION,
    DECISION_ENDPOINTS,
    DECISION_TITLE,
)
from authorizerd.daemon.telemetry.endpoints import (
    ADMIN_DESCRIPTION,
    ADMIN_ENDPOINTS,
    ADMIN_TITLE,
)
from authorizerd.protocol.http.endpoints import OPENAPI_PATH, SHARED_ANSWERS
from authorizerd.protocol.http.openapi import describe_port
from tests.support.api_description import ApiDescription, Exchange
from tests.support.daemon_process import (
    ROOT,
    DaemonProcess,
    ask,
    connect,
    new_log,
    running,
)

HOST = b"Host: localhost\r\n"
POST = b"POST /access/v1/evaluation HTTP/1.1\r\n"
INVALID_REQUESTS = {
    b"post /access/v1/evaluation HTTP/1.1\r\n\r\n": 400,
    POST + b"\r\n": 400,
    POST + b"Host: example.com\r\n\r\n": 403,
    POST + HOST + b"Content-Length: 9\r\n\r\n{": 408,
    POST + HOST + b"Content-Length: 999999999\r\n\r\n": 413,
    POST.replace(b"evaluation", b"e" * 9000) + HOST + b"\r\n": 414,
    POST + HOST + b"Content-Length: 2\r\nExpect: x\r\n\r\n{}": 417,
    POST + HOST + b"X: %b\r\n\r\n" % (b"x" * 17_000): 431,
    POST + HOST + b"X: x\r\n" * 101 + b"\r\n": 431,
    POST + HOST + b"Transfer-Encoding: gzip\r\n\r\n": 501,
    POST.replace(b"1.1", b"2.0") + HOST + b"\r\n": 505,
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("described")
    config = {"authorizerd.http.header.timeout.ms": "200"}
    with running(folder, new_log(folder), config) as daemon:
        yield daemon


def served(daemon: DaemonProcess) -> tuple[bytes, bytes]:
    """Return the documents of the decision port and the admin port."""
    answers = [ask(port, "GET", OPENAPI_PATH) for port in (daemon.decision, daemon.admin)]
    for answer in answers:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    return answers[0].body, answers[1].body


def decision_document(*schemes: str) -> bytes:
    return describe_port(
        DECISION_TITLE, DECISION_DESCRIPTION, DECISION_ENDPOINTS, frozenset(schemes)
    )


def test_both_ports_serve_their_documents(daemon: DaemonProcess) -> None:
    decision, admin = served(daemon)
    assert decision == decision_document()
    assert admin == describe_port(ADMIN_TITLE, ADMIN_DESCRIPTION, ADMIN_ENDPOINTS, frozenset())


def test_workers_serve_the_document(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("")
    config = {"authorizerd.workers": "2", "authorizerd.tokens.file": str(tokens)}
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        decision, _ = served(daemon)
    assert decision == decision_document("token", "tokenInQuery")


@pytest.mark.parametrize(("request_bytes", "status"), INVALID_REQUESTS.items())
def test_invalid_http_is_answered_as_described(
    request_bytes: bytes, status: int, daemon: DaemonProcess
) -> None:
    """The server itself answers, before a handler sees the request."""
    description = ApiDescription(decision_document())
    with connect(daemon.ready["decision_http"]) as connection:
        connection.sendall(request_bytes)
        response = HTTPResponse(connection)
        response.begin()
        description.check(
            Exchange(
                method="POST",
                path="/access/v1/evaluation",
                body=b"",
                status=response.status,
                headers=dict(response.getheaders()),
                answer=response.read(),
            )
        )
    assert response.status == status


def test_shared_answers_are_those_of_the_server() -> None:
    """A new status of the HTTP server must be described."""
    files = (
        "protocol/http/connection.py",
        "protocol/http/request_head.py",
        "daemon/http/server.py",
    )
    given = {
        int(status)
        for file in files
        for status in re.findall(
            r"(?:RefusedError|text_response)\(\s*(\d{3})", (ROOT / file).read_text()
        )
    }
    described = {answer.status for answer in SHARED_ANSWERS.values()}
    assert described == given | {401}  # the handlers answer 401
    assert set(INVALID_REQUESTS.values()) == given - {401, 500, 503}
