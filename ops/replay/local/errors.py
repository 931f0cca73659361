"""The error of the local engine."""

from __future__ import annotations

from typing import Final

from authorizerd.replay.errors import ReplayError

USE_SPARK: Final = (
    "use Spark: run authorizerd replay ingest and authorizerd replay whatif, and pass its "
    "whatif.json with --traffic-report"
)


class TrafficError(ReplayError):
    """Recorded traffic cannot be evaluated; the text names the file, and what to do."""


class NeedsSparkError(TrafficError):
    """Spark can evaluate this recorded traffic, but one process cannot; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: {USE_SPARK}")
        self.reason = reason
