"""The questions of an Arrow batch: which can be asked, and what the ACLs answer.

**Invariant:** a batch is answered as ``acl.decision.authorize`` answers each of its rows. Columns
that repeat themselves are read by their distinct values; most of the time is the decisions' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import repeat
from typing import Final

import pyarrow as pa

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


def unasked_reason(
    principal: str | None,
    operation: str | None,
    resource_type: str | None,
    resource_name: str | None,
    pattern_type: str | None,
) -> Unasked | None:
    """Return why ACLs cannot decide a tuple, or None if they can."""
    if principal is None or resource_name is None:
        return Unasked.INCOMPLETE
    if principal == WILDCARD_PRINCIPAL:
        return Unasked.EVERYONE
    if pattern_type != PatternType.LITERAL.name:
        return Unasked.PATTERN_TYPE
    if operation not in OPERATION_CODES:
        return Unasked.OPERATION
    if resource_type not in RESOURCE_TYPE_CODES:
        return Unasked.RESOURCE_TYPE
    return None


def decide(index: AclIndex, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether each row of ``batch`` is allowed; it has the columns ``QUESTION_FIELDS``.

    Raises:
        InvalidQuestionError: a row that ``unasked_reason`` gives a reason for.
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
    """Return a column's texts, equal ones as one object, whose hash is then taken only once."""
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.to_pylist()
    return list(map(distinct.__getitem__, encoded.indices.to_pylist()))


def _codes(column: pa.Array, codes: Mapping[str, int]) -> list[int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct: list[int] = []
    for name in encoded.dictionary.to_pylist():
        code = codes.get(name)
        if code is None:
            raise InvalidQuestionError(f"{name!r} is no code that a question may hold")
        distinct.append(code)
    return list(map(distinct.__getitem__, encoded.indices.to_pylist()))
