from __future__ import annotations

from collections import Counter
from datetime import UTC, tzinfo
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.replay.ingest.parse.beginnings import parse_second
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Event, Reason
from authorizerd.replay.ingest.parse.line import parse_line
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.local import tallies as tallies_module
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.tallies import Summand, Tallies
from authorizerd.replay.plans import LineFormat
from tests.ops.replay.ingest.parse.hostile_lines import (
    BEGINNINGS,
    FIELDS,
    MESSAGE,
    bytes_lines,
    stamped_lines,
)
from tests.support.sizes import size

STAMP = b"[2026-11-21 16:26:%02d,966] INFO "
Sums = dict[Summand | Reason | None, tuple[int, int | None, int | None]]


def sums_of(
    *parts: list[bytes],
    zone: str = "UTC",
    line_format: LineFormat = "auto",
    field: str | None = None,
) -> Sums:
    """Return what the local engine counts; only events have times."""
    tallies = Tallies(find_zone(zone), line_format, field)
    for lines in parts:
        tallies.add(lines)
    return {
        counted: (tally.lines, tally.first_ms, tally.last_ms)
        if isinstance(counted, Summand)
        else (tally.lines, None, None)
        for counted, tally in tallies
    }


def sums_of_columns(
    lines: list[bytes], zone: str, line_format: LineFormat, field: str | None = None
) -> Sums:
    """Return the same sums of the columns that the Spark job reads."""
    reader = EventReader(find_zone(zone), line_format, field)
    columns = reader.read(pyarrow.array(lines, pyarrow.binary()))
    return sums_of_rows(
        [
            (
                summand_of(row) if row["reason"] is None else _reason(row["reason"]),
                None if row["at"] is None else round(row["at"].timestamp() * 1000),
            )
            for row in columns.to_pylist()
        ]
    )


def summand_of(row: dict[str, Any]) -> Summand:
    return Summand(*(row[name] for name in Summand._fields))


def _reason(text: str) -> Reason | None:
    return Reason(text) if text else None


def sums_of_rows(rows: list[tuple[Summand | Reason | None, int | None]]) -> Sums:
    times: dict[Summand | Reason | None, list[int]] = {}
    for counted, at_ms in rows:
        times.setdefault(counted, []).extend([] if at_ms is None else [at_ms])
    counts = Counter(counted for counted, _ in rows)
    return {
        counted: (count, min(times[counted], default=None), max(times[counted], default=None))
        for counted, count in counts.items()
    }


@settings(max_examples=size(20, 300))
@given(
    st.lists(bytes_lines | stamped_lines | stamped_lines, max_size=12),
    st.sampled_from(("auto", "kafka", "json")),
    st.sampled_from(("UTC", "Europe/Berlin", "+05:30")),
    FIELDS,
)
def test_sums_equal_those_of_the_columns(
    lines: list[bytes], line_format: LineFormat, zone: str, field: str | None
) -> None:
    expected = sums_of_columns(lines, zone, line_format, field)
    assert sums_of(lines, zone=zone, line_format=line_format, field=field) == expected
    # What the first pass has kept must not change what the second one reads.
    twice = sums_of_columns([*lines, *lines[::-1]], zone, line_format, field)
    both = sums_of(lines, lines[::-1], zone=zone, line_format=line_format, field=field)
    assert both == twice


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_every_beginning_is_read_like_the_line(zone: str) -> None:
    lines = [beginning + MESSAGE % b"a" for beginning in BEGINNINGS]
    assert sums_of(lines, zone=zone) == sums_of_columns(lines, zone, "auto")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("line_format", ["auto", "json", "kafka"])
def test_json_lines_are_read_like_each_line(zone: str, line_format: LineFormat) -> None:
    times = (
        *("2026-11-21T16:26:26.966Z", "2026-11-21T16:26:27.001Z", "2026-02-30T00:00:00.000Z"),
        *("1970-01-01T00:00:00.000Z", "2026-11-21T16:26::::.966Z"),
    )
    rest = (
        '"principal":"User:a","allowed":true,"operation":"READ","resource_type":"TOPIC",'
        '"resource_name":'
    )
    tails = (
        "",
        ',"time":"2001-01-01T00:00:00.000Z"',
        ',"time":"2000-01-01T00:00:00.000Z"',
        ',"t\\u0069me":"2026-01-01T00:00:00.000Z"',
        ',"time":"never"',
        ',"masked":["principal"]',
        ',"version":2',
    )
    lines = [
        # Each kind of line has a resource of its own, and so a sum of its own.
        f'{{{version}"time":"{time}",{rest}"{len(version)} {number}"{tail}}}'.encode()
        for version in ("", '"version":1,', '"version":1234,')
        for time in times
        for number, tail in enumerate(tails)
    ]
    lines += [line[:-1] for line in lines]
    lines += [b"2026-11-21T17:00:00.9Z stdout F " + line for line in lines]
    expected = sums_of_columns(lines, zone, line_format)
    assert sums_of(lines, lines, zone=zone, line_format=line_format) == {
        counted: (2 * count, *sums) for counted, (count, *sums) in expected.items()
    }


