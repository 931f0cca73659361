from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PermissionType, Question, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.proving import Changed, Comparison, prove
from authorizerd.replay.usage.suggestions import (
    AclUsage,
    LeftOut,
    Narrowing,
    Suggestions,
    keep_resources_closed,
    suggest,
)
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.strategies import acl_sets, asked_questions, recorded_events
from tests.oracles.scan import decide, meets
from tests.oracles.usage import Recorded, is_wide, used_acls


def usage_of(acl_set: AclSet, events: list[Recorded], *, names_max: int) -> dict[Acl, AclUsage]:
    """Return the usage that a scan finds, as Spark sums it."""
    acls = [item.acl for item in acl_set.acls]
    return {
        acl: AclUsage(
            Count(events=used.events_alone, tuples=len(used.alone)),
            Count(events=used.events_shared, tuples=len(used.shared)),
            used.last_ms,
            len(used.names) if is_wide(acl) else 0, used.names[0] if is_wide(acl) else None,
            used.names[-1] if is_wide(acl) else None,
            tuple(used.names[:names_max]) if is_wide(acl) else (),
        )
        for acl, used in used_acls(acls, acl_set.super_users, events).items()
    }  # fmt: skip


def suggested(acl_set: AclSet, events: list[Recorded], *, names_max: int) -> Suggestions:
    usage = usage_of(acl_set, events, names_max=names_max)
    suggestions = suggest([item.acl for item in acl_set.acls], usage, names_max=names_max)
    return keep_resources_closed(acl_set, suggestions)


def by_plain_scan(acl_set: AclSet, events: list[Recorded], other: AclSet) -> Comparison:
    """Compare two sets on the events' questions, without the index and the workers."""
    acls, others = ([item.acl for item in one.acls] for one in (acl_set, other))
    allow_everyone = acl_set.allow_everyone_if_no_acl_found
    by_acl: dict[Acl, Changed] = {}
    whole: Changed | None = None
    for question in {event.question for event in events}:
        if question.principal in acl_set.super_users:
            continue
        was_allowed = decide(acls, allow_everyone, question)[0]
        is_allowed = decide(others, allow_everyone, question)[0]
        if was_allowed != is_allowed:
            one, none = Count(events=1, tuples=1), Count()
            counts = (none, one) if is_allowed else (one, none)
            whole = Changed(*counts, question.resource_name, question.principal)
            gone = used_acls(acls, (), [Recorded(question, True, 0)]).keys() - set(others)
            by_acl.update(dict.fromkeys(gone, whole))
    return Comparison(whole, by_acl)


@given(acl_sets(), recorded_events(), st.integers(0, 3))
def test_proven_suggestions_change_no_recorded_answer(
    acl_set: AclSet, events: list[Recorded], names_max: int
) -> None:
    first = suggested(acl_set, events, names_max=names_max)
    suggestions, proof = prove(
        acl_set, first, lambda other: by_plain_scan(acl_set, events, other), tuples=7
    )
    resulting = suggestions.resulting(item.acl for item in acl_set.acls)
    after = acl_set.with_acls(resulting, "after")
    assert by_plain_scan(acl_set, events, after).whole is None
    if proof is None:
        assert resulting == tuple(item.acl for item in acl_set.acls)
    else:
        assert (proof.digest, proof.acls, proof.tuples) == (after.digest, len(resulting), 7)
    assert set(first.taken()) == {
        *suggestions.taken(),
        *(item.acl for item in suggestions.left_out if item not in first.left_out),
    }


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3), asked_questions)
@example(
    acl_set_of([topic_read("*")]),
    [Recorded(Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "*"), True, 1)],
    0,
    Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "*x"),
)
def test_suggestions_never_allow_a_denied_question(
    acl_set: AclSet, events: list[Recorded], names_max: int, question: Question
) -> None:
    suggestions = suggested(acl_set, events, names_max=names_max)
    acls = [item.acl for item in acl_set.acls]
    allow_everyone = acl_set.allow_everyone_if_no_acl_found
    if decide(suggestions.resulting(acls), allow_everyone, question)[0]:
        assert decide(acls, allow_everyone, question)[0]


@given(acl_sets(), recorded_events(), st.integers(0, 3))
def test_agreeing_record_needs_one_pass(
    acl_set: AclSet, events: list[Recorded], names_max: int
) -> None:
    acls = [item.acl for item in acl_set.acls]
    allow_everyone = acl_set.allow_everyone_if_no_acl_found
    agreeing = [
        Recorded(event.question, decide(acls, allow_everyone, event.question)[0], event.at_ms)
        for event in events
    ]
    suggestions = suggested(acl_set, agreeing, names_max=names_max)
    after = acl_set.with_acls(suggestions.resulting(acls), "after")
    assert by_plain_scan(acl_set, agreeing, after).whole is None


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3))
def test_denials_and_used_literals_stay(
    acl_set: AclSet, events: list[Recorded], names_max: int
) -> None:
    suggestions = suggested(acl_set, events, names_max=names_max)
    used = usage_of(acl_set, events, names_max=names_max)
    for acl in suggestions.removals:
        assert acl.permission_type == PermissionType.ALLOW
        assert acl not in used
    for wide, names_count, narrower in suggestions.narrowings:
        assert is_wide(wide)
        assert names_count == used[wide].names_count
        for acl in narrower:
            assert acl != wide
            same = {"resource_name": wide.resource_name, "pattern_type": wide.pattern_type}
            assert msgspec.structs.replace(acl, **same) == wide


