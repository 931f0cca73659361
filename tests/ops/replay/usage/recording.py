"""Recorded events as the figures of an ingest, and as Arrow batches for the workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.recorded import RecordedTuple
from tests.oracles.usage import Recorded

DAY_MS = 86_400_000
TUPLES = pa.schema(
    [
        *((name, pa.string()) for name in RecordedTuple._fields[:6]),
        *((name, pa.int64()) for name in RecordedTuple._fields[6:]),
    ]
)


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


def tuples_batch(events: Iterable[Recorded], *, pattern_type: str = "LITERAL") -> pa.RecordBatch:
    """Return the distinct questions of ``events`` with their counts, as Spark groups them."""
    tuples: dict[Question, list[Recorded]] = {}
    for event in events:
        tuples.setdefault(event.question, []).append(event)
    rows = []
    for question, asked in tuples.items():
        allowed, denied = (
            [e.at_ms for e in asked if e.allowed is verdict] for verdict in (True, False)
        )
        rows.append(
            (
                question.principal, question.host, Operation(question.operation).name,
                ResourceType(question.resource_type).name, question.resource_name, pattern_type,
                len(allowed), len(denied), max(allowed, default=None), max(denied, default=None),
            )
        )  # fmt: skip
    return pa.RecordBatch.from_pylist(
        [dict(zip(RecordedTuple._fields, row, strict=True)) for row in rows], schema=TUPLES
    )
