"""What a worker makes of a batch of recorded tuples: Arrow rows that Spark can sum.

**Invariant:** rows of one tuple add up. Each event counts for every ACL that it used, and by a
label where it was asked of none. A super user's requests use no ACL, whatever speaks of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from authorizerd.acl.model import Question
from authorizerd.replay.judging.questions import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
    decide,
    unasked_reason,
)
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
"""A use of the ACL ``number``, whose ``label`` is the resource's name where the ACL is wide and
null otherwise. A negative number is no ACL: one of the three below."""

NOT_EVALUATED: Final = -1
"""``label`` says why."""
BY_SUPER_USERS: Final = -2
DISAGREEING: Final = -3
"""The ACLs decide otherwise than was recorded."""

CHANGE_SCHEMA: Final = pa.schema(
    [
        ("number", pa.int32()),
        ("is_allowed", pa.bool_()),
        ("events", pa.int64()),
        ("principal", pa.string()),
        ("resource_name", pa.string()),
    ]
)
"""A tuple that two sets answer otherwise: once with the number ``WHOLE_TUPLE``, and once for each
ACL that allowed it and was taken away. ``is_allowed`` is the new answer."""

WHOLE_TUPLE: Final = -1

_UseRow = tuple[int, str | None, bool, int, int | None]
_ChangeRow = tuple[int, bool, int, str, str]


class RecordedTuple(NamedTuple):
    """What distinguishes requests, and how often each answer was recorded: a row of a batch.

    Times are milliseconds since 1970, None where there was no such event.
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
    def unasked_reason(self) -> str | None:
        """Why no ACL can be asked; None where one can."""
        return unasked_reason(
            self.principal,
            self.operation,
            self.resource_type,
            self.resource_name,
            self.pattern_type,
        )

    @property
    def question(self) -> Question:
        return Question(
            self.principal,
            self.host,
            OPERATION_CODES[self.operation],
            RESOURCE_TYPE_CODES[self.resource_type],
            self.resource_name,
        )


def uses_in(index: UseIndex, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the uses that the tuples of ``batch`` made of the ACLs, by ``USE_SCHEMA``."""
    rows: list[_UseRow] = []
    asked: list[RecordedTuple] = []
    for recorded in _tuples_of(batch):
        events = recorded.allowed_events + recorded.denied_events
        reason = recorded.unasked_reason
        if reason is not None:
            rows.append((NOT_EVALUATED, reason, False, events, None))
        elif recorded.principal in index.super_users:
            rows.append((BY_SUPER_USERS, None, False, events, None))
        else:
            asked.append(recorded)
    for recorded, is_allowed in zip(asked, _decided(index, asked), strict=True):
        otherwise = recorded.denied_events if is_allowed else recorded.allowed_events
        if otherwise:
            rows.append((DISAGREEING, None, False, otherwise, None))
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
    """Return what ``after`` answers otherwise of the tuples of ``batch``, by ``CHANGE_SCHEMA``.

    Numbers are those of ``before``.
    """
    asked = [recorded for recorded in _tuples_of(batch) if recorded.unasked_reason is None]
    answers = zip(asked, _decided(before, asked), _decided(after, asked), strict=True)
    rows: list[_ChangeRow] = []
    for recorded, was_allowed, is_allowed in answers:
        if was_allowed == is_allowed:
            continue
        events = recorded.allowed_events + recorded.denied_events
        told = (is_allowed, events, recorded.principal, recorded.resource_name)
        rows.append((WHOLE_TUPLE, *told))
        rows += (
            (number, *told)
            for number, _ in before.uses(recorded.question, was_allowed=True)
            if before.acls[number] not in after
        )
    return _batch_of(rows, CHANGE_SCHEMA)


def _tuples_of(batch: pa.RecordBatch) -> Iterator[RecordedTuple]:
    assert tuple(batch.schema.names) == RecordedTuple._fields
    columns = [column.to_pylist() for column in batch.columns]
    return map(RecordedTuple._make, zip(*columns, strict=True))


def _decided(index: UseIndex, asked: list[RecordedTuple]) -> list[bool]:
    """Return what the set answers, by the evaluation that ``whatif`` runs."""
    columns = list(zip(*(recorded[:5] for recorded in asked), strict=True)) or [()] * 5
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in columns], names=list(QUESTION_FIELDS)
    )
    answers: list[bool] = decide(index.index, batch).to_pylist()
    return answers


def _batch_of(rows: list[_UseRow] | list[_ChangeRow], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
