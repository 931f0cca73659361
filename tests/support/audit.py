"""Audit logs and outputs that tests can inspect."""

from collections.abc import Sequence

import trio

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel, audit_message
from authorizerd.acl.decision import Decision, DefaultRule
from authorizerd.acl.model import CLUSTER_NAME, Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent, AuditLog, PartialWriteError
from authorizerd.daemon.audit.format import format_json

ALTER_CLUSTER = (Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
"""The operation and resource of a ``Question`` that asks for the right to change ACLs."""


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


def written_line(
    offset: int, principal: str, request: str = "CreateAcls", *, at_ms: int, via: str | None = None
) -> str:
    """Return the daemon's line in JSON of a request that has changed ACLs, with its line break."""
    question = Question(principal, "10.0.0.1", *ALTER_CLUSTER)
    caller = None if via is None else AuditedCaller("certificate", via, "10.0.0.9")
    event = AuditEvent(
        at_ms / 1000,
        AuditLevel.INFO,
        question,
        Decision(True, DefaultRule.SUPER_USER),
        request,
        offset,
        caller=caller,
        written_offset=offset,
    )
    return f"{format_json(event).decode()}\n"
