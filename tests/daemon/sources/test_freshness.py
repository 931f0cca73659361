from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from authorizerd.actors.record_applier import STOPPED, Message, Resume, Suspend
from authorizerd.config.follow import SourceKind
from authorizerd.daemon.sources.freshness import STALE, Freshness
from authorizerd.daemon.sources.status import SourceStatus

STALE_SECONDS = 10


class Watched:
    """A Freshness with the messages that it has sent so far."""

    def __init__(self) -> None:
        sender, self._inbox = trio.open_memory_channel[Message](10)
        self.status = SourceStatus(SourceKind.QUORUM)
        self.freshness = Freshness(sender, self.status, stale_max_ms=STALE_SECONDS * 1000)

    @property
    def sent(self) -> list[Message]:
        return [
            self._inbox.receive_nowait()
            for _ in range(self._inbox.statistics().current_buffer_used)
        ]


@pytest.fixture
async def watched(nursery: trio.Nursery) -> Watched:
    watched = Watched()
    nursery.start_soon(watched.freshness.run)
    await wait_all_tasks_blocked()
    return watched


@pytest.mark.parametrize("has_contact", [False, True])
async def test_decisions_stop_when_the_last_contact_is_too_old(
    has_contact: bool, watched: Watched, autojump_clock: MockClock
) -> None:
    """Without any contact, the time counts from the start."""
    if has_contact:
        await trio.sleep(3)
        await watched.freshness.confirm(trio.current_time())
    await trio.sleep(STALE_SECONDS - 0.1)
    assert watched.sent == []
    await trio.sleep(0.2)
    assert watched.sent == [Suspend(STALE)]
    assert watched.status.is_stale


async def test_regular_contact_keeps_decisions(watched: Watched, autojump_clock: MockClock) -> None:
    for _ in range(20):
        await trio.sleep(STALE_SECONDS - 0.1)
        await watched.freshness.confirm(trio.current_time())
    assert watched.sent == []


async def test_decisions_resume_after_each_return_of_contact(
    watched: Watched, autojump_clock: MockClock
) -> None:
    for _ in range(3):
        await trio.sleep(STALE_SECONDS + 1)
        assert watched.sent == [Suspend(STALE)]
        await watched.freshness.confirm(trio.current_time())
        assert watched.sent == [Resume()]
        assert not watched.status.is_stale


async def test_age_of_an_answer_counts(watched: Watched, autojump_clock: MockClock) -> None:
    """An answer that is too old itself changes nothing."""
    await trio.sleep(STALE_SECONDS + 1)
    assert watched.sent == [Suspend(STALE)]
    assert not await watched.freshness.confirm(trio.current_time() - STALE_SECONDS)
    assert watched.sent == []
    assert watched.status.is_stale
    assert await watched.freshness.confirm(trio.current_time() - STALE_SECONDS + 2)
    assert watched.sent == [Resume()]
    await trio.sleep(1.9)
    assert watched.sent == []
    await trio.sleep(0.2)
    assert watched.sent == [Suspend(STALE)]


async def test_decisions_never_resume_after_a_fault(
    watched: Watched, autojump_clock: MockClock
) -> None:
    await watched.freshness.stop("the cluster was restored", 7)
    await trio.sleep(STALE_SECONDS + 1)
    await watched.freshness.confirm(trio.current_time())
    assert watched.sent == [Suspend(STOPPED)] * 2, "callers are not told that this is stale"
    await watched.freshness.stop("something else", 9)
    assert (watched.status.fault, watched.status.fault_offset) == ("the cluster was restored", 7)
