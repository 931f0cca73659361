"""The columns of many lines at once equal what the parser reads from each."""

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.ingest.parse import columns
from authorizerd.replay.ingest.parse.beginnings import ONE_TIME
from authorizerd.replay.ingest.parse.columns import SCHEMA, EventReader, get_reader, hash_events
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.ingest.parse.plain_lines import are_plain, read_plain
from authorizerd.replay.plans import LineLayout
from tests.acl.audit.recorded.hostile_lines import (
    BEGINNINGS,
    CALLERS,
    FIELDS,
    MESSAGE,
    PIECES,
    bytes_lines,
    stamped_lines,
)
from tests.ops.replay.recorded_calls import record_calls
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
        names = ("line", "reason", "day", "at", "hash")
        text, reason, day, at, hashed = (row.pop(name) for name in names)
        assert isinstance(hashed, int)
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


@settings(max_examples=size(10, 300))
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
    reader = get_reader(layout)
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


REPEATED = [
    b"[2026-11-21 16:26:%02d,966] INFO " % second + MESSAGE % name
    for second in range(3)
    for name in (b"a", b"b")
]


def test_repeated_lines_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = record_calls(monkeypatch, columns, "parse_line")
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
    parsed = record_calls(monkeypatch, columns, "parse_line")
    monkeypatch.setattr(columns, limit, 1)
    reader = EventReader(UTC, "auto")
    for count in (1, 2):
        assert read(reader, lines) == [parse_line(line, UTC) for line in lines]
        assert len(parsed) == count * 2
        assert len(reader.texts._codes) == 2


@pytest.mark.parametrize("line", [
    *LONG_NAMES,
    b"a" * LINE_BYTES_MAX,
    b"a" * (LINE_BYTES_MAX + 1),
    b"2026-11-21T17:00:00.9Z stdout F [2026-11-21 16:26:26,966] INFO "
    + MESSAGE % (b"a" * (LINE_BYTES_MAX - 140)),
    (b"2026-11-21 16:26:26,966 INFO " + MESSAGE % (b"a" * LINE_BYTES_MAX))[:LINE_BYTES_MAX],
    b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"\xff",
    b"[2026-11-21 16:26:26,966] INFO " + MESSAGE % b"\x01",
], ids=range(12))  # fmt: skip
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


def test_number_of_lines_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LINES_MAX", 2)
    batches = list(columns.split_blocks([memoryview(b"a\n\nb\n"), memoryview(b"c")]))
    assert [batch.to_pylist() for batch in batches] == [[b"a", b""], [b"b", b""], [b"c"]]


TAIL = " (kafka.authorizer.logger)"
RULE = "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, operation=READ])"
# Mostly parts of plain lines, and some that make a line not plain.
words = st.sampled_from(("a", "User:x", "unknown", "a:b", "10.0.0.1", "is", "=", "[t]", "(k)", ","))
pieces = st.sampled_from(PIECES)
fields = words | words | words | st.lists(pieces, max_size=3).map("".join) | st.text(max_size=3)
types = st.sampled_from(("Topic", "TransactionalId", "TOPIC", "Topic:", "T9"))
patterns = st.sampled_from(("LITERAL", "PREFIXED", "ANY", "a"))
counts = st.sampled_from(("1", "007", "999999999", "1000000000", "", "x"))
rules = st.sampled_from(
    ("", f" based on rule {RULE}", " based on rule DefaultDeny", " based on rule ", " x")
) | st.lists(pieces, max_size=4).map(lambda some: " based on rule " + "".join(some))
tails = st.sampled_from(
    (
        *(TAIL, TAIL, TAIL, f"{TAIL} [thread-7]", "", f"{TAIL}{TAIL}", " (k)"),
        *(
            *CALLERS,
            f"{CALLERS[0]} [sampleRate=0.01]",
            f"{CALLERS[1]} [t]",
            f"{TAIL} [knownBy=999]",
        ),
    )
)
lines = st.builds(
    "{} Principal = {} is {} {} = {} from host = {} on resource = {}:{}:{} for request = {}"
    " with resourceRefCount = {}{}{}".format,
    st.sampled_from(("INFO", "DEBUG", "TRACE", "NOTE")), fields,
    st.sampled_from(("Allowed", "Denied", "Unknown")), st.sampled_from(("operation", "Operation")),
    st.sampled_from(("READ", "Describe", "DescribeConfigs", "READ 1")), fields, types, patterns,
    fields, fields, counts, rules, tails,
)  # fmt: skip


def plain(some: list[bytes]) -> list[bool]:
    found: list[bool] = are_plain(pyarrow.array(some, pyarrow.binary())).to_pylist()
    return found


def columns_of(some: list[bytes]) -> list[dict[str, Any]]:
    columns = read_plain(pyarrow.array(some, pyarrow.binary()))
    rows: list[dict[str, Any]] = pyarrow.table(columns).to_pylist()
    return rows


def parsed(line: bytes) -> dict[str, Any]:
    event = parse_line(line, UTC)
    assert isinstance(event, Event)
    values: dict[str, Any] = msgspec.structs.asdict(event)
    del values["at_ms"]
    return values


@settings(max_examples=size(10, 400))
@given(st.lists(lines, min_size=1, max_size=30))
def test_plain_line_equals_what_the_parser_reads(some: list[str]) -> None:
    texts = [ONE_TIME + line.encode("utf-8", "surrogatepass") for line in some]
    chosen = [line for line, is_plain in zip(texts, plain(texts), strict=True) if is_plain]
    assert columns_of(chosen) == list(map(parsed, chosen))


