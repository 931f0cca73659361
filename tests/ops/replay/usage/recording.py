"""Recorded events in figures, as ingest gives them, and in Arrow, as the workers meet them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.rows import RecordedTuple
from tests.oracles.usage import Recorded

DAY_MS = 86_400_000
TUPLES = pa.schema(
    [
        *((name, pa.string()) for name in RecordedTuple._fields[:6]),
        *((name, pa.int64()) for name in RecordedTuple._fields[6:]),
    ]
)


def ingested(events: Sequence[Recorded], *, accepted: bool = True) -> Ingested:
    """Return the figures of an ingest of just these events."""
    allowed = sum(event.allowed for event in events)
    times = [event.at_ms for event in events]
    return Ingested(
        accepted=accepted,
        lines=len(events),
        blank_lines=0,
        events=len(events),
        set_aside=0,
        reasons={},
        allowed_events=allowed,
        denied_events=len(events) - allowed,
        tuples=len({event.question for event in events}),
        first_at=format_time(min(times)) if times else None,
        last_at=format_time(max(times)) if times else None,
        time_zone="UTC",
        inputs=("test",),
        levels={},
    )


def tuples_batch(events: Iterable[Recorded], *, pattern_type: str = "LITERAL") -> pa.RecordBatch:
    """Return the distinct questions of ``events`` with their counts, as Spark groups them."""
    tuples: dict[object, RecordedTuple] = {}
    for event in events:
        question = event.question
        before = tuples.get(question) or RecordedTuple(
            question.principal,
            question.host,
            Operation(question.operation).name,
            ResourceType(question.resource_type).name,
            question.resource_name,
            pattern_type,
            0,
            0,
            None,
            None,
        )
        if event.allowed:
            last_ms = max(event.at_ms, before.allowed_last_ms or event.at_ms)
            after = before._replace(
                allowed_events=before.allowed_events + 1, allowed_last_ms=last_ms
            )
        else:
            last_ms = max(event.at_ms, before.denied_last_ms or event.at_ms)
            after = before._replace(denied_events=before.denied_events + 1, denied_last_ms=last_ms)
        tuples[question] = after
    rows = [recorded._asdict() for recorded in tuples.values()]
    return pa.RecordBatch.from_pylist(rows, schema=TUPLES)
