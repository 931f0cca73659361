"""The local engine's counts of a log, and the causes of changes."""

from collections import Counter
from datetime import UTC
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.acl.decision import is_allowed
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.acl.releases import Release
from authorizerd.acl.text.named_acl import parse_acl
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.parse import columns as columns_module
from authorizerd.replay.ingest.parse.beginnings import parse_second
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.local import tallies as tallies_module
from authorizerd.replay.local.causes import OF_RESOURCE_MAX, ChangedAcls
from authorizerd.replay.local.tallies import Part, Summand, Tallies
from authorizerd.replay.whatif.report import Detail
from tests.acl.audit.recorded.hostile_lines import (
    BEGINNINGS,
    FIELDS,
    MESSAGE,
    bytes_lines,
    stamped_lines,
)
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.recorded_calls import record_calls
from tests.support.sizes import size
from tests.support.strategies import acls, resource_names

STAMP = b"[2026-11-21 16:26:%02d,966] INFO "
Sums = dict[Summand | Reason | None, tuple[int, int | None, int | None]]


def sums_of(
    *parts: list[bytes], zone: str = "UTC", line_format: LineFormat = "auto",
    field: str | None = None,
) -> Sums:  # fmt: skip
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


@settings(max_examples=size(10, 300))
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
    assert sums_of(lines, lines[::-1], zone=zone, line_format=line_format, field=field) == twice


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
        "", ',"time":"2001-01-01T00:00:00.000Z"', ',"time":"2000-01-01T00:00:00.000Z"',
        ',"t\\u0069me":"2026-01-01T00:00:00.000Z"', ',"time":"never"', ',"masked":["principal"]',
        ',"version":2',
    )  # fmt: skip
    lines = [
        # Each kind of line has a resource of its own, and so a sum of its own.
        f'{{{version}"time":"{time}",{rest}"{len(version)} {number}"{tail}}}'.encode()
        for version in ("", '"version":1,', '"version":1234,')
        for time in times
        for number, tail in enumerate(tails)
    ]
    lines += [line[:-1] for line in lines]
    lines += [b"2026-11-21T17:00:00.9Z stdout F " + line for line in lines]
    parsed = [parse_line(line, find_zone(zone), line_format) for line in (*lines, *lines)]
    expected = sums_of_rows(
        [
            (Summand._make(getattr(one, name) for name in Summand._fields), one.at_ms)
            if isinstance(one, Event)
            else (one, None)
            for one in parsed
        ]
    )
    assert sums_of(lines, lines, zone=zone, line_format=line_format) == expected
    assert sums_of_columns(lines + lines, zone, line_format) == expected


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


@pytest.mark.parametrize(("function", "line", "count", "parsed"), [
    ("parse_line", STAMP + MESSAGE % b"a", 9, 1),
    ("parse_line", b'{"version":1,"time":"2026-11-21T16:26:%02d.966Z","principal":"User:a"}', 9, 1),
    # Each line has another timestamp of the container, so a memory of them would only cost time.
    ("parse_second", b"2026-11-21T16:26:26.%09dZ stdout F " + STAMP % 26 + MESSAGE % b"a", 9, 1),
], ids=["line", "JSON", "container"])  # fmt: skip
def test_lines_that_differ_in_time_are_parsed_once(
    function: str, line: bytes, count: int, parsed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line % number for number in range(count)]
    calls = record_calls(monkeypatch, tallies_module, function)
    sums = sums_of(lines)
    assert [lines for lines, _, _ in sums.values()] == [count]
    assert len(calls) == parsed
    calls = record_calls(monkeypatch, columns_module, function)
    assert sums_of_columns(lines, "UTC", "auto") == sums
    assert len(calls) <= parsed, "plain lines need no call at all"


@pytest.mark.parametrize("name", ["TAILS_MAX", "KEPT_BYTES_MAX", "SECONDS_MAX"])
def test_full_cache_changes_no_sum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        STAMP % (number % 7) + MESSAGE % (b"%d" % (number * number % 11)) for number in range(100)
    ]
    expected = sums_of(lines)
    monkeypatch.setattr(tallies_module, name, 2)
    assert sums_of(lines) == expected


