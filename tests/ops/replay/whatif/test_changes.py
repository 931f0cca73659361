from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import QUESTION_FIELDS
from authorizerd.replay.judging.index import build_index
from authorizerd.replay.whatif.changes import CHANGES_SCHEMA, find_changes
from tests.ops.replay.acl_sets import acl_set_of


def figures(events: int, hour: int) -> tuple[object, ...]:
    """Return a tuple's figures of events between ``hour`` and the next hour."""
    times = (datetime(2026, 11, 21, hour + more, tzinfo=UTC) for more in (0, 1))
    return (events, *times, f"Rule{hour}") if events else (0, None, None, None)


READ_A = Acl(2, "t", 3, "User:a", "*", 3, 3)
READ_B = Acl(2, "t", 3, "User:b", "*", 3, 3)
TIME = pa.timestamp("us", "UTC")
FIGURES = (("events", pa.int64()), ("first_at", TIME), ("last_at", TIME), ("rule", pa.string()))
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in QUESTION_FIELDS),
        *(
            (f"{verdict}_{name}", kind)
            for verdict in ("allowed", "denied")
            for name, kind in FIGURES
        ),
    ]
)


def batch_of(*counts: tuple[str, int, int]) -> pa.RecordBatch:
    """Return tuples of (principal, allowed events, denied events) that read ``t``."""
    rows = [
        (principal, "h", "READ", "TOPIC", "t", *figures(allowed, 0), *figures(denied, 12))
        for principal, allowed, denied in counts
    ]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def told(batch: pa.RecordBatch, candidate: AclSet, baseline: AclSet | None) -> list[dict[str, Any]]:
    before = None if baseline is None else build_index(baseline)
    found = list(find_changes(batch, build_index(candidate), before))
    assert all(each.schema == CHANGES_SCHEMA for each in found)
    return [row for each in found for row in each.to_pylist()]


def summed(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(row["change"], row["principal"], row["events"]) for row in rows]


def test_only_events_decided_differently_change() -> None:
    batch = batch_of(("User:a", 5, 2), ("User:a", 5, 0), ("User:b", 4, 3), ("User:b", 0, 9))
    assert summed(told(batch, acl_set_of([READ_A]), None)) == [
        ("newly_allowed", "User:a", 2),
        ("newly_denied", "User:b", 4),
    ]


def test_all_events_change_against_a_baseline() -> None:
    batch = batch_of(("User:a", 5, 2), ("User:b", 4, 3), ("User:c", 7, 7))
    rows = told(batch, acl_set_of([READ_A]), acl_set_of([READ_B]))
    assert summed(rows) == [("newly_allowed", "User:a", 7), ("newly_denied", "User:b", 7)]
    assert [(row["baseline_rule"], row["candidate_rule"]) for row in rows] == [
        ("DefaultDeny", f"MatchingAcl(acl={READ_A})"),
        (f"MatchingAcl(acl={READ_B})", "DefaultDeny"),
    ]
    assert [(row["first_at"].hour, row["last_at"].hour) for row in rows] == [(0, 13), (0, 13)]


def test_no_change_gives_no_batch() -> None:
    batch = batch_of(("User:a", 5, 0), ("User:b", 0, 3))
    assert told(batch, acl_set_of([READ_A]), None) == []
    assert told(batch, acl_set_of([READ_A]), acl_set_of([READ_A])) == []
    assert told(batch.slice(2), acl_set_of([READ_A]), None) == []


def test_change_has_the_recorded_rule_and_times() -> None:
    rows = told(batch_of(("User:a", 5, 2), ("User:b", 4, 3)), acl_set_of([READ_A]), None)
    assert [
        (row["baseline_rule"], row["first_at"].hour, row["last_at"].hour, row["candidate_rule"])
        for row in rows
    ] == [("Rule12", 12, 13, f"MatchingAcl(acl={READ_A})"), ("Rule0", 0, 1, "DefaultDeny")]