def test_json_lines_that_differ_in_time_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse(line: bytes, *rest: Any) -> Event | Reason | None:  # noqa: ANN401
        parsed.append(line)
        return parse_line(line, *rest)

    monkeypatch.setattr(tallies_module, "parse_line", parse)
    line = '{"version":1,"time":"2026-11-21T16:26:%02d.966Z","principal":"User:a"}'
    assert sums_of([(line % second).encode() for second in range(9)]) == {
        Reason.BAD_JSON: (9, None, None)
    }
    assert len(parsed) == 1


def test_line_with_an_endless_timestamp_of_a_container_is_too_long() -> None:
    stamp = b"2" * LINE_BYTES_MAX + b"Z stdout F "
    lines = [stamp + STAMP % second + MESSAGE % b"a" for second in range(2)]
    assert (
        sums_of(lines)
        == sums_of_columns(lines, "UTC", "auto")
        == {Reason.TOO_LONG: (2, None, None)}
    )


@pytest.mark.parametrize("size", [LINE_BYTES_MAX, LINE_BYTES_MAX + 1])
def test_line_of_maximum_length_is_not_lengthened(size: int) -> None:
    line = (b"2026-11-21 16:26:26,966 INFO " + MESSAGE % (b"a" * LINE_BYTES_MAX))[:size]
    assert sums_of([line]) == sums_of_columns([line], "UTC", "auto")


def test_lines_that_differ_in_time_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse(line: bytes, *rest: Any) -> Event | Reason | None:  # noqa: ANN401
        parsed.append(line)
        return parse_line(line, *rest)

    monkeypatch.setattr(tallies_module, "parse_line", parse)
    lines = [STAMP % second + MESSAGE % name for second in range(3) for name in (b"a", b"b")]
    assert [count for count, _, _ in sums_of(lines).values()] == [3, 3]
    assert len(parsed) == 2


def test_timestamps_of_containers_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line has another one, so a memory of them would only cost time and memory."""
    parsed: list[bytes] = []

    def parse(second: bytes, zone: tzinfo) -> int | None:
        parsed.append(second)
        return parse_second(second, zone)

    monkeypatch.setattr(tallies_module, "parse_second", parse)
    lines = [
        b"2026-11-21T16:26:26.%09dZ stdout F " % number + STAMP % 26 + MESSAGE % b"a"
        for number in range(9)
    ]
    assert [count for count, _, _ in sums_of(lines).values()] == [9]
    assert len(parsed) == 1


@pytest.mark.parametrize("name", ["TAILS_MAX", "KEPT_BYTES_MAX", "SECONDS_MAX"])
def test_full_cache_changes_no_sum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        STAMP % (number % 7) + MESSAGE % (b"%d" % (number * number % 11)) for number in range(100)
    ]
    expected = sums_of(lines)
    monkeypatch.setattr(tallies_module, name, 2)
    assert sums_of(lines) == expected


@pytest.mark.parametrize(
    ("tallies_max", "text_bytes_max"),
    [(3, 10_000), (10_000, 3 * len(b"INFO " + MESSAGE % b"1"))],
)
def test_too_many_distinct_requests_are_rejected(
    tallies_max: int, text_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies_module, "TALLIES_MAX", tallies_max)
    monkeypatch.setattr(tallies_module, "TEXT_BYTES_MAX", text_bytes_max)
    tallies = Tallies(UTC)
    lines = [STAMP % 1 + MESSAGE % (b"%d" % number) for number in range(4)]
    assert len({len(line) for line in lines}) == 1
    tallies.add(lines[:3] * 10)
    with pytest.raises(TrafficError, match=r"more than 3 distinct .*authorizerd replay ingest"):
        tallies.add(lines[3:])