@pytest.mark.parametrize(
    ("tallies_max", "text_bytes_max"), [(3, 10_000), (10_000, 3 * len(b"INFO " + MESSAGE % b"1"))]
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


def test_breaks_split_a_tally_by_file_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line at a break is after it; a part has the number of its first line."""
    second_ms = parse_second(b"2026-11-21 16:26:00", UTC)
    assert second_ms is not None
    breaks = {"User:a": [second_ms + 2_966, second_ms + 4_000], "User:b": []}
    tallies = Tallies(UTC, find_breaks=lambda summand: breaks[summand.principal])
    for name in ("x", "y"):
        tallies.begin_file(name)
        for seconds in (range(3), range(3, 6)):
            tallies.add([STAMP % at + MESSAGE % each for at in seconds for each in (b"a", b"b")])
    tallies.add([b"no event", STAMP.replace(b",966", b",96") % 59 + MESSAGE % b"a"])
    parts = [
        (counted.principal, part.file, part.line, part.lines, part.last_ms - second_ms)
        for counted, part in tallies
        if isinstance(counted, Summand) and isinstance(part, Part)
    ]
    assert parts == [
        ("User:a", "x", 1, 2, 1_966), ("User:a", "x", 5, 2, 3_966), ("User:a", "x", 9, 2, 5_966),
        ("User:a", "y", 1, 2, 1_966), ("User:a", "y", 5, 2, 3_966), ("User:a", "y", 9, 3, 59_960),
        ("User:b", "x", 2, 6, 5_966), ("User:b", "y", 2, 6, 5_966),
    ]  # fmt: skip
    assert {counted: tally.lines for counted, tally in tallies}[Reason.NO_DECISION] == 1
    monkeypatch.setattr(tallies_module, "TALLIES_MAX", 10)  # two tallies and eight parts
    with pytest.raises(TrafficError, match="more than"):
        tallies.add([STAMP % 0 + MESSAGE % b"c"])


READ_T = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
ALLOW = topic_read("t")
PREFIX = topic_read("", prefixed=True, principal="User:*")
DENY = Acl(2, "t", 3, "User:a", "*", 3, 2)
DENY_ALL = Acl(2, "*", 3, "User:*", "10.0.0.1", 2, 2)
OTHERS = topic_read("t", principal="User:b")
ELSEWHERE = topic_read("u")
RANGE = replace(ALLOW, host="10.0.0.0/8")
DENY_RANGE = replace(DENY, host="10.0.0.0/8")


def change_of(question: Question, events: int, last_at: str) -> Detail:
    """Return a change of a request; the rules do not matter."""
    return Detail(
        principal=question.principal, host=question.host,
        operation=Operation(question.operation).name,
        resource_type=ResourceType(question.resource_type).name,
        resource_name=question.resource_name, events=events, first_at="", last_at=last_at,
        baseline_rule=None, candidate_rule="",
    )  # fmt: skip


@pytest.mark.parametrize(("is_allowed", "removed", "added", "causes"), [
    (False, [ALLOW, OTHERS, ELSEWHERE], [], [ALLOW]),
    (False, [ALLOW, PREFIX, DENY], [], [ALLOW, PREFIX]),
    (False, [ALLOW], [DENY, DENY_ALL], [DENY, DENY_ALL]),
    (False, [], [DENY, ALLOW], [DENY]),
    # allow.everyone.if.no.acl.found no longer applies.
    (False, [], [OTHERS, ELSEWHERE], [OTHERS]),
    (True, [], [ALLOW, OTHERS], [ALLOW]),
    (True, [DENY, ALLOW], [PREFIX], [DENY, PREFIX]),
    # allow.everyone.if.no.acl.found applies again.
    (True, [OTHERS, ELSEWHERE], [], [OTHERS]),
    # By Kafka 4.4.
    (False, [RANGE, OTHERS], [], [RANGE]),
    (False, [OTHERS], [DENY_RANGE], [DENY_RANGE]),
    (True, [OTHERS], [RANGE], [RANGE]),
    (True, [DENY_RANGE, OTHERS], [], [DENY_RANGE]),
])  # fmt: skip
def test_causes_are_the_acls_that_decide(
    is_allowed: bool, removed: list[Acl], added: list[Acl], causes: list[Acl]
) -> None:
    changed = ChangedAcls(removed, added)
    found = changed.find_causes([change_of(READ_T, 7, "t")], are_allowed=is_allowed)
    assert {parse_acl(each.acl) for each in found} == set(causes)
    assert all((each.change == "delete") is (parse_acl(each.acl) in removed) for each in found)
    assert {(each.events, each.tuples, each.last_at) for each in found} == {(7, 1, "t")}


def test_range_is_no_cause_by_a_release_that_reads_none() -> None:
    changed = ChangedAcls([RANGE, ALLOW], [], (Release.KAFKA_4_3,))
    (found,) = changed.find_causes([change_of(READ_T, 1, "t")], are_allowed=False)
    assert parse_acl(found.acl) == ALLOW


def test_causes_are_summed_and_sorted() -> None:
    changed = ChangedAcls([ALLOW, ELSEWHERE], [])
    on_u = replace(READ_T, resource_name="u")
    found = changed.find_causes(
        [
            change_of(on_u, 2, "5"),
            change_of(READ_T, 1, "9"),
            change_of(Question("User:a", None, 3, 2, "t"), 5, "3"),
        ],
        are_allowed=False,
    )
    assert [(parse_acl(each.acl), each.events, each.tuples, each.last_at) for each in found] == [
        (ALLOW, 6, 2, "9"),
        (ELSEWHERE, 2, 1, "5"),
    ]


def test_acls_that_share_only_the_resource_are_limited() -> None:
    added = [topic_read("t", principal=f"User:{number}") for number in range(100)]
    found = ChangedAcls([], added).find_causes([change_of(READ_T, 1, "")], are_allowed=False)
    assert len(found) == OF_RESOURCE_MAX


def decides(index: AclIndex, question: Question) -> bool:
    return is_allowed(index.snapshot, index.settings, question)


questions = st.builds(
    Question,
    st.sampled_from(("User:a", "User:b")),
    st.sampled_from((None, "10.0.0.1", "10.0.0.2")),
    st.sampled_from((int(Operation.READ), int(Operation.DESCRIBE), int(Operation.ALTER))),
    st.sampled_from((int(ResourceType.TOPIC), int(ResourceType.GROUP))),
    resource_names,
)


@settings(max_examples=size(10, 300))
@given(
    st.lists(acls(), max_size=8, unique=True),
    st.lists(acls(), max_size=8, unique=True),
    st.lists(questions, max_size=8),
    st.booleans(),
)
def test_every_changed_decision_has_a_cause(
    before: list[Acl], after: list[Acl], asked: list[Question], allow_everyone: bool
) -> None:
    baseline, candidate = (
        AclIndex.of(acl_set_of(some, allow_everyone=allow_everyone)) for some in (before, after)
    )
    removed, added = set(before) - set(after), set(after) - set(before)
    changed = ChangedAcls(before, after)
    for question in asked:
        now = decides(candidate, question)
        if now is decides(baseline, question):
            continue
        causes = changed.find_causes([change_of(question, 1, "")], are_allowed=now)
        assert causes
        for each in causes:
            assert parse_acl(each.acl) in (removed if each.change == "delete" else added)
        # Without these changes, the decision is the old one or has other causes.
        kept = {parse_acl(each.acl) for each in causes}
        undone = (set(after) - kept) | (set(before) & kept)
        again = AclIndex.of(acl_set_of(list(undone), allow_everyone=allow_everyone))
        if decides(again, question) is now:
            rest = ChangedAcls(removed - kept, added - kept)
            assert rest.find_causes([change_of(question, 1, "")], are_allowed=now)
