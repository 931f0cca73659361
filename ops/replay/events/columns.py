"""Lines in Arrow's arrays to columns of events: a log repeats itself, so what repeats is read once.

Law: of each line the columns say what ``parse_line`` says. A plain beginning (the broker's time and
a level, a container's stamp before them) holds no marker, and no other time that counts: lines that
differ in that alone are one event at several instants. It is read as of one time, and each line's
own is put in its place.
"""

from __future__ import annotations

from datetime import tzinfo
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow
import pyarrow.compute as compute

from ops.replay.events.event import Event, Reason
from ops.replay.events.kafka_line import PRINCIPAL
from ops.replay.events.line import LineFormat, parse_line
from ops.replay.events.times import LEVELS, Head

SCHEMA: Final = pyarrow.schema(
    {
        "line": pyarrow.binary(),  # null for an event
        "reason": pyarrow.string(),  # null for an event, empty for a blank line
        "at": pyarrow.timestamp("us", "UTC"),
        "allowed": pyarrow.bool_(),
        "principal": pyarrow.string(),
        "host": pyarrow.string(),
        "operation": pyarrow.string(),
        "resource_type": pyarrow.string(),
        "resource_name": pyarrow.string(),
        "pattern_type": pyarrow.string(),
        "request": pyarrow.string(),
        "reference_count": pyarrow.int32(),
        "rule": pyarrow.string(),
        "level": pyarrow.string(),
    }
)
_READ: Final = [pyarrow.field("at_ms", pyarrow.int64()), *list(SCHEMA)[3:], SCHEMA.field("reason")]

_PLAIN: Final = (
    r"(?s)^(?:[0-9T:.Z+-]+ (?:stdout|stderr) F )?"
    r"\[?(?P<second>2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}),(?P<ms>[0-9]{3})\]? "
    rf"(?P<rest>(?:{'|'.join(LEVELS)}) {PRINCIPAL}.*)$"
)
_ONE_TIME: Final = b"[2000-01-01 00:00:00,000] "
# These bound what a reader remembers: 60 MB of lines such as Kafka's, 300 MB of the longest.
_REMEMBERED_BYTES_MAX: Final = 2048
_REMEMBERED_MAX: Final = 65_536

_NO_VALUES: Final = (None,) * len(Event.__struct_fields__)

_Row = tuple[Any, ...]


class EventReader:
    """Reads lines; ``zone`` is that of a time without one."""

    def __init__(self, zone: tzinfo, line_format: LineFormat) -> None:
        self._zone = zone
        self._line_format: LineFormat = line_format
        self._remembered_row = lru_cache(_REMEMBERED_MAX)(self._row)
        self._remembered_ms = lru_cache(_REMEMBERED_MAX)(self._ms)

    def read(self, lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
        """Return the columns of ``SCHEMA``; a line that is no event has ``line`` and ``reason``."""
        is_short = compute.less_equal(compute.binary_length(lines), _REMEMBERED_BYTES_MAX)
        plain = compute.extract_regex(compute.if_else(is_short, lines, None), _PLAIN)
        second_ms, beginning = self._seconds(compute.struct_field(plain, "second"))
        # Null where the line is long, its beginning not plain, or no time: it is read as it is.
        as_of_one_time = compute.binary_join_element_wise(
            beginning, compute.struct_field(plain, "rest"), b""
        )
        texts = compute.coalesce(as_of_one_time, lines).dictionary_encode()
        rows = list(map(self._row_of, texts.dictionary.to_pylist()))
        read = pyarrow.record_batch(_arrays(rows), schema=pyarrow.schema(_READ)).take(texts.indices)
        ms = compute.struct_field(plain, "ms").cast("string").cast("int64")
        at_ms = compute.coalesce(compute.add(second_ms, ms), read["at_ms"])
        is_event = read["reason"].is_null()
        return pyarrow.record_batch(
            [
                compute.if_else(is_event, None, lines),
                read["reason"],
                compute.multiply(at_ms, 1000).cast(SCHEMA.field("at").type),
                *(read[name] for name in SCHEMA.names[3:]),
            ],
            schema=SCHEMA,
        )

    def _seconds(
        self, seconds: pyarrow.BinaryArray
    ) -> tuple[pyarrow.Int64Array, pyarrow.BinaryArray]:
        """Return when each begins, and the one time that stands for it; null for no time."""
        texts = seconds.dictionary_encode()
        begin_ms = list(map(self._remembered_ms, texts.dictionary.to_pylist()))
        beginnings = [None if ms is None else _ONE_TIME for ms in begin_ms]
        return (
            pyarrow.array(begin_ms, pyarrow.int64()).take(texts.indices),
            pyarrow.array(beginnings, pyarrow.binary()).take(texts.indices),
        )

    def _ms(self, second: bytes) -> int | None:
        return Head(second.decode(), "", "").at_ms(self._zone)

    def _row_of(self, line: bytes) -> _Row:
        is_short = len(line) <= _REMEMBERED_BYTES_MAX
        return self._remembered_row(line) if is_short else self._row(line)

    def _row(self, line: bytes) -> _Row:
        parsed = parse_line(line, self._zone, self._line_format)
        if isinstance(parsed, Event):
            return (*msgspec.structs.astuple(parsed), None)
        return (*_NO_VALUES, parsed or "")


def set_aside(line: bytes, reason: Reason) -> pyarrow.RecordBatch:
    """Return the columns of a line that is not to be read at all."""
    return pyarrow.RecordBatch.from_pylist([{"line": line, "reason": reason}], SCHEMA)


def _arrays(rows: list[_Row]) -> list[pyarrow.Array]:
    columns = zip(*rows, strict=True) if rows else [()] * len(_READ)
    return [pyarrow.array(column, field.type) for column, field in zip(columns, _READ, strict=True)]
