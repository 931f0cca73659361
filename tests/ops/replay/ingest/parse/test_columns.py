from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from typing import Any, get_args

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.replay.ingest.parse import columns
from authorizerd.replay.ingest.parse.columns import SCHEMA, EventReader
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Event, Reason
from authorizerd.replay.ingest.parse.line import parse_line
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.plans import LineFormat, LineLayout
from tests.ops.replay.ingest.parse.hostile_lines import (
    BEGINNINGS,
    FIELDS,
    MESSAGE,
    bytes_lines,
    stamped_lines,
)
from tests.support.sizes import size

Parsed = Event | Reason | None

# A step that backtracks over these would take minutes.
LONG_NAMES = tuple(
    b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"a" + name * 3_000
    for name in (
        b" is Denied operation = a from host = b on resource = c:",
        b" for request = a with resourceRefCount = ",
        b" for request = a with resourceRefCount = 1 based on rule ",
        b" (kafka.authorizer.logger) [a",
        b"uthorizer (uthorizer",
        b"2026-11-21 16:26:26,966 Principal = ",
    )
)


def rows_of(batch: pyarrow.RecordBatch, lines: list[bytes]) -> list[Parsed]:
    """Return the events and reasons in the columns; rows with a reason must contain their line."""
    assert batch.schema == SCHEMA
    parsed: list[Parsed] = []
    for row, line in zip(batch.to_pylist(), lines, strict=True):
        text, reason, day, at = (row.pop(name) for name in ("line", "reason", "day", "at"))
        assert text == (None if reason is None else line)
        assert day == (at and at.date())
        assert reason is None or (at is None and not any(row.values()))
        if reason is None:
            parsed.append(Event(at_ms=round(at.timestamp() * 1000), **row))
        else:
            parsed.append(Reason(reason) if reason else None)
    return parsed


def read(reader: EventReader, lines: list[bytes]) -> list[Parsed]:
    return rows_of(reader.read(pyarrow.array(lines, pyarrow.binary())), lines)


@settings(max_examples=size(20, 300))
@given(
    st.lists(bytes_lines | stamped_lines | stamped_lines, max_size=12),
    st.sampled_from(("auto", "kafka", "json")),
    st.sampled_from(("UTC", "Europe/Berlin", "+05:30")),
    FIELDS,
)
def test_columns_equal_what_the_parser_reads(
    lines: list[bytes], line_format: LineFormat, time_zone: str, field: str | None
) -> None:
    layout = LineLayout(format=line_format, time_zone=time_zone, field=field)
    expected = [parse_line(line, find_zone(time_zone), line_format, field) for line in lines]
    reader = EventReader.of(layout)
    assert read(reader, lines) == expected
    assert read(reader, lines[::-1]) == expected[::-1]


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin"])
def test_lines_with_different_beginnings_stay_distinct(time_zone: str) -> None:
    zone = find_zone(time_zone)
    lines = [beginning + MESSAGE % b"a" for beginning in BEGINNINGS]
    expected = [parse_line(line, zone) for line in lines]
    assert read(EventReader(zone, "auto"), lines) == expected
    kinds = Counter(Event if isinstance(each, Event) else each for each in expected)
    assert {Event, Reason.BAD_TIME, Reason.PARTIAL_LINE, Reason.NO_TIME} <= kinds.keys()


@pytest.mark.parametrize("line_format", get_args(LineFormat))
def test_fixed_format_is_not_detected_again(line_format: LineFormat) -> None:
    line = b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"a"
    line += b" for request = Fetch with resourceRefCount = 1 (kafka.authorizer.logger)"
    expected = parse_line(line, UTC, line_format)
    assert isinstance(expected, Event) == (line_format != "json")
    assert read(EventReader(UTC, line_format), [line]) == [expected]


