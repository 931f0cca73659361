"""Parse lines in Arrow arrays into columns of events, each distinct text once.

**Invariant:** the columns contain what ``parse_line`` reads in each line. Lines that differ only in
a plain beginning (``beginnings``) are parsed once, and the event gets the time of each line. Memory
is bounded by ``LINES_MAX``, ``TEXTS_MAX`` and ``TEXT_BYTES_MAX``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow
import pyarrow.compute as compute

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.ingest.parse.beginnings import (
    BEGINNING,
    JSON_HEAD,
    JSON_REST,
    LENGTH_MAX,
    NOT_JSON_REST,
    ONE_JSON_TIME,
    ONE_TIME,
    REST,
    USUAL_MS,
    USUAL_REST,
    USUAL_SECOND,
    parse_second,
)
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.ingest.parse.plain_lines import are_plain, read_plain
from authorizerd.replay.plans import LineLayout

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
        "hash": pyarrow.int64(),  # see ``hashes``
    }
)
TEXTS_MAX: Final = 200_000
TEXT_BYTES_MAX: Final = 128 * 1024 * 1024
LINES_MAX: Final = 200_000
"""The number of lines that are read at once: a block of short lines has millions."""

_FIELDS: Final = SCHEMA.names[SCHEMA.get_field_index("allowed") : SCHEMA.get_field_index("hash")]
_VALUES: Final = pyarrow.schema([*map(SCHEMA.field, _FIELDS), SCHEMA.field("reason")])
_TIMED: Final = rf"(?s)^{BEGINNING}(?P<rest>{REST}.*)$"
_TIMED_JSON: Final = (
    rf"(?s)^{JSON_HEAD.replace('utc', 'second')}\.(?P<ms>[0-9]{{3}})(?P<rest>{JSON_REST}.*)$"
)
_NO_VALUES: Final = (None,) * len(Event.__struct_fields__)


class EventReader:
    """Reads lines; the arguments are those of ``parse_line``, and the key of the rows' hashes.

    After a ``read``, ``numbers`` has the number of each line's text in ``texts``: lines with equal
    numbers differ only in their times, if at all.
    """

    def __init__(
        self, zone: tzinfo, line_format: LineFormat, field: str | None = None, salt: int = 0
    ) -> None:
        self._zone = zone
        self._line_format: LineFormat = line_format
        self._field = field
        self._hashes = RowHashes(salt)
        self.texts = Texts(self._hashes)
        self.numbers = pyarrow.array([], pyarrow.int64())

    def read_blocks(self, blocks: Iterable[memoryview]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the columns of the lines in blocks of ``logs``, and of any damage after them."""
        try:
            yield from map(self.read, split_blocks(blocks))
        except DamagedArchiveError as damage:
            hashed = self._hashes.of_line(damage.line, Reason.BROKEN_ARCHIVE)
            row = {"line": damage.line, "reason": Reason.BROKEN_ARCHIVE, "hash": hashed}
            self.numbers = pyarrow.nulls(1, pyarrow.int64())
            yield pyarrow.RecordBatch.from_pylist([row], SCHEMA)

    def read(self, lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
        """Return the columns of ``SCHEMA``; ``line``, ``reason``, ``hash`` if there is no event."""
        at, numbers = self.find(lines)
        *values, reason = self.texts.look_up(numbers).columns
        is_aside = reason.is_valid()
        line = pyarrow.nulls(len(lines), lines.type)
        line = compute.replace_with_mask(line, is_aside, lines.filter(is_aside))
        hashes = RowHashes.with_times(self.texts.hashes_of(numbers), at)
        hashes = self._hashes.add_lines(hashes, line, reason)
        day = at.cast(SCHEMA.field("day").type)
        return pyarrow.record_batch([line, reason, day, at, *values, hashes], schema=SCHEMA)

    def find(self, lines: pyarrow.BinaryArray) -> tuple[pyarrow.TimestampArray, pyarrow.Int64Array]:
        """Return the time of each line, null without an event, and ``numbers``."""
        if self.texts.is_full:
            self.texts = Texts(self._hashes)
        at_ms, texts = self._split(lines)
        numbers = self._find(texts.dictionary).take(texts.indices)
        is_other = numbers.is_null()  # without a plain beginning, so it is parsed unchanged
        others = lines.filter(is_other)
        others_ms, rows = self._parse(others)
        numbers = compute.replace_with_mask(numbers, is_other, self.texts.keep(others, rows))
        self.numbers = numbers
        at_ms = compute.replace_with_mask(at_ms, is_other, others_ms)
        is_event = self.texts.are_events(numbers)
        at_us = compute.if_else(is_event, compute.multiply(at_ms, 1000), None)
        return at_us.cast(SCHEMA.field("at").type), numbers

    def _split(
        self, lines: pyarrow.BinaryArray
    ) -> tuple[pyarrow.Int64Array, pyarrow.DictionaryArray]:
        """Return the times in plain beginnings, and the texts after them.

        Both are null for a line that is too long, has no plain beginning, or has an impossible
        time.
        """
        seconds, ms, rest = _divide(lines, has_json=self._field is None)
        begins = [
            parse_second(second.strip(b"[,"), UTC if b"T" in second else self._zone)
            for second in seconds.dictionary.to_pylist()
        ]
        begin_ms = pyarrow.array(begins, pyarrow.int64()).take(seconds.indices)
        after = [int(text[:3]) for text in ms.dictionary.to_pylist()]
        after_ms = pyarrow.array(after, pyarrow.int64()).take(ms.indices)
        is_short = compute.less_equal(compute.binary_length(lines), LENGTH_MAX)
        at_ms = compute.if_else(is_short, compute.add(begin_ms, after_ms), None)
        text = rest if not at_ms.null_count else compute.if_else(at_ms.is_null(), None, rest)
        return at_ms, text.dictionary_encode()

    def _find(self, texts: pyarrow.BinaryArray) -> pyarrow.Int64Array:
        """Return the number of each distinct text after a plain beginning.

        It is null if neither ``REST`` nor ``JSON_REST`` follows the beginning.
        """
        known = self.texts.numbers
        numbers = pyarrow.array(map(known.get, texts.to_pylist()), pyarrow.int64())
        is_new = numbers.is_null()
        new = texts.filter(is_new)
        is_json = compute.starts_with(new, JSON_REST)
        one_time = compute.if_else(is_json, ONE_JSON_TIME, ONE_TIME)
        lines = compute.binary_join_element_wise(one_time, new, b"")
        may_be_plain = self._line_format != "json" and self._field is None
        is_plain = compute.and_(are_plain(lines), may_be_plain)
        is_known = compute.or_(is_json, compute.match_substring_regex(new, f"^{REST}"))
        is_other = compute.and_not(is_known, is_plain)
        for learned, rows in (
            (new.filter(is_plain), _read_plain(lines.filter(is_plain))),
            (new.filter(is_other), self._parse(lines.filter(is_other))[1]),
        ):
            kept = self.texts.keep(learned, rows).to_pylist()
            known.update(zip(learned.to_pylist(), kept, strict=True))
        learned_numbers = pyarrow.array(map(known.get, new.to_pylist()), pyarrow.int64())
        return compute.replace_with_mask(numbers, is_new, learned_numbers)

    def _parse(self, lines: pyarrow.BinaryArray) -> tuple[pyarrow.Int64Array, pyarrow.RecordBatch]:
        """Return the times in lines, and the columns of ``_VALUES``."""
        rows = list(map(self._row, lines.to_pylist()))
        at_ms, *columns = zip(*rows, strict=True) if rows else [()] * (1 + len(_VALUES))
        values = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, _VALUES, strict=True)
        ]
        return pyarrow.array(at_ms, pyarrow.int64()), pyarrow.record_batch(values, schema=_VALUES)

    def _row(self, line: bytes) -> tuple[Any, ...]:
        parsed = parse_line(line, self._zone, self._line_format, self._field)
        if isinstance(parsed, Event):
            return (*msgspec.structs.astuple(parsed), None)
        return (*_NO_VALUES, parsed or "")


