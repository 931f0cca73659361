"""Find the decisions that a candidate set of ACLs changes, in a batch of distinct tuples.

**Invariant:** a tuple changes only if the candidate denies what was allowed, or allows what was
denied. Rules are looked up only for changed tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.questions import decide, rules
from authorizerd.replay.whatif.report import NEWLY_ALLOWED, NEWLY_DENIED

_OF_ALL: Final = ("events", "first_at", "last_at")
FIGURES: Final = (*_OF_ALL, "rule")
"""Each figure is a column for allowed events and one for denied events: ``allowed_events`` …"""

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


def find_changes(
    batch: pa.RecordBatch, candidate: AclIndex, baseline: AclIndex | None
) -> Iterator[pa.RecordBatch]:
    """Yield the changed tuples of a batch, as at most one batch with ``CHANGES_SCHEMA``.

    Without a baseline, the candidate is compared with the recorded decisions: ``events``, the times
    and ``baseline_rule`` are those of the events whose decision changes. With a baseline, events
    and times are those of the whole tuple.

    Raises:
        InvalidQuestionError: ``questions.unasked_reasons`` has a reason for a tuple.
    """
    allowed = decide(candidate, batch)
    if baseline is None:
        compared = {
            name: pc.if_else(
                allowed, batch.column(f"denied_{name}"), batch.column(f"allowed_{name}")
            )
            for name in FIGURES
        }
        places = pc.indices_nonzero(pc.greater(compared["events"], 0))
    else:
        compared = {name: _of_both(name, batch) for name in _OF_ALL}
        places = pc.indices_nonzero(pc.not_equal(allowed, decide(baseline, batch)))
    if not len(places):
        return
    changed = batch.take(places)
    kinds = pc.if_else(allowed.take(places), NEWLY_ALLOWED, NEWLY_DENIED)
    events, first_at, last_at = (compared[name].take(places) for name in _OF_ALL)
    before = (
        compared["rule"].take(places)
        if baseline is None
        else pa.array(rules(baseline, changed), pa.string())
    )
    yield pa.RecordBatch.from_arrays(
        [
            kinds,
            *(changed.column(name) for name in QUESTION_FIELDS),
            events,
            first_at.cast(_TIME),
            last_at.cast(_TIME),
            before,
            pa.array(rules(candidate, changed), pa.string()),
        ],
        schema=CHANGES_SCHEMA,
    )


def _of_both(name: str, batch: pa.RecordBatch) -> pa.Array:
    """Return a figure for all events of a tuple."""
    denied, allowed = (batch.column(f"{verdict}_{name}") for verdict in ("denied", "allowed"))
    if name == "events":
        return pc.add(denied, allowed)
    earlier_or_later = {"first_at": pc.min_element_wise, "last_at": pc.max_element_wise}[name]
    # Arrow has element-wise minimum and maximum for numbers, but not for times.
    return earlier_or_later(denied.cast(pa.int64()), allowed.cast(pa.int64())).cast(_TIME)