Pattern = tuple[str, bool]
"""A name, and whether it is a prefix."""
NARROWED = [
    ("*", False, ("a-1", "a-2"), 2, [("a-1", False), ("a-2", False)]),
    ("*", False, ("a-1", "a-2"), 1, [("a-", True)]),
    ("*", False, ("a", "b"), 1, []),
    ("*", False, ("*",), 5, []),
    ("*", False, ("*",), 0, []),
    ("*", False, ("", "a"), 5, []),
    ("a", True, ("a", "ab"), 5, [("a", False), ("ab", False)]),
    ("a", True, ("abc", "abd"), 1, [("ab", True)]),
    ("a", True, ("abc", "ac"), 1, []),
    ("a", True, ("a b ", "a b c"), 1, [("a b ", True)]),
    ("*", True, ("*ab", "*ac"), 1, [("*a", True)]),
    ("*", True, ("*", "*a"), 5, []),
    ("a", False, ("a",), 5, []),
]


@pytest.mark.parametrize(("name", "prefixed", "names", "names_max", "expected"), NARROWED)
def test_few_names_become_literals_and_many_a_prefix(
    name: str, prefixed: bool, names: tuple[str, ...], names_max: int, expected: list[Pattern]
) -> None:
    wide = topic_read(name, prefixed=prefixed)
    listed = names[:names_max]
    usage = AclUsage(Count(events=9, tuples=1), Count(), 1, len(names), names[0], names[-1], listed)
    found = suggest([wide], {wide: usage}, names_max=names_max)
    narrower = tuple(topic_read(*item[:1], prefixed=item[1]) for item in expected)
    if narrower and narrower[0].resource_name.endswith(" "):
        reason = "kafka-acls removes blanks at the ends of names"
        assert found == Suggestions(left_out=(LeftOut(wide, reason),))
    elif narrower:
        assert found == Suggestions(narrowings=(Narrowing(wide, len(names), narrower),))
    else:
        assert found == Suggestions()


def test_last_acl_stays_with_allow_everyone() -> None:
    question = Question("User:b", "h", Operation.READ, ResourceType.TOPIC, "other")
    events = [Recorded(question, True, 1)]
    alone = acl_set_of([topic_read("secret")], allow_everyone=True)
    assert suggested(alone, events, names_max=5).removals == ()
    assert suggested(alone, events, names_max=5).left_out[0].acl == topic_read("secret")
    deny = msgspec.structs.replace(topic_read("se", prefixed=True), permission_type=2)
    covered = acl_set_of([topic_read("secret"), deny], allow_everyone=True)
    assert suggested(covered, events, names_max=5).removals == (topic_read("secret"),)
    strict = acl_set_of([topic_read("secret")])
    assert suggested(strict, events, names_max=5).removals == (topic_read("secret"),)


COVERED = [
    (("a", False), ("a", True), True),
    (("a", False), ("*", False), True),
    (("*a", False), ("*", False), False),
    (("*a", True), ("*", False), False),
    (("*a", True), ("*", True), True),
    (("ab", True), ("*", False), True),
    (("ab", True), ("a", True), True),
    (("a", True), ("ab", True), False),
    (("a", True), ("a", False), False),
    (("*", False), ("*", True), False),
    (("*", False), ("a", True), False),
]


@pytest.mark.parametrize(("removed", "staying", "may_go"), COVERED)
def test_covered_pattern_may_be_removed(removed: Pattern, staying: Pattern, may_go: bool) -> None:
    gone = topic_read(removed[0], prefixed=removed[1])
    kept = topic_read(staying[0], prefixed=staying[1], principal="User:z")
    deny = msgspec.structs.replace(kept, permission_type=2)
    found = suggested(acl_set_of([gone, deny], allow_everyone=True), [], names_max=5)
    assert found.removals == ((gone,) if may_go else ())


@given(acl_sets(), recorded_events(), st.text("ab-*!", max_size=5))
def test_no_name_loses_its_last_acl_with_allow_everyone(
    acl_set: AclSet, events: list[Recorded], name: str
) -> None:
    assume(acl_set.allow_everyone_if_no_acl_found)
    acls = [item.acl for item in acl_set.acls]
    resulting = suggested(acl_set, events, names_max=2).resulting(acls)
    for resource_type in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER):
        question = Question("User:nobody", None, Operation.READ, resource_type, name)
        before = any(meets(acl, question) for acl in acls)
        assert any(meets(acl, question) for acl in resulting) == before
