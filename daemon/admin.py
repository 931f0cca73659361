"""The admin port: /metrics, /healthz, /readyz.

Law: it answers from the first moment on, whatever the ACLs' state, and says nothing secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from actors.listener_gate import ListenerGate
from actors.record_applier import RecordApplier
from daemon.worker_pool import WorkerPool
from protocol.http import Request, Response, text_response

METHODS: Final = ("GET", "HEAD")


class AdminHandler:
    """Args:
    high_watermark: the last offset that the source has read.
    workers: None where the daemon decides alone.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        applier: RecordApplier,
        gate: ListenerGate,
        high_watermark: Callable[[], int],
        workers: WorkerPool | None = None,
    ) -> None:
        self._registry = registry
        self._applier = applier
        self._gate = gate
        self._high_watermark = high_watermark
        self._workers = workers
        self._paths: Final = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    async def __call__(self, request: Request) -> Response:
        answer = self._paths.get(request.path)
        if answer is None:
            return text_response(404, f"no such path; there are {', '.join(self._paths)}")
        if request.method not in METHODS:
            response = text_response(405, "only GET is answered here")
            return msgspec.structs.replace(response, headers=((b"Allow", b"GET, HEAD"),))
        return answer()

    def _metrics(self) -> Response:
        return Response(
            status=200, body=generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST
        )

    def _healthz(self) -> Response:
        return text_response(200, "alive")

    def _readyz(self) -> Response:
        """Answer 200 once the ACLs are loaded and every endpoint is open."""
        statistics = self._applier.statistics()
        if statistics.offset < 0:
            return text_response(503, f"loading: read up to log offset {self._high_watermark()}")
        if not self._gate.is_wide_open:
            return text_response(503, "waiting for the authorizer to start every endpoint")
        if self._workers is not None and not self._workers.is_ready:
            return text_response(503, f"waiting for workers: {self._workers.listening} listen")
        return text_response(
            200, f"ready: {statistics.acls} ACLs at log offset {statistics.offset}"
        )
