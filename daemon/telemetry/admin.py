"""The admin port: /metrics, /healthz, /readyz.

**Invariant:** it answers from the start, even before the ACLs are loaded, and reveals no secret.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import Request, Response, text_response

METHODS: Final = ("GET", "HEAD")


class AdminHandler:
    """Answer the requests of the admin port."""

    def __init__(self, registry: CollectorRegistry, readiness: Readiness) -> None:
        self._registry = registry
        self._readiness = readiness
        self._paths: Final = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    async def __call__(self, request: Request) -> Response:
        answer = self._paths.get(request.path)
        if answer is None:
            return text_response(404, f"no such path: expected one of {', '.join(self._paths)}")
        if request.method not in METHODS:
            response = text_response(405, "method not allowed: expected GET")
            return msgspec.structs.replace(response, headers=((b"Allow", b"GET, HEAD"),))
        await trio.lowlevel.checkpoint()  # collecting all metrics takes a millisecond
        return answer()

    def _metrics(self) -> Response:
        return Response(
            status=200, body=generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST
        )

    def _healthz(self) -> Response:
        return text_response(200, "alive")

    def _readyz(self) -> Response:
        """Answer 200 once the ACLs are loaded and every endpoint is open."""
        return text_response(200 if self._readiness.is_ready else 503, self._readiness.text)
