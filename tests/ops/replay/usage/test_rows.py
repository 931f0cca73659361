from __future__ import annotations

from collections import Counter

import msgspec
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PatternType, Question, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.usage.matching import UseIndex, index_of, pack
from authorizerd.replay.usage.recorded import (
    BY_SUPER_USERS,
    DISAGREEING,
    NOT_EVALUATED,
    WHOLE_TUPLE,
)
from authorizerd.replay.usage.rows import changes_in, uses_in
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.recording import TUPLES, tuples_batch
from tests.ops.replay.usage.strategies import acl_sets, asked_questions, recorded_events
from tests.oracles.scan import decide
from tests.oracles.usage import Recorded, is_wide, used_acls

READ_T = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")


@given(acl_sets(unknown_codes=True), recorded_events())
@example(
    acl_set_of([topic_read("t"), topic_read("*"), topic_read("u")]),
    [Recorded(READ_T, True, 1), Recorded(READ_T, True, 5), Recorded(READ_T, False, 9)],
)
def test_rows_sum_to_the_use_by_a_scan(acl_set: AclSet, events: list[Recorded]) -> None:
    index = UseIndex(acl_set)
    rows = uses_in(index, tuples_batch(events)).to_pylist()
    found: dict[Acl, list[object]] = {}
    for acl, used in used_acls(index.acls, acl_set.super_users, events).items():
        names = used.names if is_wide(acl) else [None]
        found[acl] = [used.events_alone, used.events_shared, used.last_ms, names]
        found[acl] += [len(used.alone), len(used.shared)]
    assert {acl: _summed(rows, number) for number, acl in enumerate(index.acls)} == {
        acl: found.get(acl, [0, 0, 0, [], 0, 0]) for acl in index.acls
    }


def _summed(rows: list[dict[str, object]], number: int) -> list[object]:
    own = [row for row in rows if row["number"] == number]
    alone = [row for row in own if row["is_alone"]]
    shared = [row for row in own if not row["is_alone"]]
    names = sorted({row["label"] for row in own}, key=lambda name: (name is not None, name))
    last_ms = max((_int(row["last_ms"]) for row in own), default=0)
    sums: list[object] = [sum(_int(row["events"]) for row in part) for part in (alone, shared)]
    return [*sums, last_ms, names, len(alone), len(shared)]


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


@given(acl_sets(), recorded_events())
def test_disagreeing_events_are_counted(acl_set: AclSet, events: list[Recorded]) -> None:
    rows = uses_in(UseIndex(acl_set), tuples_batch(events)).to_pylist()
    expected: Counter[int] = Counter()
    acls = [item.acl for item in acl_set.acls]
    allow_everyone = acl_set.allow_everyone_if_no_acl_found
    for event in events:
        if event.question.principal in acl_set.super_users:
            expected[BY_SUPER_USERS] += 1
        elif decide(acls, allow_everyone, event.question)[0] != event.allowed:
            expected[DISAGREEING] += 1
    found: Counter[int] = Counter()
    for row in rows:
        if row["number"] < 0:
            found[row["number"]] += row["events"]
    assert found == expected


def test_allow_read_is_used_by_describe_but_deny_is_not() -> None:
    allow, deny = topic_read("t"), topic_read("t", principal="User:b")
    deny = msgspec.structs.replace(deny, permission_type=2)
    index = UseIndex(acl_set_of([allow, deny]))
    describe = msgspec.structs.replace(READ_T, operation=int(Operation.DESCRIBE))
    by_b = msgspec.structs.replace(describe, principal="User:b")
    assert index.uses(describe, was_allowed=True) == [(0, True)]
    assert index.uses(by_b, was_allowed=False) == []


def test_tuple_that_cannot_be_judged_uses_nothing() -> None:
    index = UseIndex(acl_set_of([topic_read("t")]))
    batch = tuples_batch([Recorded(READ_T, True, 1)] * 3, pattern_type="PREFIXED")
    (row,) = uses_in(index, batch).to_pylist()
    assert tuple(row.values()) == (NOT_EVALUATED, "pattern type is not LITERAL", False, 3, None)
    assert changes_in(index, UseIndex(acl_set_of([])), batch).num_rows == 0


def test_no_tuples_give_no_rows() -> None:
    batch = pa.RecordBatch.from_pylist([], schema=TUPLES)
    index = UseIndex(acl_set_of([]))
    assert uses_in(index, batch).num_rows == changes_in(index, index, batch).num_rows == 0


@given(acl_sets(), recorded_events(), st.data())
def test_changes_equal_a_scan_and_name_removed_allows(
    acl_set: AclSet, events: list[Recorded], data: st.DataObject
) -> None:
    acls = [item.acl for item in acl_set.acls]
    kept = [acl for acl in acls if data.draw(st.booleans())]
    after = acl_set.with_acls(kept, "after")
    allow_everyone = acl_set.allow_everyone_if_no_acl_found
    rows = changes_in(UseIndex(acl_set), UseIndex(after), tuples_batch(events)).to_pylist()
    changed: Counter[tuple[str, str, bool]] = Counter()
    culprits: set[Acl] = set()
    for question in {event.question for event in events}:
        if question.principal in acl_set.super_users:
            continue
        is_allowed = decide(kept, allow_everyone, question)[0]
        if decide(acls, allow_everyone, question)[0] != is_allowed:
            changed[question.principal, question.resource_name, is_allowed] += 1
            used = used_acls(acls, (), [Recorded(question, True, 0)])
            culprits.update(acl for acl in used if acl not in kept)
    assert changed == Counter(
        (row["principal"], row["resource_name"], row["is_allowed"])
        for row in rows
        if row["number"] == WHOLE_TUPLE
    )
    assert culprits == {acls[row["number"]] for row in rows if row["number"] >= 0}


def test_remaining_acl_is_not_named_as_a_cause() -> None:
    allow = topic_read("t")
    deny = msgspec.structs.replace(allow, permission_type=2)
    before, after = UseIndex(acl_set_of([allow, deny])), UseIndex(acl_set_of([allow]))
    rows = changes_in(before, after, tuples_batch([Recorded(READ_T, False, 1)])).to_pylist()
    assert [(row["number"], row["is_allowed"]) for row in rows] == [(WHOLE_TUPLE, True)]


@given(acl_sets(), asked_questions)
@example(acl_set_of([topic_read("t"), topic_read("")]), READ_T)
def test_index_depends_on_the_order_of_acls(acl_set: AclSet, question: Question) -> None:
    key, packed = pack(acl_set)
    index = index_of(key, lambda: packed)
    assert index_of(key, _never) is index
    turned = msgspec.structs.replace(acl_set, acls=acl_set.acls[::-1])
    if turned != acl_set:
        turned_key, turned_packed = pack(turned)
        turned_index = index_of(turned_key, lambda: turned_packed)
        assert turned_index.acls == index.acls[::-1]
        for was_allowed in (True, False):
            assert {
                turned_index.acls[use.number]
                for use in turned_index.uses(question, was_allowed=was_allowed)
            } == {index.acls[use.number] for use in index.uses(question, was_allowed=was_allowed)}


def _never() -> bytes:
    raise AssertionError("built a second time")


def test_repeated_acl_counts_once() -> None:
    index = UseIndex(acl_set_of([topic_read("t"), topic_read("t")]))
    assert index.uses(READ_T, was_allowed=True) == [(0, True)]
    assert topic_read("t") in index
    pattern = msgspec.structs.replace(topic_read("t"), pattern_type=int(PatternType.PREFIXED))
    assert pattern not in index