def test_plain_line_lacks_the_named_field() -> None:
    line = b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"a"
    line += b" for request = Fetch with resourceRefCount = 1 (kafka.authorizer.logger)"
    reader = EventReader(UTC, "auto", "log")
    assert read(reader, [line, line]) == [Reason.NO_LINE_FIELD] * 2
    wrapped = json.dumps({"log": line.decode()}).encode()
    assert read(reader, [wrapped, line]) == [parse_line(line, UTC), Reason.NO_LINE_FIELD]


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the list to which each line that is parsed on its own will be added."""
    parsed: list[bytes] = []

    def parse(line: bytes, *rest: Any) -> Parsed:  # noqa: ANN401
        parsed.append(line)
        return parse_line(line, *rest)

    monkeypatch.setattr(columns, "parse_line", parse)
    return parsed


REPEATED = [
    b"[2026-11-21 16:26:%02d,966] INFO " % second + MESSAGE % name
    for second in range(3)
    for name in (b"a", b"b")
]


def test_repeated_lines_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = count_parsed(monkeypatch)
    reader = EventReader(UTC, "auto")
    expected = [parse_line(line, UTC) for line in REPEATED]
    assert read(reader, REPEATED) == expected
    assert len(parsed) == 2
    # Also if another batch repeats them.
    assert read(reader, REPEATED[::-1]) == expected[::-1]
    assert len(parsed) == 2


@pytest.mark.parametrize("limit", ["TEXTS_MAX", "TEXT_BYTES_MAX"])
@pytest.mark.parametrize(
    "lines", [REPEATED, [MESSAGE % b"a", MESSAGE % b"b"]], ids=["timed", "not"]
)
def test_known_texts_are_forgotten_beyond_a_limit(
    lines: list[bytes], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = count_parsed(monkeypatch)
    monkeypatch.setattr(columns, limit, 1)
    reader = EventReader(UTC, "auto")
    for count in (1, 2):
        assert read(reader, lines) == [parse_line(line, UTC) for line in lines]
        assert len(parsed) == count * 2
        assert len(reader.texts._codes) == 2


@pytest.mark.parametrize(
    "line",
    [
        *LONG_NAMES,
        b"a" * LINE_BYTES_MAX,
        b"a" * (LINE_BYTES_MAX + 1),
        b"2026-11-21T17:00:00.9Z stdout F [2026-11-21 16:26:26,966] INFO "
        + MESSAGE % (b"a" * (LINE_BYTES_MAX - 140)),
        (b"2026-11-21 16:26:26,966 INFO " + MESSAGE % (b"a" * LINE_BYTES_MAX))[:LINE_BYTES_MAX],
        b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"\xff",
        b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"\x01",
    ],
    ids=range(12),
)
def test_hostile_line_is_read_like_any_other(line: bytes) -> None:
    """Parsing takes time in proportion to its length."""
    assert read(EventReader(UTC, "auto"), [line]) == [parse_line(line, UTC)]


@pytest.mark.parametrize("change", [{"principal": "\ud800"}, {"resource_reference_count": 2**31}])
def test_value_too_large_for_its_column_is_bad_json(change: dict[str, object]) -> None:
    said = {
        "time": "2026-11-21T16:26:26.966Z", "principal": "User:a", "allowed": True,
        "operation": "READ", "resource_type": "TOPIC", "resource_name": "t",
    }  # fmt: skip
    assert isinstance(read(EventReader(UTC, "auto"), [json.dumps(said).encode()])[0], Event)
    line = json.dumps(said | change).encode()
    assert read(EventReader(UTC, "auto"), [line]) == [Reason.BAD_JSON]


def test_empty_batch_has_all_columns() -> None:
    assert read(EventReader(UTC, "auto"), []) == []


def test_damage_and_the_beginning_of_a_long_line_are_set_aside() -> None:
    def blocks() -> Iterator[memoryview]:
        yield memoryview(b"a" * (LINE_BYTES_MAX + 9) + b"\n\nb")
        raise DamagedArchiveError(b"\xff")

    first, damage = EventReader(UTC, "auto").read_blocks(blocks())
    expected = [Reason.TOO_LONG, None, Reason.NO_DECISION]
    assert rows_of(first, [b"a" * (LINE_BYTES_MAX + 1), b"", b"b"]) == expected
    assert rows_of(damage, [b"\xff"]) == [Reason.BROKEN_ARCHIVE]
