"""Show what ``authorizerd sync`` does: a port for probes and Prometheus, and lines of JSON.

**Invariant:** names are escaped, and only the lines have names: the port has no login, so it shows
numbers and the names of reasons.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from threading import Thread
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.acl.as_of import format_time
from authorizerd.acl.text.printable import escape_json
from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.cli.errors import CommandError
from authorizerd.cli.sync.metrics import NEVER, SYNC_METRICS, Status
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.daemon.telemetry.grant_metrics import GRANT_METRICS

_PEER_SECONDS: Final = 10.0
"""How long a client of the port may take."""


def print_event(event: str, **fields: object) -> None:
    """Print one line of JSON: what has happened, when, and what is known of it."""
    line = {"at": format_time(time.time_ns() // 1_000_000), "event": event, **fields}
    sys.stdout.write(f"{escape_json(msgspec.json.encode(line).decode())}\n")
    sys.stdout.flush()


class _StatusCollector(Collector):
    def __init__(self, status: Status, grants: GrantKeeper) -> None:
        self._status = status
        self._grants = grants

    def collect(self) -> Iterable[Metric]:
        found = [each.collect(self._status) for each in SYNC_METRICS]
        found += (each.collect(self._grants) for each in GRANT_METRICS)
        return [metric for metric in found if metric is not None]


@contextmanager
def serve_status(status: Status, grants: GrantKeeper, listen: HttpEndpoint) -> Iterator[int]:
    """Serve /metrics and /health in threads until the block ends. Yield the port.

    Raises:
        CommandError: the address cannot be bound.
    """
    registry = CollectorRegistry()
    registry.register(_StatusCollector(status, grants))
    ProcessCollector(registry=registry)

    class Handler(BaseHTTPRequestHandler):
        timeout = _PEER_SECONDS

        def do_GET(self) -> None:
            match self.path:
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                case "/health":
                    code, text = _describe_health(status)
                    self._answer(code, "text/plain; charset=utf-8", text.encode())
                case _:
                    self._answer(404, "text/plain", b"expected /metrics or /health\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *words: Any) -> None:  # noqa: ANN401 - as inherited
            """Log nothing: probes ask all the time."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in (listen.host or "") else AF_INET

    try:
        server = Server((listen.host or "", listen.port), Handler)
    except OSError as error:
        place = f"{listen.host}:{listen.port}"
        raise CommandError(f"--listen: {place}: {error.strerror or error}") from error
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _describe_health(status: Status) -> tuple[int, str]:
    """Return the HTTP status and one line: 200 if the last round left the ACLs as desired."""
    if status.reasons:
        return 503, f"the last round made no change: {', '.join(status.reasons)}\n"
    if status.success_s == NEVER:
        return 503, "no round has ended yet\n"
    return 200, f"the ACLs are as desired, as of {format_time(round(status.success_s * 1000))}\n"
