"""The error of the local engine."""

from __future__ import annotations

from typing import Final

USE_SPARK: Final = (
    "use Spark: run authorizerd replay ingest and authorizerd replay whatif, and pass its "
    "whatif.json with --traffic-report"
)


class TrafficError(Exception):
    """Recorded traffic that cannot be evaluated; the text names the file, and what to do."""


class NeedsSparkError(TrafficError):
    """Recorded traffic that Spark can evaluate, but not one process; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: {USE_SPARK}")
        self.reason = reason
