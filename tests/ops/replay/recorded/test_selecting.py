"""Rows in columns: functions find in them what they find in all rows."""

import random
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import can_decide_all, unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.arrow import BatchRows, make_batch
from authorizerd.replay.recorded.rows import LocalRows, SelectiveFind
from authorizerd.replay.recorded.selecting import select_excluded
from authorizerd.replay.recorded.tuples import NO_EVENTS, Figures, RecordedTuple
from authorizerd.replay.usage.suggestions import compare
from authorizerd.replay.whatif.evaluation import Excluded, change_finder, find_excluded
from tests.ops.replay.local.random_runs import random_set
from tests.ops.replay.recorded.strategies import tuples
from tests.support.sizes import size

some_tuples = st.lists(tuples, min_size=1, max_size=30)


def rows_of(some: list[RecordedTuple], *, is_encoded: bool) -> BatchRows[RecordedTuple]:
    """Return the rows in batches of ten, with their texts as in memory or as in a file."""
    batches = [make_batch(chunk, RecordedTuple) for chunk in _split(some)]
    if is_encoded:
        batches = [_encode(batch) for batch in batches]
    return BatchRows(batches, RecordedTuple)


def _split(some: list[RecordedTuple]) -> Iterator[list[RecordedTuple]]:
    return (some[begin : begin + 10] for begin in range(0, len(some), 10))


def _encode(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@given(some_tuples, st.booleans())
def test_encoded_rows_are_read_alike(some: list[RecordedTuple], is_encoded: bool) -> None:
    assert list(rows_of(some, is_encoded=is_encoded)) == some


def draw_tuple(drawn: random.Random, *, is_odd: bool) -> RecordedTuple:
    """Return a tuple about which random sets often have ACLs, or which ACLs cannot decide."""
    one = drawn.choice
    events = one(((2, 0), (0, 3), (2, 3)))
    return RecordedTuple(
        "User:*" if is_odd else one(("User:a", "User:b", "User:admin")),
        one((None, "10.0.0.1", "10.0.0.2")), one(("READ", "WRITE", "DESCRIBE")),
        one(("TOPIC", "TOPIC", "GROUP")), one(("t", "u", "orders-1", "*a", "ü")), "LITERAL",
        *(Figures(events[0], 1, 2, "A") if events[0] else NO_EVENTS),
        *(Figures(events[1], 1, 2, "B") if events[1] else NO_EVENTS),
    )  # fmt: skip


def draw_set(drawn: random.Random) -> AclSet:
    """Return a random set, in most cases one that all releases judge alike."""
    some = random_set(drawn)
    if drawn.random() < 0.2:
        return some
    return replace(some, acls=tuple(each for each in some.acls if "/" not in each.acl.host))


def test_selected_rows_are_all_that_a_function_needs() -> None:
    changed = 0
    for seed in range(size(100, 1000)):
        drawn = random.Random(seed)
        some = [draw_tuple(drawn, is_odd=drawn.random() < 0.02) for _ in range(30)]
        rows = rows_of(some, is_encoded=seed % 2 == 0)
        candidate = draw_set(drawn)
        baseline = replace(draw_set(drawn), releases=candidate.releases)
        for other in (None, baseline):
            plan = WhatIfPlan(events="", out="", candidate=candidate, baseline=other)
            changes = list(rows.find(change_finder(plan)))
            assert changes == list(change_finder(plan)(some))
            changed += len(changes)
        users = candidate.settings.super_users
        find = SelectiveFind[RecordedTuple, Excluded](
            partial(find_excluded, super_users=users), partial(select_excluded, super_users=users)
        )
        assert list(rows.find(find)) == list(find(some))
        index = AclIndex.of(candidate)
        assert compare(rows, index, baseline) == compare(LocalRows(some), index, baseline)
    assert changed > 1000


@given(some_tuples)
def test_rows_that_acls_can_decide_are_known_by_their_columns(some: list[RecordedTuple]) -> None:
    columns = {name: {getattr(one, name) for one in some} for name in RecordedTuple._fields}
    assert can_decide_all(columns.__getitem__) == all(unasked_reason(one) is None for one in some)
