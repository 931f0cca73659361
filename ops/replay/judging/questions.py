"""Ask a set of ACLs about an Arrow batch of recorded tuples.

**Invariant:** each row is answered as ``acl.decision.authorize`` answers it, or has a reason why
ACLs cannot decide it. Repetitive columns are decoded once per distinct value, so that most of the
time is spent in the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import repeat
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.acl.decision import authorize, explain
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    Question,
    ResourceType,
)
from authorizerd.replay.judging.index import AclIndex

OPERATION_CODES: Final[Mapping[str, int]] = {Operation(code).name: code for code in OPERATIONS}
RESOURCE_TYPE_CODES: Final[Mapping[str, int]] = {
    ResourceType(code).name: code for code in RESOURCE_TYPES
}
QUESTION_FIELDS: Final = ("principal", "host", "operation", "resource_type", "resource_name")


class Unasked(StrEnum):
    """Reason why ACLs cannot decide a recorded tuple."""

    INCOMPLETE = "no principal or no resource name"
    EVERYONE = "principal User:*"
    PATTERN_TYPE = "pattern type is not LITERAL"
    OPERATION = "unknown operation"
    RESOURCE_TYPE = "unknown resource type"


def unasked_reasons(batch: pa.RecordBatch) -> pa.StringArray:
    """Return why ACLs cannot decide each row, or null if they can.

    This is the only such rule: every command that judges or asks uses it. ``batch`` has the columns
    of ``QUESTION_FIELDS``, and ``pattern_type``.
    """
    principal = batch.column("principal")
    reasons = {
        Unasked.INCOMPLETE: pc.or_(principal.is_null(), batch.column("resource_name").is_null()),
        Unasked.EVERYONE: pc.equal(principal, WILDCARD_PRINCIPAL),
        Unasked.PATTERN_TYPE: _is_other(batch.column("pattern_type"), [PatternType.LITERAL.name]),
        Unasked.OPERATION: _is_other(batch.column("operation"), OPERATION_CODES),
        Unasked.RESOURCE_TYPE: _is_other(batch.column("resource_type"), RESOURCE_TYPE_CODES),
    }
    # The first condition that holds gives the reason; a null condition does not hold.
    applies = pc.make_struct(*reasons.values(), field_names=list(reasons))
    return pc.case_when(applies, *map(pa.scalar, reasons))


def _is_other(column: pa.Array, names: Iterable[str]) -> pa.BooleanArray:
    return pc.invert(pc.is_in(column, pa.array(list(names), pa.string())))


def decide(index: AclIndex, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether each row of ``batch`` is allowed; it has the columns ``QUESTION_FIELDS``.

    Raises:
        InvalidQuestionError: ``unasked_reasons`` has a reason for a row.
    """
    snapshot, settings = index
    answers = map(
        authorize,
        repeat(snapshot),
        repeat(settings),
        _texts(batch.column("principal")),
        _texts(batch.column("host")),
        _codes(batch.column("operation"), OPERATION_CODES),
        _codes(batch.column("resource_type"), RESOURCE_TYPE_CODES),
        batch.column("resource_name").to_pylist(),
    )
    return pa.array(answers, pa.bool_(), size=batch.num_rows)


def rules(index: AclIndex, batch: pa.RecordBatch) -> list[str]:
    """Return the text of the rule behind each row's decision, as the audit log names it.

    Raises:
        InvalidQuestionError: as ``decide``.
    """
    questions = zip(
        batch.column("principal").to_pylist(),
        batch.column("host").to_pylist(),
        _codes(batch.column("operation"), OPERATION_CODES),
        _codes(batch.column("resource_type"), RESOURCE_TYPE_CODES),
        batch.column("resource_name").to_pylist(),
        strict=True,
    )
    return [str(explain(*index, Question(*question)).rule) for question in questions]


def _texts(column: pa.Array) -> list[str | None]:
    """Return a column's texts. Equal texts are one object, so each is hashed only once."""
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.to_pylist()
    return list(map(distinct.__getitem__, encoded.indices.to_pylist()))


def _codes(column: pa.Array, codes: Mapping[str, int]) -> list[int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct: list[int] = []
    for name in encoded.dictionary.to_pylist():
        code = codes.get(name)
        if code is None:
            raise InvalidQuestionError(f"{name!r} is not a name that a question can contain")
        distinct.append(code)
    return list(map(distinct.__getitem__, encoded.indices.to_pylist()))
