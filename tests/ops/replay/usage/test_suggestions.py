from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl, Operation, PermissionType, Question, ResourceType
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.suggestions import Suggestions, compare, prove, suggest
from authorizerd.replay.usage.uses import AclUsage, sum_uses
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.recording import (
    acl_sets,
    asked_questions,
    recorded_events,
    tuples_of,
    usage_of,
)
from tests.oracles.scan import decide, meets
from tests.oracles.usage import Recorded, is_wide, used_acls

A, B = topic_read("a"), topic_read("b")


def suggested(acl_set: AclSet, events: list[Recorded], *, names_max: int) -> Suggestions:
    usage = usage_of(acl_set, events, names_max)
    judged = [item.acl for item in acl_set.acls]
    return suggest(acl_set, judged, usage, names_max=names_max)


def scan_differences(
    acl_set: AclSet, events: list[Recorded], after: Sequence[Acl]
) -> dict[Acl | None, str]:
    """Compare two sets on the events' questions, without the index and the workers."""
    acls = [item.acl for item in acl_set.acls]
    found: dict[Acl | None, list[Question]] = defaultdict(list)
    for event in events:
        question = event.question
        if question.principal in acl_set.settings.super_users:
            continue
        before, now = (
            decide(some, acl_set.settings.allow_everyone_if_no_acl_found, question)[0]
            for some in (acls, after)
        )
        if before != now:
            removed = used_acls(acls, (), [Recorded(question, True, 0)]).keys() - set(after)
            causes: Collection[Acl | None] = [None] if now or not removed else removed
            for acl in causes:
                found[acl].append(question)
    return {acl: _describe(acl, some) for acl, some in found.items()}


def _describe(acl: Acl | None, some: list[Question]) -> str:
    principal, name = min((one.principal, one.resource_name) for one in some)
    outcome = "decided otherwise" if acl is None else "newly denied"
    return escape_unprintable(
        f"{format_count(len(some), 'event')} would be {outcome}, such as those of {principal} on "
        f"{name}"
    )


def test_the_acl_of_a_grant_is_neither_removed_nor_replaced() -> None:
    """Narrower ACLs would have no end."""
    grant = Grant(
        id="1", acl=A, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="INC-1"
    )
    found = suggested(acl_set_of([A, B, make_grant_note(grant)]), [], names_max=1)
    assert found.replaced == {B: ()}
    assert "ends by itself" in found.left_out[A]


@given(acl_sets(), recorded_events(), st.sets(st.integers(0, 11)))
def test_comparison_is_that_of_a_scan(
    acl_set: AclSet, events: list[Recorded], removed: set[int]
) -> None:
    kept = [item.acl for number, item in enumerate(acl_set.acls) if number not in removed]
    after = acl_set.with_acls(kept, "kept")
    found = compare(LocalRows(tuples_of(events)), AclIndex.of(acl_set), after)
    assert found == scan_differences(acl_set, events, kept)


@given(acl_sets(), recorded_events(), st.integers(0, 3))
def test_proven_suggestions_change_no_recorded_answer(
    acl_set: AclSet, events: list[Recorded], names_max: int
) -> None:
    first = suggested(acl_set, events, names_max=names_max)
    suggestions, after = prove(
        acl_set, first, partial(compare, LocalRows(tuples_of(events)), AclIndex.of(acl_set))
    )
    acls = [item.acl for item in after.acls]
    assert acls == list(suggestions.apply(item.acl for item in acl_set.acls))
    assert not scan_differences(acl_set, events, acls)
    kept = suggestions.left_out.keys() - first.left_out.keys()
    assert first.replaced.keys() == suggestions.replaced.keys() | kept


def test_removal_of_a_range_that_names_a_network_interface_is_not_suggested() -> None:
    """A broker with this interface allows by it, which no other process can know."""
    uncertain = msgspec.structs.replace(A, host="2001:db8::%eth0/32")
    request = Question("User:a", "2001:db8:0:0:0:0:0:1", Operation.READ, ResourceType.TOPIC, "a")
    acl_set = acl_set_of([uncertain, B])
    used = sum_uses(LocalRows(tuples_of([Recorded(request, True, 1)])), AclIndex.of(acl_set), 9)
    found = suggest(acl_set, [uncertain, B], used.usage, names_max=9)
    assert found.replaced.keys() == {B}
    assert "network interface" in found.left_out[uncertain]


def prove_with(*found: Mapping[Acl | None, str]) -> tuple[Suggestions, AclSet]:
    """Return the proof of two removals if each comparison finds the next differences."""
    differences = iter(found)
    return prove(acl_set_of([A, B]), Suggestions({A: (), B: ()}, {}), lambda _: next(differences))


@pytest.mark.parametrize(("found", "replaced", "left_out"), [
    (({A: "why"}, {}), {B: ()}, {A: "why"}),
    (({A: "why", B: "why"},), {}, {A: "why", B: "why"}),  # nothing is left to compare
])  # fmt: skip
def test_breaking_suggestion_is_left_out_and_the_rest_proven(
    found: Sequence[Mapping[Acl | None, str]], replaced: dict[Acl, tuple[Acl, ...]],
    left_out: dict[Acl, str],
) -> None:  # fmt: skip
    suggestions, after = prove_with(*found)
    assert suggestions == Suggestions(replaced, left_out)
    assert {item.acl for item in after.acls} == left_out.keys()


