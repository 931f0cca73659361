"""Convert named tuples to Arrow and back.

A field is a string, a number, a boolean or bytes. A time ``x_ms``, in milliseconds since 1970, is a
timestamp in the column ``x_at``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar, get_args, get_type_hints

import pyarrow as pa

from authorizerd.replay.recorded.rows import Row

R = TypeVar("R", bound=Row)

_TYPES: Final[dict[Any, pa.DataType]] = {
    str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64(), bytes: pa.binary(),
}  # fmt: skip
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")
_STORED: Final = pa.timestamp("us", "UTC")


def column_of(name: str) -> str:
    """Return the column of a field."""
    return name.replace("_ms", "_at")


def schema_of(kind: type[Row]) -> pa.Schema:
    """Return the columns of rows of ``kind``."""
    hints = get_type_hints(kind)
    types = {name: _TYPES[(get_args(hint) or (hint,))[0]] for name, hint in hints.items()}
    return pa.schema(
        (column_of(name), _STORED if column_of(name) != name else types[name])
        for name in kind._fields
    )


def read_rows(batch: pa.RecordBatch, kind: type[R]) -> Iterator[R]:
    """Return the rows of a batch, which has the columns of ``kind`` in any order."""
    columns = (_values(batch.column(column_of(name))) for name in kind._fields)
    return map(kind._make, zip(*columns, strict=True))


def _values(column: pa.Array) -> Sequence[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(_MILLISECONDS, safe=False).cast(pa.int64())
    if not pa.types.is_string(column.type):
        values: list[Any] = column.to_pylist()
        return values
    # Equal texts become one object, so each is made and hashed only once.
    encoded = column.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.to_pylist()
    return list(map(distinct.__getitem__, encoded.indices.to_pylist()))


def make_batch(rows: Sequence[R], kind: type[R]) -> pa.RecordBatch:
    """Return rows of ``kind`` as a batch."""
    schema = schema_of(kind)
    # Without rows, zip yields no columns at all.
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(column, _MILLISECONDS).cast(_STORED)
        if field.type == _STORED
        else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
