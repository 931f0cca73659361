"""Turn a batch of recorded tuples into Arrow rows that Spark sums up. Runs in Spark's workers.

**Invariant:** each event counts once for every ACL that it used. An event that the ACLs cannot
decide counts once under its reason, and a super user's event once under ``BY_SUPER_USERS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.acl.model import Question
from authorizerd.replay.judging.asking import OPERATION_CODES, RESOURCE_TYPE_CODES
from authorizerd.replay.judging.questions import decide, unasked_reasons
from authorizerd.replay.usage.matching import UseIndex, is_wide

USE_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("label", pa.string()),
        ("is_alone", pa.bool_()),
        ("events", pa.int64()),
        ("last_ms", pa.int64()),
    ]
)
"""A row says how ``events`` used the ACL ``number``; negative numbers are the constants below.
``label`` is the resource's name if the ACL is wide, otherwise null. ``is_alone`` is true if
no other ACL gave the same decision."""

NOT_EVALUATED: Final = -1
"""The ACLs cannot decide the tuple; ``label`` is the reason."""
BY_SUPER_USERS: Final = -2
DISAGREEING: Final = -3
"""The ACLs decide these events differently from the recorded decisions."""

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

WHOLE_TUPLE: Final = -1

_UseRow = tuple[int, str | None, bool, int, int | None]
_ChangeRow = tuple[int, bool, int, str, str]


class RecordedTuple(NamedTuple):
    """A distinct request, and the number of times each answer was recorded: a row of a batch.

    Times are milliseconds since 1970, or None if no such event was recorded.
    """

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed_events: int
    denied_events: int
    allowed_last_ms: int | None
    denied_last_ms: int | None

    @property
    def events(self) -> int:
        return self.allowed_events + self.denied_events

    @property
    def question(self) -> Question:
        """Return the question to ask the ACLs, which must be able to decide the tuple."""
        return Question(
            self.principal,
            self.host,
            OPERATION_CODES[self.operation],
            RESOURCE_TYPE_CODES[self.resource_type],
            self.resource_name,
        )


def uses_in(index: UseIndex, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the uses of ACLs by the tuples of ``batch``, with ``USE_SCHEMA``."""
    rows: list[_UseRow] = []
    reasons = unasked_reasons(batch)
    for recorded, reason in zip(_tuples_of(batch), reasons.to_pylist(), strict=True):
        if reason is not None:
            rows.append((NOT_EVALUATED, reason, False, recorded.events, None))
    asked = batch.filter(reasons.is_null())
    answers = decide(index.index, asked).to_pylist()
    for recorded, is_allowed in zip(_tuples_of(asked), answers, strict=True):
        if recorded.principal in index.super_users:
            rows.append((BY_SUPER_USERS, None, False, recorded.events, None))
            continue
        disagreeing = recorded.denied_events if is_allowed else recorded.allowed_events
        if disagreeing:
            rows.append((DISAGREEING, None, False, disagreeing, None))
        rows += _use_rows(index, recorded)
    return _batch_of(rows, USE_SCHEMA)


def _use_rows(index: UseIndex, recorded: RecordedTuple) -> Iterator[_UseRow]:
    question = recorded.question
    for was_allowed, events, last_ms in (
        (True, recorded.allowed_events, recorded.allowed_last_ms),
        (False, recorded.denied_events, recorded.denied_last_ms),
    ):
        if not events:
            continue
        for number, is_alone in index.uses(question, was_allowed=was_allowed):
            label = recorded.resource_name if is_wide(index.acls[number]) else None
            yield number, label, is_alone, events, last_ms


def changes_in(before: UseIndex, after: UseIndex, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the tuples of ``batch`` that ``after`` answers differently, with ``CHANGE_SCHEMA``.

    Each number identifies an ACL of ``before``.
    """
    asked = batch.filter(unasked_reasons(batch).is_null())
    answers = decide(after.index, asked)
    is_changed = pc.not_equal(decide(before.index, asked), answers)
    changed = _tuples_of(asked.filter(is_changed))
    rows: list[_ChangeRow] = []
    for recorded, is_allowed in zip(changed, answers.filter(is_changed).to_pylist(), strict=True):
        change = (is_allowed, recorded.events, recorded.principal, recorded.resource_name)
        rows.append((WHOLE_TUPLE, *change))
        rows += (
            (number, *change)
            for number, _ in before.uses(recorded.question, was_allowed=True)
            if before.acls[number] not in after
        )
    return _batch_of(rows, CHANGE_SCHEMA)


def _tuples_of(batch: pa.RecordBatch) -> Iterator[RecordedTuple]:
    assert tuple(batch.schema.names) == RecordedTuple._fields
    columns = [column.to_pylist() for column in batch.columns]
    return map(RecordedTuple._make, zip(*columns, strict=True))


def _batch_of(rows: list[_UseRow] | list[_ChangeRow], schema: pa.Schema) -> pa.RecordBatch:
    # Without rows, zip yields no columns at all.
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