@lru_cache(1)  # the tasks of a process parse a repeated text once
def get_reader(layout: LineLayout, salt: int = 0) -> EventReader:
    """Return the reader of lines in a layout; a process keeps the last one.

    Raises:
        ValueError: the time zone is unknown.
    """
    return EventReader(find_zone(layout.time_zone), layout.format, layout.field, salt)


def hash_events(rows: pyarrow.RecordBatch, hashes: RowHashes) -> pyarrow.Int64Array:
    """Return the hash of each row, which was read elsewhere; it is that of ``EventReader``.

    Args:
        rows: the columns of an event, or ``line`` and ``reason``.
    """
    columns = [_Column(field.type, place, hashes) for place, field in enumerate(_VALUES)]
    codes = map(_Column.encode, columns, map(rows.column, _VALUES.names))
    of_events = RowHashes.of_rows(list(map(_Column.hashes_of, columns, codes)))
    return hashes.add_lines(
        RowHashes.with_times(of_events, rows["at"]), rows["line"], rows["reason"]
    )


class Texts:
    """The content of each distinct text, by its number: an event without its time, or a reason.

    ``numbers`` maps the texts that may occur again to their numbers.
    """

    def __init__(self, hashes: RowHashes) -> None:
        self.numbers: dict[bytes, int] = {}
        self._bytes = 0
        self._columns = [_Column(field.type, place, hashes) for place, field in enumerate(_VALUES)]
        self._codes = pyarrow.RecordBatch.from_pylist(
            [], pyarrow.schema((field.name, pyarrow.int32()) for field in _VALUES)
        )

    @property
    def is_full(self) -> bool:
        return len(self._codes) > TEXTS_MAX or self._bytes > TEXT_BYTES_MAX

    def keep(self, texts: pyarrow.BinaryArray, rows: pyarrow.RecordBatch) -> pyarrow.Int64Array:
        """Keep the rows that were parsed from ``texts``, and return their numbers."""
        self._bytes += compute.sum(compute.binary_length(texts)).as_py() or 0
        begin = len(self._codes)
        codes = [
            column.encode(values)
            for column, values in zip(self._columns, rows.columns, strict=True)
        ]
        coded = pyarrow.record_batch(codes, schema=self._codes.schema)
        self._codes = pyarrow.concat_batches([self._codes, coded])
        return pyarrow.array(range(begin, len(self._codes)), pyarrow.int64())

    def are_events(self, numbers: pyarrow.Int64Array) -> pyarrow.BooleanArray:
        """Return False for each text that has a reason, or is blank."""
        reasons = self._columns[-1].decode(self._codes.column("reason"))
        return reasons.is_null().take(numbers)

    def hashes_of(self, numbers: pyarrow.Int64Array) -> pyarrow.UInt64Array:
        """Return the hash of the values of each text."""
        codes = self._codes.take(numbers).columns
        hashes = map(_Column.hashes_of, self._columns, codes)
        return RowHashes.of_rows(list(hashes))

    def look_up(self, numbers: pyarrow.Int64Array) -> pyarrow.RecordBatch:
        """Return the columns of an event without its time; ``reason`` is the last one."""
        codes = self._codes.take(numbers)
        values = map(_Column.decode, self._columns, codes.columns)
        return pyarrow.record_batch(list(values), schema=_VALUES)

    def name(self, numbers: pyarrow.Int64Array) -> pyarrow.RecordBatch:
        """Return the same with a dictionary array for each column of texts."""
        codes = self._codes.take(numbers)
        values = [
            column.name(code) if field.type == pyarrow.string() else column.decode(code)
            for column, code, field in zip(self._columns, codes.columns, _VALUES, strict=True)
        ]
        return pyarrow.record_batch(values, names=_VALUES.names)


