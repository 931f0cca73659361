"""What is judged, over which time, and when nothing is claimed at all."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.replay.acl_set import DatedAcl
from authorizerd.replay.text import format_time, parse_time
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.window import Age, Window, age_of, check_ages, window_of
from tests.ops.replay.usage.recording import DAY_MS, ingested
from tests.ops.replay.usage.strategies import acl_set_of, topic_read
from tests.oracles.usage import Recorded

QUESTION = Question("User:a", "h", Operation.READ, ResourceType.TOPIC, "t")
EVENTS = [
    Recorded(QUESTION, allowed, day * DAY_MS) for allowed, day in ((False, 1), (True, 5), (True, 9))
]


@pytest.mark.parametrize(("lookback_days", "begins_day"), [(None, 1), (0.5, 8.5), (8, 1), (100, 1)])
def test_the_window_is_all_of_the_log_or_its_last_days(
    lookback_days: float | None, begins_day: float
) -> None:
    """It never reaches back past the first event, since nothing is known of what was before."""
    window = window_of(ingested(EVENTS), lookback_days)
    assert window == Window(int(begins_day * DAY_MS), 9 * DAY_MS)


def test_a_log_of_denials_claims_nothing_and_says_how_to_log_what_is_allowed() -> None:
    """Kafka's default log is such a one."""
    with pytest.raises(UsageError, match=r"all 1 recorded events are denials.*=DEBUG.*log4j2"):
        window_of(ingested(EVENTS[:1]), None)
    with pytest.raises(UsageError, match="there are no events"):
        window_of(ingested([]), None)


@pytest.mark.parametrize(
    ("added_ms", "assume_in_force", "age"),
    [
        (9, False, Age.IN_FORCE),
        (10, False, Age.ADDED_WITHIN),
        (10, True, Age.ADDED_WITHIN),
        (99, False, Age.ADDED_WITHIN),
        (None, False, Age.UNKNOWN),
        (None, True, Age.IN_FORCE),
    ],
)
def test_only_what_was_there_before_the_window_is_judged(
    added_ms: int | None, assume_in_force: bool, age: Age
) -> None:
    """What is known to be young stays young, whatever is assumed of the rest."""
    dated = DatedAcl(topic_read("t"), added_ms)
    assert age_of(dated, Window(10, 20), assume_in_force=assume_in_force) is age


def test_a_source_without_dates_claims_nothing_unless_told_to() -> None:
    """One date is enough: then the rest is listed as of unknown age."""
    undated = acl_set_of([topic_read("a"), topic_read("b")], added_ms=None)
    reason = re.escape("test does not say when its ACLs were added")
    with pytest.raises(UsageError, match=f"^{reason}.*--assume-in-force"):
        check_ages(undated, assume_in_force=False)
    check_ages(undated, assume_in_force=True)
    dated = (*undated.acls, DatedAcl(topic_read("c"), 1))
    check_ages(msgspec.structs.replace(undated, acls=dated), assume_in_force=False)
    check_ages(acl_set_of([]), assume_in_force=False)


@given(st.integers(-(10**13), 10**14))
def test_times_are_read_back_to_the_millisecond(ms: int) -> None:
    """As ISO 8601 in UTC; one without a zone is taken for UTC."""
    assert parse_time(format_time(ms)) == ms
    assert parse_time(format_time(ms).removesuffix("Z")) == ms


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    """A log may hold any int64 as a stamp."""
    assert format_time(2**63 - 1) == "9223372036854775807 ms"
