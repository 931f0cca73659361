"""Turn a batch of recorded tuples into Arrow rows that Spark sums up. Runs in Spark's workers.

**Invariant:** each event counts once for every ACL that it used. An event that the ACLs cannot
decide counts once under its reason, and a super user's event once under ``BY_SUPER_USERS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.replay.judging.questions import decide, unasked_reasons
from authorizerd.replay.usage.matching import UseIndex
from authorizerd.replay.usage.recorded import (
    ChangeRow,
    RecordedTuple,
    UseRow,
    change_rows,
    unasked_row,
    use_rows,
)

USE_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("label", pa.string()),
        ("is_alone", pa.bool_()),
        ("events", pa.int64()),
        ("last_ms", pa.int64()),
    ]
)
"""A row says how ``events`` used the ACL ``number``, or has a negative number of ``recorded``.
See ``recorded.UseRow``."""

CHANGE_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("is_allowed", pa.bool_()),
        ("events", pa.int64()),
        ("principal", pa.string()),
        ("resource_name", pa.string()),
    ]
)
"""A tuple that two sets of ACLs decide differently has one row with the number ``WHOLE_TUPLE``, and
one for each removed ACL that allowed it. ``is_allowed`` is the new decision."""


def uses_in(index: UseIndex, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the uses of ACLs by the tuples of ``batch``, with ``USE_SCHEMA``."""
    rows: list[UseRow] = []
    reasons = unasked_reasons(batch)
    for recorded, reason in zip(_tuples_of(batch), reasons.to_pylist(), strict=True):
        if reason is not None:
            rows.append(unasked_row(recorded, reason))
    asked = batch.filter(reasons.is_null())
    answers = decide(index.index, asked).to_pylist()
    for recorded, is_allowed in zip(_tuples_of(asked), answers, strict=True):
        rows += use_rows(index, recorded, is_allowed=is_allowed)
    return _batch_of(rows, USE_SCHEMA)


def changes_in(before: UseIndex, after: UseIndex, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the tuples of ``batch`` that ``after`` answers differently, with ``CHANGE_SCHEMA``.

    Each number identifies an ACL of ``before``.
    """
    asked = batch.filter(unasked_reasons(batch).is_null())
    answers = decide(after.index, asked)
    is_changed = pc.not_equal(decide(before.index, asked), answers)
    changed = _tuples_of(asked.filter(is_changed))
    rows: list[ChangeRow] = []
    for recorded, is_allowed in zip(changed, answers.filter(is_changed).to_pylist(), strict=True):
        rows += change_rows(before, after, recorded, is_allowed=is_allowed)
    return _batch_of(rows, CHANGE_SCHEMA)


def _tuples_of(batch: pa.RecordBatch) -> Iterator[RecordedTuple]:
    assert tuple(batch.schema.names) == RecordedTuple._fields
    columns = [column.to_pylist() for column in batch.columns]
    return map(RecordedTuple._make, zip(*columns, strict=True))


def _batch_of(rows: list[UseRow] | list[ChangeRow], schema: pa.Schema) -> pa.RecordBatch:
    # Without rows, zip yields no columns at all.
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
