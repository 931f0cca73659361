"""Which ACLs the recorded events use, and which of them may be judged."""

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.acl.releases import Release
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.asking import Unasked
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.usage.evaluation import (
    Age,
    Window,
    age_of,
    check_ages,
    check_agreement,
    window_of,
)
from authorizerd.replay.usage.uses import (
    Counted,
    Summed,
    Use,
    sum_uses,
)
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.recording import (
    DAY_MS,
    acl_sets,
    ingested,
    recorded_events,
    tuples_of,
    usage_of,
)
from tests.oracles.scan import decide
from tests.oracles.usage import Recorded

READ_T = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")


def use_of(acl_set: AclSet, events: list[Recorded], names_max: int = 9) -> Summed:
    return sum_uses(LocalRows(tuples_of(events)), AclIndex.of(acl_set), names_max)


@given(acl_sets(unknown_codes=True), recorded_events(), st.integers(0, 3))
@example(
    acl_set_of([topic_read("t"), topic_read("*"), topic_read("u")]),
    [Recorded(READ_T, True, 1), Recorded(READ_T, True, 5), Recorded(READ_T, False, 9)],
    2,
)
def test_use_is_that_of_a_scan(acl_set: AclSet, events: list[Recorded], names_max: int) -> None:
    summed = use_of(acl_set, events, names_max)
    assert summed.usage == usage_of(acl_set, events, names_max)
    acls = [item.acl for item in acl_set.acls]
    allow_everyone = acl_set.settings.allow_everyone_if_no_acl_found
    by_super_users, disagreeing = 0, 0
    for event in events:
        if event.question.principal in acl_set.settings.super_users:
            by_super_users += 1
        else:
            disagreeing += decide(acls, allow_everyone, event.question)[0] != event.allowed
    allowed = sum(event.allowed for event in events)
    assert [summed.count_of(each).events for each in Counted] == [
        *(len(events), allowed, len(events) - allowed, by_super_users, disagreeing)
    ]
    assert summed.count_of(Counted.ALL).tuples == len({event.question for event in events})


def test_range_is_used_if_any_release_matches_it() -> None:
    """So its removal is not suggested. One release that contradicts the record proves nothing."""
    by_range = msgspec.structs.replace(topic_read("t"), host="10.0.0.0/8")
    events = [Recorded(READ_T, True, 1)]
    summed = use_of(acl_set_of([by_range]), events)
    assert summed.usage[by_range].alone == Count(events=1, tuples=1)
    assert summed.count_of(Counted.DISAGREEING) == Count()
    old = msgspec.structs.replace(acl_set_of([by_range]), releases=(Release.KAFKA_4_3,))
    assert use_of(old, events).usage == {}
    assert use_of(old, events).count_of(Counted.DISAGREEING) == Count(events=1, tuples=1)


EVENTS = [
    Recorded(READ_T, allowed, day * DAY_MS) for allowed, day in ((False, 1), (True, 5), (True, 9))
]


@pytest.mark.parametrize(("lookback_days", "begins_day"), [(None, 1), (0.5, 8.5), (8, 1), (100, 1)])
def test_window_is_all_or_the_last_days(lookback_days: float | None, begins_day: float) -> None:
    window = window_of(ingested(EVENTS), lookback_days)
    assert window == Window(int(begins_day * DAY_MS), 9 * DAY_MS)
    with pytest.raises(UsageError, match=r"all 1 recorded events are denials.*=DEBUG.*log4j2"):
        window_of(ingested(EVENTS[:1]), lookback_days)
    with pytest.raises(UsageError, match="there are no events"):
        window_of(ingested([]), lookback_days)


@pytest.mark.parametrize(("added_ms", "age", "age_if_assumed"), [
    (9, Age.IN_FORCE, Age.IN_FORCE),
    (10, Age.ADDED_WITHIN, Age.ADDED_WITHIN),
    (99, Age.ADDED_WITHIN, Age.ADDED_WITHIN),
    (None, Age.UNKNOWN, Age.IN_FORCE),
])  # fmt: skip
def test_only_acls_older_than_the_window_are_judged(
    added_ms: int | None, age: Age, age_if_assumed: Age
) -> None:
    dated, window = DatedAcl(topic_read("t"), added_ms), Window(10, 20)
    assert age_of(dated, window, assume_in_force=False) is age
    assert age_of(dated, window, assume_in_force=True) is age_if_assumed


@pytest.mark.parametrize("differing", [0, 1, 2, 20])
def test_record_that_the_acls_contradict_is_rejected(differing: int) -> None:
    """Super users' requests, and those that no ACL can decide, prove nothing."""
    counts = {
        Counted.ALL: 40, Counted.BY_SUPER_USERS: 10, Unasked.EVERYONE: 10,
        Counted.DISAGREEING: differing,
    }  # fmt: skip
    others: dict[str | None, Use] = {
        label.value: Use(-1, label.value, False, events, 1, 0, 0)
        for label, events in counts.items()
    }
    summed = Summed({}, others)
    if differing <= 1:
        check_agreement(summed)
        return
    reason = f"no ACL can be called unused: the ACLs decide {differing} of 20 events"
    with pytest.raises(UsageError, match=f"^{reason}.* 5%, .*--super-users.*--as-of$"):
        check_agreement(summed)


def test_source_without_dates_is_rejected() -> None:
    undated = acl_set_of([topic_read("a"), topic_read("b")], added_ms=None)
    reason = re.escape("test does not say when its ACLs were added")
    with pytest.raises(UsageError, match=f"^{reason}.*--assume-in-force"):
        check_ages(undated, assume_in_force=False)
    check_ages(undated, assume_in_force=True)
    dated = (*undated.acls, DatedAcl(topic_read("c"), 1))
    check_ages(msgspec.structs.replace(undated, acls=dated), assume_in_force=False)
    check_ages(acl_set_of([]), assume_in_force=False)