def denial(ending: str, names: tuple[str, str, str] = ("User:a", "t", "Fetch")) -> bytes:
    """Return a line with ``names``: its principal, resource name and request."""
    principal, resource, request = names
    return (
        ONE_TIME
        + (
            f"INFO Principal = {principal} is Denied operation = READ from host = h on resource = "
            f"Topic:LITERAL:{resource} for request = {request} with resourceRefCount = 1{ending}"
        ).encode()
    )


@pytest.mark.parametrize(("ending", "rule"), [
    (f" based on rule A{TAIL}", "A"), (f" based on rule a.b:C{TAIL}", "a.b:C"),
    *(
        (f" based on rule {rule}{ending}", rule)
        for rule in (f"A(acl=b,{TAIL}, c])", "A(acl=b, c=d))")
        for ending in (TAIL, f"{TAIL} [t]")
    ),
])  # fmt: skip
def test_rule_ends_before_the_loggers_name(ending: str, rule: str) -> None:
    assert plain([denial(ending)]) == [True]
    assert columns_of([denial(ending)])[0]["rule"] == parsed(denial(ending))["rule"] == rule


@pytest.mark.parametrize("ending", [
    f"000000000{TAIL}",  # a count of ten digits
    f" based on rule A is Allowed b{TAIL}",
    f" based on rule A(acl=a is Allowed b]){TAIL}",
    f" based on rule A b{TAIL}",
    f" based on rule A, b{TAIL}",
    f" based on rule A(acl=b]),{TAIL}",
    f" based on rule A(acl=b]){TAIL}{TAIL}",
    f" based on rule A(acl=b,  c]){TAIL}",
    f" based on rule A{TAIL} [a]b]",
    f" based on rule A{TAIL} [[b]",
    f" based on rule A(acl=b]), (authorizer){TAIL[:-1]}",
    " based on rule A",
    f" based on rule {TAIL}",
])  # fmt: skip
def test_ambiguous_ending_is_not_plain(ending: str) -> None:
    assert plain([denial(ending)]) == [False]


@pytest.mark.parametrize("ending", [f" based on rule {RULE}", " based on rule SuperUser", ""])
@pytest.mark.parametrize("thread", ["", " [data-plane-kafka-request-handler-7]"])
def test_lines_of_brokers_are_plain(ending: str, thread: str) -> None:
    line = ONE_TIME + (
        b"INFO Principal = User:a is Denied operation = READ from host = unknown on resource = "
        b"TransactionalId:LITERAL:a:b for request = Fetch with resourceRefCount = 3"
    )
    line += f"{ending}{TAIL}{thread}".encode()
    assert plain([line]) == [True]
    (columns,) = columns_of([line])
    assert columns == parsed(line)
    assert (columns["host"], columns["resource_type"]) == (None, "TRANSACTIONAL_ID")


def test_all_lines_of_a_real_broker_are_plain(real_log_dir: Path) -> None:
    text = lzma.decompress((real_log_dir / "kafka-authorizer.log.xz").read_bytes())
    assert all(plain([ONE_TIME + line[26:] for line in text.splitlines()]))


@pytest.mark.parametrize("name", [
    "a is Allowed operation = READ from host = b on resource = Topic:LITERAL:c",
    "a for request = Fetch with resourceRefCount = 1", "a, is Allowed operation = READ", "ü",
    "a\tb", "",
])  # fmt: skip
def test_name_with_a_blank_is_not_plain(name: str) -> None:
    for names in ((name, "t", "Fetch"), ("User:a", name, "Fetch"), ("User:a", "t", name)):
        assert plain([denial(f" based on rule DefaultDeny{TAIL}", names)]) == [False]


def hashes_of(lines: list[bytes], salt: int = 1) -> list[int]:
    rows = EventReader(UTC, "auto", None, salt).read(pyarrow.array(lines, pyarrow.binary()))
    others = rows.set_column(0, "line", rows["line"].cast("string"))
    hashed = hash_events(others, RowHashes(salt))
    assert hashed == rows["hash"], "an event of another table has the same hash"
    found: list[int] = rows["hash"].to_pylist()
    return found


def test_hash_depends_on_the_values_the_time_and_the_salt_alone() -> None:
    event = MESSAGE % b"t"
    times = [b"[2026-11-21 16:26:26,966] INFO ", b"[2026-11-21 16:26:26,967] INFO "]
    lines = [times[0] + event, times[1] + event, times[0] + MESSAGE % b"u", b"no", b"line", b""]
    hashes = hashes_of(lines)
    assert len(set(hashes)) == len(lines)
    contained = [b"2026-11-21T16:26:27Z stdout F " + lines[0], b"  " + lines[1]]
    assert hashes_of([*contained, *lines[::-1]]) == [*hashes[:2], *hashes[::-1]]
    assert not set(hashes_of(lines, salt=2)) & set(hashes)
    # Values that change places between two rows change the sum of their hashes.
    names = [(b"a", b"t"), (b"b", b"u"), (b"a", b"u"), (b"b", b"t")]
    swapped = [times[0] + event.replace(b"User:", b"User:%b" % who).replace(b"t", what)
               for who, what in names]  # fmt: skip
    one, two, three, four = hashes_of(swapped)
    assert (one + two - three - four) % 2**64 != 0
