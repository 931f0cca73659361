from __future__ import annotations

import trio
from trio.testing import MockClock

from authorizerd.daemon.sources.writes.delivery import REASONS_MAX, REPEAT_SECONDS, Reported


async def test_a_reason_is_due_once_a_minute(autojump_clock: MockClock) -> None:
    reported = Reported()
    assert [reported.is_due(each) for each in ("a", "a", "b", "a")] == [True, False, True, False]
    await trio.sleep(REPEAT_SECONDS - 0.1)
    assert not reported.is_due("a")
    await trio.sleep(0.1)
    assert [reported.is_due("a"), reported.is_due("a")] == [True, False]


async def test_reasons_are_bounded(autojump_clock: MockClock) -> None:
    """Further reasons are not logged, rather than all of them again."""
    reported = Reported()
    assert sum(reported.is_due(str(number)) for number in range(3 * REASONS_MAX)) == REASONS_MAX
    await trio.sleep(REPEAT_SECONDS)
    assert [reported.is_due("new"), reported.is_due("0")] == [True, True]
