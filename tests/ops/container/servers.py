"""Servers that always give the same answer, and the secret part of a configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

SECRET = (
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_admin="a password";'
)


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
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
    """Return a server on a free port that always gives this answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return HTTPServer(("127.0.0.1", 0), Handler)
