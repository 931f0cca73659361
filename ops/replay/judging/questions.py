"""Ask a set of ACLs about an Arrow batch of recorded tuples.

**Invariant:** each row is answered as ``acl.decision.authorize`` answers it, or has a reason why
ACLs cannot decide it. Repetitive columns are decoded once per distinct value, so that most of the
time is spent in the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.acl.decision import authorize, explain
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Question
from authorizerd.replay.judging.asking import CONDITIONS, OPERATION_CODES, RESOURCE_TYPE_CODES
from authorizerd.replay.judging.index import AclIndex


def unasked_reasons(batch: pa.RecordBatch) -> pa.StringArray:
    """Return why ACLs cannot decide each row, or null if they can, as ``asking.CONDITIONS`` say.

    ``batch`` has the columns of ``QUESTION_FIELDS``, and ``pattern_type``.
    """
    held = []
    for _, field, values, if_among in CONDITIONS:
        is_among = pc.is_in(batch.column(field), pa.array(values, pa.string()))
        held.append(is_among if if_among else pc.invert(is_among))
    # The first condition that holds gives the reason.
    applies = pc.make_struct(*held, field_names=[str(number) for number in range(len(held))])
    return pc.case_when(applies, *(pa.scalar(str(each.reason)) for each in CONDITIONS))


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
