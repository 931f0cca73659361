"""Recorded events as the figures of an ingest, and as tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time
from tests.oracles.usage import Recorded

DAY_MS = 86_400_000


def ingested(events: Sequence[Recorded], *, accepted: bool = True) -> Ingested:
    """Return the figures of an ingest of ``events``."""
    allowed = sum(event.allowed for event in events)
    times = [event.at_ms for event in events]
    return Ingested(
        accepted=accepted, lines=len(events), blank_lines=0, events=len(events), set_aside=0,
        reasons={}, allowed_events=allowed, denied_events=len(events) - allowed,
        tuples=len({event.question for event in events}),
        first_at=format_time(min(times)) if times else None,
        last_at=format_time(max(times)) if times else None, time_zone="UTC", inputs=("test",),
        levels={},
    )  # fmt: skip


def tuples_of(events: Iterable[Recorded], *, pattern_type: str = "LITERAL") -> list[RecordedTuple]:
    """Return the distinct questions of ``events`` with their figures."""
    return merge_tuples(
        Part(
            one.question.principal,
            one.question.host,
            Operation(one.question.operation).name,
            ResourceType(one.question.resource_type).name,
            one.question.resource_name,
            pattern_type,
            one.allowed,
            None,
            1,
            one.at_ms,
            one.at_ms,
        )
        for one in events
    )