class _Column:
    """The distinct values of the column at ``place``, and their hashes, by position."""

    def __init__(self, kind: pyarrow.DataType, place: int, hashes: RowHashes) -> None:
        self._place = place
        self._hashes = hashes
        self._codes: dict[Any, int] = {}
        self._values = pyarrow.array([], kind)
        self._hashed = pyarrow.array([], pyarrow.uint64())

    def encode(self, values: pyarrow.Array) -> pyarrow.Int32Array:
        """Return the position of each value."""
        distinct = values.dictionary_encode("encode")
        known = len(self._codes)
        codes = [
            self._codes.setdefault(value, len(self._codes))
            for value in distinct.dictionary.to_pylist()
        ]
        if len(self._codes) > known:
            added = pyarrow.array(list(self._codes)[known:], values.type)
            self._values = pyarrow.concat_arrays([self._values, added])
        return pyarrow.array(codes, pyarrow.int32()).take(distinct.indices)

    def decode(self, codes: pyarrow.Int32Array) -> pyarrow.Array:
        """Return the value of each code."""
        return self._values.take(codes)

    def name(self, codes: pyarrow.Int32Array) -> pyarrow.DictionaryArray:
        """Return the value of each code as a dictionary array, which takes little memory."""
        none = self._codes.get(None)
        if none is not None:
            codes = compute.if_else(compute.equal(codes, none), None, codes)
            codes = compute.subtract(codes, compute.greater(codes, none).cast(pyarrow.int32()))
        return pyarrow.DictionaryArray.from_arrays(codes, self._values.drop_null())

    def hashes_of(self, codes: pyarrow.Int32Array) -> pyarrow.UInt64Array:
        """Return the hash of each value."""
        if len(self._hashed) < len(self._values):
            added = self._hashes.of_each(self._place, self._values[len(self._hashed) :].to_pylist())
            self._hashed = pyarrow.concat_arrays([self._hashed, added])
        return self._hashed.take(codes)


