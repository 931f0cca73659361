"""The daemon's readiness, as reported on the admin and metrics ports and to the service manager.

**Invariant:** the daemon is ready once the ACLs are loaded, every endpoint is open, and the workers
listen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.record_applier import RecordApplier
from authorizerd.daemon.workers.pool import WorkerPool


class Readiness:
    """Report what the daemon is still waiting for.

    Args:
        high_watermark: returns the last offset that the source has read.
        workers: None if the daemon makes all decisions itself.
    """

    def __init__(
        self,
        applier: RecordApplier,
        gate: ListenerGate,
        high_watermark: Callable[[], int],
        workers: WorkerPool | None = None,
    ) -> None:
        self._applier: Final = applier
        self._gate: Final = gate
        self._high_watermark: Final = high_watermark
        self._workers: Final = workers

    @property
    def is_loaded(self) -> bool:
        return self._applier.snapshot.newest is not None

    @property
    def is_ready(self) -> bool:
        return not self._describe_wait()

    @property
    def text(self) -> str:
        """One line: what the daemon waits for, or the number of ACLs and their log offset."""
        statistics = self._applier.statistics()
        return (
            self._describe_wait()
            or f"ready: {statistics.acls} ACLs at log offset {statistics.offset}"
        )

    def _describe_wait(self) -> str:
        """Return what the daemon waits for, empty if it is ready."""
        if not self.is_loaded:
            return f"loading: read up to log offset {self._high_watermark()}"
        if not self._gate.is_all_open:
            return "waiting for the authorizer to start every endpoint"
        if self._workers is not None and not self._workers.is_ready:
            return f"waiting for workers: {self._workers.listening} listen"
        return ""