def test_unexplained_difference_is_an_error() -> None:
    with pytest.raises(UsageError, match="no suggestion is safe: with the suggested ACLs, 2 ev"):
        prove_with({A: "why"}, {None: "2 events"})


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3), asked_questions)
@example(
    acl_set_of([topic_read("*")]),
    [Recorded(Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "*"), True, 1)],
    0,
    Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "*x"),
)
@example(
    acl_set_of([topic_read("t")], allow_everyone=None),
    [],
    0,
    Question("User:b", "h", Operation.READ, ResourceType.TOPIC, "t"),
)
def test_suggestions_never_allow_a_denied_question(
    acl_set: AclSet, events: list[Recorded], names_max: int, question: Question
) -> None:
    suggestions = suggested(acl_set, events, names_max=names_max)
    acls = [item.acl for item in acl_set.acls]
    is_open = acl_set.allow_everyone_if_no_acl_found
    for allow_everyone in (False, True) if is_open is None else (is_open,):
        if decide(suggestions.apply(acls), allow_everyone, question)[0]:
            assert decide(acls, allow_everyone, question)[0]


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3))
def test_denials_and_used_literals_stay_and_agreement_needs_one_pass(
    acl_set: AclSet, events: list[Recorded], names_max: int
) -> None:
    suggestions = suggested(acl_set, events, names_max=names_max)
    used = usage_of(acl_set, events, names_max)
    for wide, narrower in suggestions.replaced.items():
        assert wide.permission_type == PermissionType.ALLOW
        assert is_wide(wide) if narrower else wide not in used
        for acl in narrower:
            assert acl != wide
            same = {"resource_name": wide.resource_name, "pattern_type": wide.pattern_type}
            assert msgspec.structs.replace(acl, **same) == wide
    acls = [item.acl for item in acl_set.acls]
    allow_everyone = acl_set.settings.allow_everyone_if_no_acl_found
    agreeing = [
        Recorded(event.question, decide(acls, allow_everyone, event.question)[0], event.at_ms)
        for event in events
    ]
    suggestions = suggested(acl_set, agreeing, names_max=names_max)
    assert not scan_differences(acl_set, agreeing, suggestions.apply(acls))


def test_unused_acl_on_which_kafka_fails_stays() -> None:
    """Whatever it says, it denies everything to everyone, so its removal could allow more."""
    failing = msgspec.structs.replace(topic_read("a"), principal="est")
    assert not suggest(acl_set_of([failing]), [failing], {}, names_max=1).replaced


Pattern = tuple[str, bool]
"""A name, and whether it is a prefix."""
NARROWED = [
    ("*", False, ("a-1", "a-2"), 2, [("a-1", False), ("a-2", False)]),
    ("*", False, ("a-1", "a-2"), 1, [("a-", True)]), ("*", False, ("a", "b"), 1, []),
    ("*", False, ("*",), 5, []), ("*", False, ("*",), 0, []), ("*", False, ("", "a"), 5, []),
    ("a", True, ("a", "ab"), 5, [("a", False), ("ab", False)]),
    ("a", True, ("abc", "abd"), 1, [("ab", True)]), ("a", True, ("abc", "ac"), 1, []),
    ("a", True, ("a b ", "a b c"), 1, [("a b ", True)]),
    ("*", True, ("*ab", "*ac"), 1, [("*a", True)]), ("*", True, ("*", "*a"), 5, []),
    ("a", False, ("a",), 5, []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "prefixed", "names", "names_max", "expected"), NARROWED)
def test_few_names_become_literals_and_many_a_prefix(
    name: str, prefixed: bool, names: tuple[str, ...], names_max: int, expected: list[Pattern]
) -> None:
    wide = topic_read(name, prefixed=prefixed)
    listed = names[: max(names_max, 1)]
    usage = AclUsage(Count(events=9, tuples=1), Count(), 1, len(names), listed, names[-1])
    found = suggest(acl_set_of([wide]), [wide], {wide: usage}, names_max=names_max)
    narrower = tuple(topic_read(*item[:1], prefixed=item[1]) for item in expected)
    if narrower and narrower[0].resource_name.endswith(" "):
        reason = "kafka-acls removes blanks at the ends of names"
        assert found == Suggestions({}, {wide: reason})
    else:
        assert found == Suggestions({wide: narrower} if narrower else {}, {})


def test_last_acl_stays_with_allow_everyone() -> None:
    question = Question("User:b", "h", Operation.READ, ResourceType.TOPIC, "other")
    events = [Recorded(question, True, 1)]
    secret = topic_read("secret")
    alone = suggested(acl_set_of([secret], allow_everyone=True), events, names_max=5)
    assert (alone.replaced, list(alone.left_out)) == ({}, [secret])
    deny = msgspec.structs.replace(topic_read("se", prefixed=True), permission_type=2)
    for others in (acl_set_of([secret, deny], allow_everyone=True), acl_set_of([secret])):
        assert suggested(others, events, names_max=5) == Suggestions({secret: ()}, {})


@given(acl_sets(), recorded_events(), st.text("ab-*!", max_size=5))
def test_no_name_loses_its_last_acl_with_allow_everyone(
    acl_set: AclSet, events: list[Recorded], name: str
) -> None:
    acl_set = msgspec.structs.replace(acl_set, allow_everyone_if_no_acl_found=True)
    acls = [item.acl for item in acl_set.acls]
    resulting = suggested(acl_set, events, names_max=2).apply(acls)
    for resource_type in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER):
        question = Question("User:nobody", None, Operation.READ, resource_type, name)
        before = any(meets(acl, question) for acl in acls)
        assert any(meets(acl, question) for acl in resulting) == before
