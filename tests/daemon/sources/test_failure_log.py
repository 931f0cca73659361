"""Which failures of the contact are logged."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from authorizerd.daemon.sources.failure_log import KINDS_MAX, LOGGED_AGAIN_SECONDS, FailureLog


async def test_each_kind_is_due_once_until_the_contact_is_good(autojump_clock: MockClock) -> None:
    """A contact that comes and goes counts only a while after the last line."""
    failures = FailureLog()
    assert [failures.is_due(each) for each in ("a", "a", "b", "a")] == [True, False, True, False]
    await trio.sleep(LOGGED_AGAIN_SECONDS - 1)
    failures.note_contact()
    assert not failures.is_due("a")
    await trio.sleep(1)
    assert not failures.is_due("a")
    failures.note_contact()
    assert [failures.is_due("a"), failures.is_due("a")] == [True, False]


async def test_kinds_are_bounded() -> None:
    """Servers choose their texts."""
    failures = FailureLog()
    assert sum(failures.is_due(str(number)) for number in range(3 * KINDS_MAX)) == KINDS_MAX


async def test_failure_of_a_change_is_due_again_after_a_minute(autojump_clock: MockClock) -> None:
    """No contact is noted in between."""
    failures = FailureLog()
    assert [failures.is_due_again(each) for each in ("a", "a", "b")] == [True, False, True]
    await trio.sleep(LOGGED_AGAIN_SECONDS - 0.1)
    assert not failures.is_due_again("a")
    await trio.sleep(0.1)
    assert [failures.is_due_again("a"), failures.is_due_again("a")] == [True, False]
