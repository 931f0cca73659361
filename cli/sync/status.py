"""Show what ``authorizerd sync`` does: a port for probes and Prometheus, and lines of JSON.

**Invariant:** names are escaped, and only the lines have names: the port has no login, so it shows
numbers and the names of reasons.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from socket import AF_INET, AF_INET6
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.acl.as_of import format_time
from authorizerd.acl.text.printable import escape_json
from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.cli.errors import CommandError
from authorizerd.cli.sync.metrics import SYNC_METRICS, Status
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.daemon.telemetry.grant_metrics import GRANT_METRICS

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


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


class _Handler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, format: str, *words: Any) -> None:  # noqa: ANN401 - as inherited
        """Log nothing: probes ask all the time."""


@contextmanager
def serve_status(status: Status, grants: GrantKeeper, listen: HttpEndpoint) -> Iterator[int]:
    """Serve /metrics and /health in threads until the block ends. Yield the port.

    Raises:
        CommandError: the address cannot be bound.
    """
    registry = CollectorRegistry()
    registry.register(_StatusCollector(status, grants))
    ProcessCollector(registry=registry)
    serve_metrics = make_wsgi_app(registry)

    def serve(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environment["PATH_INFO"] != "/health":
            answer: Iterable[bytes] = serve_metrics(environment, start)
            return answer
        code = "503 Service Unavailable" if status.problem else "200 OK"
        start(code, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{status.problem or 'the ACLs are as desired'}\n".encode()]

    class Server(ThreadingWSGIServer):
        address_family = AF_INET6 if ":" in (listen.host or "") else AF_INET

    try:
        server = make_server(listen.host or "", listen.port, serve, Server, _Handler)
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