def split_blocks(blocks: Iterable[memoryview]) -> Iterator[pyarrow.BinaryArray]:
    """Yield the lines of each block of ``logs``, some at a time; of a long one, its beginning."""
    for block in blocks:
        # An array over the whole block, without copying it.
        offsets = pyarrow.array([0, len(block)], pyarrow.int32()).buffers()[1]
        buffers = [None, offsets, pyarrow.py_buffer(block)]
        whole = pyarrow.Array.from_buffers(pyarrow.binary(), 1, buffers)
        lines = compute.split_pattern(whole, b"\n").flatten()
        if compute.max(compute.binary_length(lines)).as_py() > LINE_BYTES_MAX:
            lines = compute.binary_slice(lines, 0, LINE_BYTES_MAX + 1)
        for begin in range(0, len(lines), LINES_MAX):
            yield lines.slice(begin, LINES_MAX)


def _divide(
    lines: pyarrow.BinaryArray, *, has_json: bool
) -> tuple[pyarrow.DictionaryArray, pyarrow.DictionaryArray, pyarrow.BinaryArray]:
    """Return the second, the milliseconds and the text after each plain beginning, or null.

    The first two may include the characters around them.
    """
    parts, are_usual = [], []
    for place, pattern in (USUAL_SECOND, USUAL_MS):
        part = compute.binary_slice(lines, *place).dictionary_encode()
        # There are few distinct texts, so the regular expression costs nothing.
        is_usual = compute.match_substring_regex(part.dictionary, pattern)
        parts.append(part)
        are_usual.append(is_usual.take(part.indices))
    second, ms = parts
    rest = compute.binary_slice(lines, *USUAL_REST)
    is_other = compute.invert(compute.and_(*are_usual))
    if compute.any(is_other).as_py():
        others = lines.filter(is_other)
        timed = compute.extract_regex(others, _TIMED)
        if has_json and timed.null_count:
            in_json = compute.extract_regex(others, _TIMED_JSON)
            rest_of_json = compute.struct_field(in_json, "rest")
            is_doubtful = compute.match_substring_regex(rest_of_json, NOT_JSON_REST)
            timed = compute.coalesce(timed, compute.if_else(is_doubtful, None, in_json))
        second, ms, rest = (
            compute.replace_with_mask(part, is_other, compute.struct_field(timed, name))
            for name, part in (
                ("second", second.dictionary_decode()),
                ("ms", ms.dictionary_decode()),
                ("rest", rest),
            )
        )
        second, ms = second.dictionary_encode(), ms.dictionary_encode()
    return second, ms, rest


def _read_plain(lines: pyarrow.BinaryArray) -> pyarrow.RecordBatch:
    read = read_plain(lines)
    return pyarrow.record_batch(
        [read.get(field.name, pyarrow.nulls(len(lines), field.type)) for field in _VALUES],
        schema=_VALUES,
    )
