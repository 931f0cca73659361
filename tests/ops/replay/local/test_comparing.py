from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
)
from authorizerd.replay.judging.index import build_index
from authorizerd.replay.judging.questions import unasked_reasons
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local.comparing import Change, Comparison, compare
from authorizerd.replay.local.traffic import Figures, TrafficTuple
from authorizerd.replay.whatif.changes import CHANGES_SCHEMA, find_changes
from authorizerd.replay.whatif.report import NEWLY_ALLOWED, NEWLY_DENIED
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.support.strategies import acls, resource_names

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
FIGURES = (("events", pa.int64()), ("first_at", TIME), ("last_at", TIME), ("rule", pa.string()))
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in (*QUESTION_FIELDS, "pattern_type")),
        *((f"{answer}_{name}", kind) for answer in ("allowed", "denied") for name, kind in FIGURES),
    ]
)

figures = st.builds(
    lambda events, first, more: Figures(events, first, first + more, None),
    st.integers(1, 9),
    st.integers(0, 10**13),
    st.integers(0, 10**6),
)
answers = st.one_of(
    st.tuples(figures, st.none()), st.tuples(st.none(), figures), st.tuples(figures, figures)
)
tuples = st.builds(
    lambda asked, answer: TrafficTuple(*asked, *answer),
    st.tuples(
        st.sampled_from(("User:a", "User:b", "User:*", "Group:a", "User:root")),
        st.sampled_from((None, "10.0.0.1", "10.0.0.2")),
        st.sampled_from((*sorted(OPERATION_CODES), "ANY", "Read")),
        st.sampled_from((*sorted(RESOURCE_TYPE_CODES), "TOPICS")),
        resource_names,
        st.sampled_from(("LITERAL", "LITERAL", "LITERAL", "PREFIXED")),
    ),
    answers,
)


def batch_of(some: Sequence[TrafficTuple]) -> pa.RecordBatch:
    """Return the tuples as the Spark job reads them."""
    rows = [(*each[:6], *_columns(each.allowed), *_columns(each.denied)) for each in some]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _columns(some: Figures | None) -> tuple[object, ...]:
    if some is None:
        return (0, None, None, None)
    times = (EPOCH + timedelta(milliseconds=at) for at in (some.first_ms, some.last_ms))
    return (some.events, *times, some.rule)


def row_of(change: Change) -> dict[str, Any]:
    """Return a change as a row of the Spark job."""
    one, total = change.recorded, change.figures
    values = (
        NEWLY_ALLOWED if change.after.allowed else NEWLY_DENIED,
        *one[:5],
        total.events,
        EPOCH + timedelta(milliseconds=total.first_ms),
        EPOCH + timedelta(milliseconds=total.last_ms),
        change.rule_before,
        str(change.after.rule),
    )
    return dict(zip(CHANGES_SCHEMA.names, values, strict=True))


def sets_of(before: list[Acl], after: list[Acl], *, allow_everyone: bool) -> list[AclSet]:
    return [
        acl_set_of(some, super_users=("User:root",), allow_everyone=allow_everyone)
        for some in (before, after)
    ]


@settings(max_examples=300)
@given(
    st.lists(acls(unknown_codes=True), max_size=8, unique=True),
    st.lists(acls(unknown_codes=True), max_size=8, unique=True),
    st.lists(tuples, max_size=12, unique_by=lambda each: each[:6]),
    st.booleans(),
)
def test_changes_equal_those_of_the_spark_job(
    before: list[Acl], after: list[Acl], some: list[TrafficTuple], allow_everyone: bool
) -> None:
    baseline, candidate = sets_of(before, after, allow_everyone=allow_everyone)
    batch = batch_of(some)
    reasons = unasked_reasons(batch)
    asked = batch.filter(reasons.is_null())
    found = find_changes(asked, build_index(candidate), build_index(baseline))
    comparison = compare(some, build_index(baseline), build_index(candidate))
    assert list(map(row_of, comparison.changes)) == [
        row for each in found for row in each.to_pylist()
    ]
    expected: dict[str, Count] = {}
    for reason, each in zip(reasons.to_pylist(), some, strict=True):
        if reason is not None:
            so_far = expected.get(reason, Count())
            expected[reason] = Count(
                events=so_far.events + each.all_events.events, tuples=so_far.tuples + 1
            )
    assert comparison.not_evaluated == expected
    # Events that the baseline decides otherwise are those that it changes in the record.
    drifted = [
        row for each in find_changes(asked, build_index(baseline), None) for row in each.to_pylist()
    ]
    assert comparison.not_reproduced == Count(
        events=sum(row["events"] for row in drifted), tuples=len(drifted)
    )
    most = [each.events for each in comparison.contradicted]
    assert most == sorted((row["events"] for row in drifted), reverse=True)[:3]


def test_nothing_recorded_changes_nothing() -> None:
    sets = sets_of([topic_read("t")], [], allow_everyone=False)
    assert compare([], *map(build_index, sets)) == Comparison([], {}, Count())
