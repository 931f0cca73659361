"""Audit logs and outputs that tests can inspect."""

from collections.abc import Sequence

import trio

from authorizerd.acl.audit.line import audit_message
from authorizerd.actors.audit_log import AuditEvent, AuditLog, PartialWriteError


class Writer:
    """An output that writes while ``goes_on`` is set, and fails while ``error`` is set.

    ``writes`` has the number of lines of each call.
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.writes: list[int] = []
        self.goes_on = trio.Event()
        self.goes_on.set()
        self.error: OSError | None = None

    async def write(self, lines: Sequence[bytes]) -> None:
        await self.goes_on.wait()
        self.writes.append(len(lines))
        if self.error is not None:
            if isinstance(self.error, PartialWriteError):
                self.lines += lines[: self.error.lines_written]
            raise self.error
        self.lines += lines


class RecordingAuditLog(AuditLog):
    """An audit log that keeps its events, and writes nothing."""

    def __init__(self, events_max: int = 1) -> None:
        super().__init__(
            Writer(),
            format_event=lambda event: b"",
            events_max=events_max,
            on_failure=lambda error: None,
        )
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)
        super().record(event)

    @property
    def lines(self) -> list[str]:
        """The line of each event, as Kafka writes it, after its level."""
        return [
            f"{event.level.name} "
            + audit_message(
                event.question, event.decision, event.request_name, event.resource_reference_count
            )
            for event in self.events
        ]
