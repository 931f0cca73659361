"""A proxy of an S3 server, which sees each request before the server does."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

_CHANGING = ("PUT", "POST", "DELETE")
_OF_A_CONNECTION = ("connection", "transfer-encoding", "expect")

Hear = Callable[[str, str], None]
"""Is called with the method and the path of a request that changes something."""


@contextmanager
def running_proxy(port: int, hear: Hear, hear_answered: Hear) -> Iterator[int]:
    """Yield the port of a proxy of the server at ``port``.

    If ``hear`` raises OSError, the server does not get the request, which is forbidden. If
    ``hear_answered`` does, the client does not get the answer.
    """
    with _Proxy(port, hear, hear_answered) as proxy:
        thread = Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy.server_address[1]
        finally:
            proxy.shutdown()
            thread.join()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, hear: Hear, hear_answered: Hear) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.hear = hear
        self.hear_answered = hear_answered

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients are killed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_change = self.command in _CHANGING
        try:
            if is_change:
                self.server.hear(self.command, self.path)
        except OSError:
            self._answer(HTTPStatus.FORBIDDEN, [], b"")
            return
        status, headers, content = self._forward(body)
        try:
            if is_change:
                self.server.hear_answered(self.command, self.path)
        except OSError:
            self.close_connection = True
            return
        self._answer(status, headers, content)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection("127.0.0.1", self.server.port)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OF_A_CONNECTION:
                server.putheader(name, value)
        server.endheaders(body)
        with server.getresponse() as answer:
            content = answer.read()
        server.close()
        return answer.status, answer.getheaders(), content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        is_head = self.command == "HEAD"
        self.send_response_only(status)
        for name, value in headers:
            is_length = name.lower() == "content-length"
            if name.lower() not in _OF_A_CONNECTION and (is_head or not is_length):
                self.send_header(name, value)
        if not is_head and status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
