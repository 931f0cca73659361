"""The choice among daemons, without a clock."""

from __future__ import annotations

import math

import pytest

from authorizerd_client.daemons import (
    ATTEMPT_SECONDS_MIN,
    RETURN_SECONDS,
    Daemon,
    Daemons,
    Outcome,
)
from authorizerd_client.errors import (
    ConnectionLostError,
    TimedOutError,
    new_answer_error,
)
from authorizerd_client.values import Decisions

NOT_READY = new_answer_error(801)
LOST = ConnectionLostError("broken")


def new_daemons(count: int, *, failover_seconds: float = 1.0) -> tuple[Daemons, list[Daemon]]:
    daemons = Daemons(
        [f"host:{port}" for port in range(1, count + 1)], None, failover_seconds, lambda: 0.5
    )
    return daemons, daemons._all


def test_failed_daemon_is_skipped_for_longer_each_time() -> None:
    daemons, (first, second) = new_daemons(2)
    delays = []
    for _ in range(10):
        daemons.set_aside(first, LOST, 1000)
        assert daemons.choose(1000) is second
        delays.append(first.backoff.next_attempt - 1000)
        first.backoff.next_attempt = 0  # try again at the same time
        second.backoff.fail(0)
        assert daemons.choose(1000) is first
    assert delays[0] <= 0.05
    assert 2 < delays[-1] <= 5
    daemons.record_connection(first, 2000)
    daemons.set_aside(first, NOT_READY, 2000)
    assert first.backoff.next_attempt - 2000 > 1  # only an answer ends the back-off


def test_daemon_that_has_not_failed_comes_first() -> None:
    daemons, (first, second, third) = new_daemons(3)
    daemons.set_aside(first, LOST, 1000)
    daemons.set_aside(second, LOST, 1001)
    assert daemons.choose(2000) is third
    daemons.set_aside(third, LOST, 1002)
    assert [daemons.choose(1000), daemons.choose(2000)] == [None, first]


def test_only_daemon_is_never_set_aside() -> None:
    daemons, (only,) = new_daemons(1)
    daemons.set_aside(only, LOST, 1000)
    assert daemons.choose(1000) is only
    assert daemons.explain() == "not connected: broken"
    assert math.isinf(daemons.limit_attempt(only, 1000, 5))


@pytest.mark.parametrize(
    ("outcome", "with_others", "alone"),
    [
        (LOST, True, True),
        (TimedOutError("silent"), True, False),
        (NOT_READY, True, False),
        (Decisions(-1, b"\1\3"), True, False),
        (Decisions(-1, b""), True, False),
        (Decisions(5, b""), False, False),
        (Decisions(5, b"\0\1\2"), False, False),
        *((new_answer_error(code), False, False) for code in (7, 31, 42, 58, 89, -7)),
    ],
)
def test_question_is_repeated_only_if_that_can_help(
    outcome: Outcome, with_others: bool, alone: bool
) -> None:
    several, (first, second) = new_daemons(2)
    single, (only,) = new_daemons(1)
    assert several.should_repeat(first, outcome, 1000) is with_others
    assert single.should_repeat(only, outcome, 1000) is alone
    several.set_aside(second, LOST, 1000)
    is_about_first = not isinstance(outcome, ConnectionLostError | TimedOutError)
    assert several.should_repeat(first, outcome, 1000) is (with_others and not is_about_first)


@pytest.mark.parametrize(
    ("remaining", "limit"), [(60, 1), (3, 1), (0.9, 0.3), (0.03, ATTEMPT_SECONDS_MIN)]
)
def test_attempt_leaves_time_for_the_other_daemons(remaining: float, limit: float) -> None:
    daemons, (first, second, third) = new_daemons(3)
    assert daemons.limit_attempt(first, 1000, remaining) == pytest.approx(limit)
    assert math.isinf(daemons.limit_attempt(first, 1000, remaining, is_last=True))
    daemons.set_aside(second, LOST, 1000)
    daemons.set_aside(third, LOST, 1000)
    assert math.isinf(daemons.limit_attempt(first, 1000, remaining))


def test_client_returns_to_the_first_daemon_that_is_not_set_aside() -> None:
    daemons, (first, second, third) = new_daemons(3)
    daemons.record_connection(third, 1000)
    due = 1000 + RETURN_SECONDS * 1.5
    assert daemons.choose_return(first, due) is None
    assert daemons.choose_return(third, due - 0.1) is None
    assert daemons.choose_return(third, due) is first
    assert daemons.choose_return(third, due) is None  # another task has just tried
    daemons.set_aside(first, LOST, 1200)
    assert daemons.choose_return(second, 1200) is None
    daemons.set_aside(first, LOST, 1300)
    assert daemons.choose_return(third, 1300) is second


def test_error_names_the_reason_of_each_address() -> None:
    daemons, (first, _) = new_daemons(2)
    daemons.set_aside(first, NOT_READY, 1000)
    assert daemons.explain() == (
        "not connected: host:1: the ACLs are not loaded; host:2: no attempt to connect was made"
    )
