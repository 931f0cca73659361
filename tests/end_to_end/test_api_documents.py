"""Real daemons serve their OpenAPI documents, and answer as these say, whatever is sent."""

import json
import re
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from authorizerd.daemon.http.api_document import (
    ADMIN_API,
    DECISION_API,
    OPENAPI_PATH,
    describe_port,
)
from tests.support.api_description import ApiDescription, Exchange
from tests.support.daemon_process import ROOT, DaemonProcess, ask, connect, new_log, running

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


def test_both_ports_serve_their_documents(daemon: DaemonProcess) -> None:
    decision, admin = served(daemon)
    assert decision == describe_port(DECISION_API, ())
    assert admin == describe_port(ADMIN_API, ())


def test_workers_serve_the_document(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("")
    config = {"authorizerd.workers": "2", "authorizerd.tokens.file": str(tokens)}
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        decision, _ = served(daemon)
    assert decision == describe_port(DECISION_API, ("token", "tokenInQuery"))


@pytest.mark.parametrize(("request_bytes", "status"), INVALID_REQUESTS.items())
def test_invalid_http_is_answered_as_described(
    request_bytes: bytes, status: int, daemon: DaemonProcess
) -> None:
    """The server itself answers, before a handler sees the request."""
    description = ApiDescription(describe_port(DECISION_API, ()))
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
        "daemon/http/refusals.py",
    )
    given = {
        int(status)
        for file in files
        for status in re.findall(
            r"(?:RefusedError|text_response)\(\s*(\d{3})", (ROOT / file).read_text()
        )
    }
    operation = json.loads(describe_port(DECISION_API, ()))["paths"]["/v1/watch"]["get"]
    described = set(map(int, operation["responses"]))
    assert described == given | {401}  # the handlers answer 401
    assert set(INVALID_REQUESTS.values()) == given - {401, 500, 503}
