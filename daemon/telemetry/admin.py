"""The admin port and the metrics port: /metrics, /healthz and /readyz.

The admin port also has /openapi.json.

**Invariant:** they answer from the start, even before the ACLs are loaded. They reveal no secret,
and no name or address of a principal, a client, a resource or a file. Only the admin port says why
the followed cluster cannot be used, which may name the daemon's principal and its files.
"""

from __future__ import annotations

import math
from typing import Final

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.actors.steps import collect
from authorizerd.daemon.http.api_document import OPENAPI_PATH, ApiDocument
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import (
    GET,
    Request,
    Response,
    method_not_allowed,
    text_response,
)


class _One(Collector):
    """A single metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> tuple[Metric]:
        return (self._metric,)


def _encode(metric: Metric) -> bytes:
    return generate_latest(_One(metric))


class AdminHandler:
    """Answer the requests of the admin port or the metrics port.

    Args:
        metrics_age_max_s: how long a collected list of metrics is reused, in seconds.
        is_public: True if no credentials are required.
        document: answers at /openapi.json; None if the port has no description.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        readiness: Readiness,
        *,
        metrics_age_max_s: float = 0.0,
        is_public: bool = False,
        document: ApiDocument | None = None,
    ) -> None:
        self._registry = registry
        self._readiness = readiness
        self._metrics_age_max_s = metrics_age_max_s
        self._is_public = is_public
        self._document = document
        self._collected = b""
        self._collected_until = -math.inf
        self._is_collecting = trio.Lock()
        self._paths: Final = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    async def __call__(self, request: Request) -> Response:
        # One answer per turn and connection, so that a flood leaves time for decisions.
        await trio.lowlevel.checkpoint()
        if self._document is not None and request.path == OPENAPI_PATH:
            return await self._document(request)
        answer = self._paths.get(request.path)
        if answer is None:
            known = (*self._paths, OPENAPI_PATH) if self._document else self._paths
            return text_response(
                404,
                f"no such path: expected one of {', '.join(known)}; decisions are on the port of"
                " authorizerd.decision.http, and the web console (authorizerd.console=true) is on"
                " that of authorizerd.admin.http, at /console/",
            )
        if request.method not in GET:
            return method_not_allowed(", ".join(GET).encode())
        return await answer()

    async def _metrics(self) -> Response:
        # One at a time, so that one collection answers many simultaneous scrapes.
        async with self._is_collecting:
            now = trio.current_time()
            if now >= self._collected_until:
                # Each metric is collected in one step, so that the daemon does not change within a
                # metric. Writing all of them takes several milliseconds.
                metrics = [*self._registry.collect()]
                self._collected = b"".join(await collect(map(_encode, metrics)))
                self._collected_until = now + self._metrics_age_max_s
        return Response(status=200, body=self._collected, content_type=CONTENT_TYPE_LATEST)

    async def _healthz(self) -> Response:
        return text_response(200, "alive")

    async def _readyz(self) -> Response:
        """Answer 200 while decisions are made, otherwise 503 with the reason."""
        readiness = self._readiness
        text = readiness.public_text if self._is_public else readiness.text
        return text_response(200 if readiness.is_ready else 503, text)
