"""Parse lines in Arrow arrays into columns of events, each distinct line once.

**Invariant:** the columns contain what ``parse_line`` reads in each line. Lines that differ only in
a plain beginning (``beginnings``) are parsed once, and the event gets the time of each line.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final

import msgspec
import pyarrow
import pyarrow.compute as compute

from authorizerd.replay.ingest.parse.beginnings import (
    BEGINNING,
    LENGTH_MAX,
    ONE_TIME,
    REST,
    parse_second,
)
from authorizerd.replay.ingest.parse.event import Event, Reason
from authorizerd.replay.ingest.parse.line import LineFormat, parse_line
from authorizerd.replay.ingest.parse.plain_lines import are_plain, read_plain

SCHEMA: Final = pyarrow.schema(
    {
        "line": pyarrow.binary(),  # null for an event
        "reason": pyarrow.string(),  # null for an event, empty for a blank line
        "day": pyarrow.date32(),  # in UTC
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
_FIELDS: Final = SCHEMA.names[SCHEMA.get_field_index("allowed") :]
_READ: Final = pyarrow.schema(
    [
        pyarrow.field("at_ms", pyarrow.int64()),
        *map(SCHEMA.field, _FIELDS),
        SCHEMA.field("reason"),
    ]
)

_TIMED: Final = rf"(?s)^{BEGINNING}(?P<rest>{REST}.*)$"
_NO_VALUES: Final = (None,) * len(Event.__struct_fields__)

_Row = tuple[Any, ...]


class EventReader:
    """Reads lines; ``zone`` applies to times without a zone."""

    def __init__(self, zone: tzinfo, line_format: LineFormat) -> None:
        self._zone = zone
        self._line_format: LineFormat = line_format

    def read(self, lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
        """Return the columns of ``SCHEMA``; only ``line`` and ``reason`` if there is no event."""
        timed = compute.extract_regex(lines, _TIMED)
        is_long = compute.greater(compute.binary_length(lines), LENGTH_MAX)
        second = compute.if_else(is_long, None, compute.struct_field(timed, "second"))
        second_ms, beginning = self._seconds(second)
        # Null for a long line or one without a plain beginning: such a line is parsed unchanged.
        as_of_one_time = compute.binary_join_element_wise(
            beginning, compute.struct_field(timed, "rest"), b""
        )
        texts = compute.coalesce(as_of_one_time, lines).dictionary_encode()
        read = self._read_each(texts.dictionary).take(texts.indices)
        ms = compute.struct_field(timed, "ms").cast("string").cast("int64")
        is_event = read["reason"].is_null()
        at_ms = compute.coalesce(compute.add(second_ms, ms), read["at_ms"])
        at_us = compute.if_else(is_event, compute.multiply(at_ms, 1000), None)
        at = at_us.cast(SCHEMA.field("at").type)
        return pyarrow.record_batch(
            [
                compute.if_else(is_event, None, lines),
                read["reason"],
                at.cast(SCHEMA.field("day").type),
                at,
                *map(read.column, _FIELDS),
            ],
            schema=SCHEMA,
        )

    def _seconds(
        self, seconds: pyarrow.BinaryArray
    ) -> tuple[pyarrow.Int64Array, pyarrow.BinaryArray]:
        """Return each second in ms, and ``ONE_TIME`` for it; both null for an impossible time."""
        texts = seconds.dictionary_encode()
        begin_ms = [parse_second(second, self._zone) for second in texts.dictionary.to_pylist()]
        beginnings = [None if ms is None else ONE_TIME for ms in begin_ms]
        return (
            pyarrow.array(begin_ms, pyarrow.int64()).take(texts.indices),
            pyarrow.array(beginnings, pyarrow.binary()).take(texts.indices),
        )

    def _read_each(self, lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
        """Return the columns of ``_READ``; ``at_ms`` is null for plain lines."""
        if self._line_format == "json":
            return self._parsed(lines)
        is_plain = are_plain(lines)
        plain, other = lines.filter(is_plain), lines.filter(compute.invert(is_plain))
        read = pyarrow.concat_batches([_read_plain(plain), self._parsed(other)])
        # If all lines are plain, they are still in the order of the input.
        if not len(other):
            return read
        # The plain lines now come first: find the row of each line of the input.
        places = compute.if_else(
            is_plain,
            compute.cumulative_sum(is_plain.cast(pyarrow.int64()), start=-1),
            compute.cumulative_sum(
                compute.invert(is_plain).cast(pyarrow.int64()), start=len(plain) - 1
            ),
        )
        return read.take(places)

    def _parsed(self, lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
        rows = list(map(self._row, lines.to_pylist()))
        columns = zip(*rows, strict=True) if rows else [()] * len(_READ)
        return pyarrow.record_batch(
            [
                pyarrow.array(column, field.type)
                for column, field in zip(columns, _READ, strict=True)
            ],
            schema=_READ,
        )

    def _row(self, line: bytes) -> _Row:
        parsed = parse_line(line, self._zone, self._line_format)
        if isinstance(parsed, Event):
            return (*msgspec.structs.astuple(parsed), None)
        return (*_NO_VALUES, parsed or "")


def set_aside(line: bytes, reason: Reason) -> pyarrow.RecordBatch:
    """Return the columns of one line that is set aside unread."""
    return pyarrow.RecordBatch.from_pylist([{"line": line, "reason": reason}], SCHEMA)


def _read_plain(lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
    read = read_plain(lines)
    return pyarrow.record_batch(
        [read.get(field.name, pyarrow.nulls(len(lines), field.type)) for field in _READ],
        schema=_READ,
    )
