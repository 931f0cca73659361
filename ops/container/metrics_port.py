"""Serve the daemon's /metrics, and nothing else, on a port that other machines can reach.

**Invariant:** the process serves one caller at a time, for a few seconds at most, and only
/metrics. It exists because the admin port trusts every caller and therefore listens on loopback
only. It runs in the daemon's network namespace, so that a scraper on another machine can reach the
metrics.

    python -I -m authorizerd.container.metrics_port --listen 0.0.0.0:9182
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Timer
from typing import Any, Final

from authorizerd.container.probe import ADMIN

PATH: Final = "/metrics"
SECONDS_MAX: Final = 10.0
ADMIN_SECONDS_MAX: Final = 5.0


class _Handler(BaseHTTPRequestHandler):
    server_version = "authorizerd"
    sys_version = ""

    def do_GET(self) -> None:
        """Return the daemon's answer, or 502 if it does not answer."""
        assert isinstance(self.server, MetricsPort)
        if self.path != PATH:
            self._answer(404, "text/plain; charset=utf-8", f"only {PATH} is served here\n".encode())
            return
        try:
            status, content_type, body = _ask(self.server.admin)
        except (OSError, HTTPException) as error:
            status, content_type = 502, "text/plain; charset=utf-8"
            body = f"the daemon does not answer: {error}\n".encode()
        self._answer(status, content_type, body)

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: ANN401 - as inherited
        """Log nothing: scrapes arrive every few seconds."""


class MetricsPort(HTTPServer):
    """Serve one caller at a time.

    Args:
        listen: host and port; port 0 selects a free one.
        admin: ``host:port`` of the daemon's admin port.
        seconds_max: time limit for one caller, however slowly it sends.
    """

    def __init__(
        self, listen: tuple[str, int], admin: str, seconds_max: float = SECONDS_MAX
    ) -> None:
        super().__init__(listen, _Handler)
        self.admin: Final = admin
        self._seconds_max = seconds_max

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Serve one caller up to its time limit; a socket timeout would limit only each read."""
        timer = Timer(self._seconds_max, _hang_up, (request,))
        timer.start()
        try:
            super().finish_request(request, client_address)
        finally:
            timer.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        """Ignore a caller that disconnected, and serve the next one."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # the caller has already closed it
        connection.shutdown(socket.SHUT_RDWR)


def _ask(admin: str) -> tuple[int, str, bytes]:
    connection = HTTPConnection(admin, timeout=ADMIN_SECONDS_MAX)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", "text/plain"), response.read()
    finally:
        connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="metrics_port", description="Serve the daemon's /metrics."
    )
    parser.add_argument("--listen", default="0.0.0.0:9182", metavar="HOST:PORT")
    parser.add_argument("--admin", default=ADMIN, metavar="HOST:PORT")
    parsed = parser.parse_args(arguments)
    host, _, port = parsed.listen.rpartition(":")
    if not port.isdecimal():
        parser.error(f"--listen: expected HOST:PORT, found {parsed.listen!r}")
    # Process 1 of a container receives only the signals that it handles.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with MetricsPort((host, int(port)), parsed.admin) as server:
            server.serve_forever()
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"metrics_port: {parsed.listen}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
