"""Find out which rows of an Arrow batch ACLs can decide."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from authorizerd.replay.judging.asking import QUESTION_FIELDS, unasked_reason


class _Row(NamedTuple):
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str


def unasked_reasons(batch: pa.RecordBatch) -> pa.StringArray:
    """Return why ACLs cannot decide each row, or null if they can, as ``unasked_reason`` says.

    ``batch`` has the columns of ``QUESTION_FIELDS``, and ``pattern_type``.
    """
    columns = (batch.column(name).to_pylist() for name in (*QUESTION_FIELDS, "pattern_type"))
    rows = map(_Row._make, zip(*columns, strict=True))
    return pa.array(map(unasked_reason, rows), pa.string(), size=batch.num_rows)
