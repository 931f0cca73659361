"""The errors that end a command of replay with exit code 1; the text of each is one line."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.text.printable import escape_unprintable

USE_SPARK: Final = (
    "use Spark: run authorizerd replay ingest and authorizerd replay whatif, and pass its "
    "whatif.json with --traffic-report"
)


class ReplayError(Exception):
    """A fault that the user can repair: the text names the reason, and mostly the remedy."""


class AclSourceError(ReplayError):
    """A source cannot be read as ACLs.

    ``place`` is the position in the source (``line 7``, ``acls[3].operation``), or None if the
    error concerns the whole source.
    """

    def __init__(self, source: str, reason: str, place: str | None = None) -> None:
        super().__init__(source, reason, place)
        self.source = source
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        """Return ``source: place: reason`` on one line, whatever the source contains."""
        return escape_unprintable(": ".join(filter(None, (self.source, self.place, self.reason))))


class ReportError(ReplayError):
    """The results of a run cannot be read, or their report cannot be written."""


class SubmissionError(ReplayError):
    """Spark cannot be started with these options."""


class UsageError(ReplayError):
    """The record, or the dates of the ACLs, do not support a claim."""


class JobError(ReplayError):
    """Unusable input, or a cluster that cannot run the job."""


class LoadError(ReplayError):
    """A load cannot run, or its target does not answer as the protocol requires."""


class SendingError(ReplayError):
    """A load failed after its start, so it is unknown how much was sent."""


class TrafficError(ReplayError):
    """Recorded traffic cannot be evaluated; the text names the file."""


class NeedsSparkError(TrafficError):
    """Spark can evaluate this recorded traffic, but one process cannot; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: {USE_SPARK}")
        self.reason = reason
