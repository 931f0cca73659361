from __future__ import annotations

import re

import msgspec
import pytest

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.judging.asking import Unasked
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.evaluation import (
    Age,
    Window,
    age_of,
    check_ages,
    check_agreement,
    window_of,
)
from authorizerd.replay.usage.uses import Counted, Summed, Use
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.usage.recording import DAY_MS, ingested
from tests.oracles.usage import Recorded

QUESTION = Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "t")
EVENTS = [
    Recorded(QUESTION, allowed, day * DAY_MS) for allowed, day in ((False, 1), (True, 5), (True, 9))
]


@pytest.mark.parametrize(("lookback_days", "begins_day"), [(None, 1), (0.5, 8.5), (8, 1), (100, 1)])
def test_window_is_the_whole_log_or_its_last_days(
    lookback_days: float | None, begins_day: float
) -> None:
    window = window_of(ingested(EVENTS), lookback_days)
    assert window == Window(int(begins_day * DAY_MS), 9 * DAY_MS)


def test_log_with_denials_only_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"all 1 recorded events are denials.*=DEBUG.*log4j2"):
        window_of(ingested(EVENTS[:1]), None)
    with pytest.raises(UsageError, match="there are no events"):
        window_of(ingested([]), None)


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
    """Super users' requests, and those that no ACL can decide, are no evidence."""
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
    with pytest.raises(UsageError, match=f"^{reason}.* 5% .*--super-users.*--as-of$"):
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
