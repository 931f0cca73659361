"""What a candidate set of ACLs would decide otherwise, batch by batch of distinct tuples.

Law: a tuple changes where the candidate denies what was allowed, or allows what was denied, and
only then; a rule is looked for only where something changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ops.replay.evaluation.index import AclIndex
from ops.replay.evaluation.questions import QUESTION_FIELDS, decide, rules

NEWLY_DENIED: Final = "newly_denied"
NEWLY_ALLOWED: Final = "newly_allowed"

_TIME: Final = pa.timestamp("us", tz="UTC")
CHANGES_SCHEMA: Final = pa.schema(
    [
        ("change", pa.string()),
        *((name, pa.string()) for name in QUESTION_FIELDS),
        ("events", pa.int64()),
        ("first_at", _TIME),
        ("last_at", _TIME),
        ("baseline_rule", pa.string()),
        ("candidate_rule", pa.string()),
    ]
)


def changes(
    batch: pa.RecordBatch, candidate: AclIndex, baseline: AclIndex | None
) -> Iterator[pa.RecordBatch]:
    """Yield what changes of a batch of tuples, at most one batch, of ``CHANGES_SCHEMA``.

    Without a baseline the recorded decisions are what is compared with: then ``events`` are the
    recorded events that were decided otherwise, and their rule and times are left to whoever has
    the events (``baseline_rule`` is null, the times are those of all the tuple's events).

    Raises:
        InvalidQuestionError: a tuple that cannot be asked (``questions.unasked_reason``).
    """
    allowed = decide(candidate, batch)
    if baseline is None:
        events = pc.if_else(allowed, batch.column("denied_events"), batch.column("allowed_events"))
        places = pc.indices_nonzero(pc.greater(events, 0))
    else:
        events = pc.add(batch.column("denied_events"), batch.column("allowed_events"))
        places = pc.indices_nonzero(pc.not_equal(allowed, decide(baseline, batch)))
    if not len(places):
        return
    changed = batch.take(places)
    kinds = pc.if_else(allowed.take(places), NEWLY_ALLOWED, NEWLY_DENIED)
    recorded = pa.nulls(len(places), pa.string())
    yield pa.RecordBatch.from_arrays(
        [
            kinds,
            *(changed.column(name) for name in QUESTION_FIELDS),
            events.take(places),
            changed.column("first_at").cast(_TIME),
            changed.column("last_at").cast(_TIME),
            recorded if baseline is None else pa.array(rules(baseline, changed), pa.string()),
            pa.array(rules(candidate, changed), pa.string()),
        ],
        schema=CHANGES_SCHEMA,
    )
