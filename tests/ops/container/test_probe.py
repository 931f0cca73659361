"""The probe's exit codes, against servers that answer and one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from authorizerd.container.probe import main


@contextmanager
def served(server: HTTPServer) -> Iterator[str]:
    """Serve in a thread; yield ``host:port``."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def answering(status: int, body: bytes, content_type: str = "text/plain") -> HTTPServer:
    """Return a server of one answer, at a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return HTTPServer(("127.0.0.1", 0), Handler)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_ready_is_200_alone(status: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs it is shown what was answered."""
    with served(answering(status, b"so it is")) as address:
        assert main(["/readyz", "--admin", address]) == code
    assert capsys.readouterr().out == "so it is\n"


def test_a_port_that_does_not_answer_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens there any more."""
    server = answering(200, b"")
    address = f"127.0.0.1:{server.server_port}"
    server.server_close()
    assert main(["/healthz", "--admin", address]) == 1
    assert f"{address} does not answer" in capsys.readouterr().out
