"""The status of a source: how fresh it is, which failures are logged, and its bounds."""

from types import SimpleNamespace
from typing import cast

import pytest
import trio

from authorizerd.actors.published_state import STOPPED
from authorizerd.actors.record_applier import Message, Renew, Suspend
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.sources.failure_log import KINDS_MAX, LOGGED_AGAIN_SECONDS, FailureLog
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.status import OTHER_REASON, REASONS_MAX, SourceStatus
from authorizerd.daemon.telemetry.metric_sources import Scrape
from authorizerd.daemon.telemetry.source_metrics import SOURCE_METRICS

pytestmark = pytest.mark.usefixtures("autojump_clock")

STALE_SECONDS = 10
LIMIT = "authorizerd_source_stale_max_seconds"
AGE = "authorizerd_source_contact_age_seconds"


class Watched:
    """A Freshness with the messages that it has sent so far, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        sender, self._inbox = trio.open_memory_channel[Message](10)
        self.status = SourceStatus(SourceKind.QUORUM, clock=lambda: self.now)
        self.freshness = Freshness(sender, self.status, stale_max_ms=STALE_SECONDS * 1000)

    @property
    def sent(self) -> list[Message]:
        return [
            self._inbox.receive_nowait()
            for _ in range(self._inbox.statistics().current_buffer_used)
        ]


@pytest.mark.parametrize("decides", [False, True])
async def test_time_counts_from_the_start_before_any_contact(decides: bool) -> None:
    watched = Watched()
    await watched.freshness.begin(decides=decides)
    assert watched.sent == ([Renew(110)] if decides else [])
    watched.now = 109.9
    assert not watched.status.is_stale
    watched.now = 110
    assert watched.status.is_stale
    assert watched.status.contact_age is None


async def test_metrics_tell_the_limit_and_the_age_that_an_alert_compares() -> None:
    watched = Watched()
    assert values_of(watched.status) == {LIMIT: STALE_SECONDS, AGE: -1}
    await watched.freshness.confirm(watched.now)
    watched.now += 4
    assert values_of(watched.status) == {LIMIT: STALE_SECONDS, AGE: 4}


def values_of(status: SourceStatus) -> dict[str, object]:
    scrape = cast(Scrape, SimpleNamespace(source=SimpleNamespace(status=status)))
    read = {each.name: each.read for each in SOURCE_METRICS}
    return {name: read[name](scrape) for name in (LIMIT, AGE)}


async def test_each_contact_moves_the_deadline() -> None:
    watched = Watched()
    await watched.freshness.begin(decides=True)
    assert watched.sent == [Renew(110)]
    for deadline in (115, 130, 131):
        watched.now = deadline - STALE_SECONDS
        assert await watched.freshness.confirm(watched.now)
        assert watched.sent == [Renew(deadline)]
        assert not watched.status.is_stale
        assert watched.status.contact_age == 0


async def test_age_of_an_answer_counts() -> None:
    """An answer that is too old itself changes nothing."""
    watched = Watched()
    watched.now = 200
    assert not await watched.freshness.confirm(200 - STALE_SECONDS)
    assert watched.sent == []
    assert await watched.freshness.confirm(200 - STALE_SECONDS + 2)
    assert watched.sent == [Renew(202)]
    assert watched.status.contact_age == STALE_SECONDS - 2


async def test_fault_stops_decisions_and_the_first_reason_stays() -> None:
    watched = Watched()
    await watched.freshness.stop("the cluster was restored", 7)
    await watched.freshness.stop("something else", 9)
    assert watched.sent == [Suspend(STOPPED)] * 2, "callers are not told the reason"
    assert (watched.status.fault, watched.status.fault_offset) == ("the cluster was restored", 7)


async def test_each_kind_is_due_once_until_the_contact_is_good() -> None:
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


async def test_failure_of_a_change_is_due_again_after_a_minute() -> None:
    """No contact is noted in between."""
    failures = FailureLog()
    assert [failures.is_due_again(each) for each in ("a", "a", "b")] == [True, False, True]
    await trio.sleep(LOGGED_AGAIN_SECONDS - 0.1)
    assert not failures.is_due_again("a")
    await trio.sleep(0.1)
    assert [failures.is_due_again("a"), failures.is_due_again("a")] == [True, False]


def test_reasons_of_errors_are_bounded() -> None:
    """Each is the label of a metric, and a server chooses its error code."""
    status = SourceStatus(SourceKind.QUORUM)
    for code in range(2 * REASONS_MAX):
        status.count_error(f"error {code}")
    status.count_error("error 1")
    assert len(status.errors) == REASONS_MAX + 1
    assert status.errors["error 1"] == 2
    assert status.errors.total() == 2 * REASONS_MAX + 1
    assert status.errors[OTHER_REASON] == REASONS_MAX + 1
