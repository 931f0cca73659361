"""Convert named tuples to Arrow and back, and run functions over those in Arrow.

A field is a string, a number, a boolean or bytes. A time ``x_ms``, in milliseconds since 1970, is a
timestamp in the column ``x_at``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar, get_args, get_type_hints

import pyarrow as pa

from authorizerd.replay.recorded.rows import Find, LocalRows, Row, SelectiveFind

T = TypeVar("T")
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


def find_in_batches(
    batches: Iterable[pa.RecordBatch], kind: type[T], find: Find[T, R]
) -> Iterable[R]:
    """Return what ``find`` yields for the rows of batches, without making rows it does not need."""
    return find(chain.from_iterable(_read_needed(batch, kind, find) for batch in batches))


def _read_needed(batch: pa.RecordBatch, kind: type[R], find: Find[Any, Any]) -> Iterator[R]:
    numbers = find.select(BatchColumns(batch)) if isinstance(find, SelectiveFind) else None
    return read_rows(batch if numbers is None else batch.take(pa.array(numbers, pa.int64())), kind)


class BatchRows(LocalRows[T]):
    """The rows of batches, which are made anew each time."""

    def __init__(self, batches: Iterable[pa.RecordBatch], kind: type[T]) -> None:
        self._batches = batches
        self._kind = kind

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(read_rows(batch, self._kind) for batch in self._batches)

    def find(self, find: Find[T, R], /) -> Iterable[R]:
        """Return what ``find`` yields."""
        return find_in_batches(self._batches, self._kind, find)


class BatchColumns:
    """The columns of a batch; see ``rows.Columns``."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._distinct: dict[str, list[Any]] = {}

    def values(self, name: str) -> Sequence[Any]:
        column = self._batch.column(column_of(name))
        return _look_up(column, self.distinct(name)) if _is_text(column) else _values(column)

    def distinct(self, name: str) -> Sequence[Any]:
        if name not in self._distinct:
            self._distinct[name] = _read_distinct(self._batch.column(column_of(name)))
        return self._distinct[name]


def _values(column: pa.Array) -> Sequence[Any]:
    if _is_text(column):
        # Equal texts become one object, so each is made and hashed only once.
        return _look_up(column, _read_distinct(column))
    if pa.types.is_timestamp(column.type):
        column = column.cast(_MILLISECONDS, safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type) or pa.types.is_string(column.type))


def _encode(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _read_distinct(column: pa.Array) -> list[Any]:
    """Return the texts of a column, then None if it has nulls."""
    texts: list[Any] = _encode(column).dictionary.to_pylist()
    return [*texts, None] if column.null_count else texts


def _look_up(column: pa.Array, distinct: Sequence[Any]) -> Sequence[Any]:
    numbers = _encode(column).indices.fill_null(len(distinct) - 1)
    return list(map(distinct.__getitem__, numbers.to_pylist()))


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
