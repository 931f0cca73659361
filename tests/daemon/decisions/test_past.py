"""The state of an earlier moment: exact, bounded, and kept for a short time only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import AclAdded
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset, with_rules
from authorizerd.actors.decider import DecisionState
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import Published
from authorizerd.daemon.decisions import past as past_module
from authorizerd.daemon.decisions.fair_queue import SHARE_MAX, WAITING_MAX
from authorizerd.daemon.decisions.past import (
    CHECK_SECONDS,
    KEPT_SECONDS,
    STATES_KEPT_MAX,
    Past,
)
from authorizerd.daemon.errors import PastRefusedError, PastUnavailableError
from authorizerd.daemon.thread_switching import Pace
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.history import read_changes_after
from authorizerd.metadata.past import PastLog
from tests.metadata.past_logs import snapshot_at
from tests.support.acls import acl, question
from tests.support.authorizers import Plug, read_only_authorizer
from tests.support.log_files import TIME_MS, added, data_batch, flipped, removed, write_log

HOUR_MS = 3_600_000


def replay(log_dir: Path, offset: int | None = None) -> AclSnapshot:
    """Return the state of a daemon that stopped at ``offset``, or at the end of the log."""
    snapshot = snapshot_at([], 0)
    for timed in PastLog(find_files(log_dir)).read(0):
        changes = timed.changes
        if offset is not None and changes.last_offset > offset:
            break
        snapshot = at_offset(apply_changes(snapshot, changes.changes), changes.last_offset)
    return snapshot


class Fixture:
    """A ``Past`` over a log whose end is its newest state."""

    def __init__(self, log_dir: Path, *, now_ms: Callable[[], int] | None = None) -> None:
        self.log_dir = log_dir
        self.snapshot: Published[AclSnapshot | None] = Published(replay(log_dir))
        self.decider = read_only_authorizer(self.snapshot)
        self.decider.configure({"super.users": "User:root"})
        self.past = Past(self.decider, log_dir, now_ms=now_ms or (lambda: TIME_MS + HOUR_MS))

    async def at(self, as_of: AsOf) -> AclSnapshot | None:
        async with self.past.state_at(as_of) as then:
            return then.state.snapshot


@pytest.fixture
def small(tmp_path: Path) -> Fixture:
    """Return the past of a log whose ACLs change at the offsets 2, 3 and 4."""
    write_log(tmp_path, [added(1)], [added(2)], [removed(1)])
    return Fixture(tmp_path)


async def test_state_has_the_acls_of_then_and_the_settings_of_now(small: Fixture) -> None:
    for offset in range(5):
        async with small.past.state_at(AsOf(offset=offset)) as then:
            assert then.state.snapshot == replay(small.log_dir, offset)
            assert then.state.settings.super_users == {"User:root"}
            assert then.moment.offset == offset
            assert then.now == small.decider.current_state()


async def test_past_is_not_told_while_no_decision_may_be_made(
    small: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, while the audit is required and cannot be written."""

    def refuse(_state: DecisionState) -> AclSnapshot:
        raise NotReadyError("the audit log cannot be written")

    monkeypatch.setattr(small.decider, "check_ready", refuse)
    with pytest.raises(NotReadyError, match="the audit log cannot be written"):
        await small.at(AsOf(offset=4))


async def test_real_log_at_any_offset_equals_a_daemon_stopped_there(real_log_dir: Path) -> None:
    fixture = Fixture(real_log_dir, now_ms=lambda: 2**62)
    for offset in range(0, 2957, 173):
        assert await fixture.at(AsOf(offset=offset)) == replay(real_log_dir, offset)


async def test_time_names_the_last_batch_until_then(tmp_path: Path) -> None:
    path = write_log(tmp_path, [added(1)])
    later = data_batch(3, [added(2)], time_ms=TIME_MS + 9)
    path.write_bytes(path.read_bytes() + later)
    fixture = Fixture(tmp_path, now_ms=lambda: TIME_MS + 9)
    assert (await fixture.at(AsOf(time_ms=TIME_MS + 8))) == replay(tmp_path, 2)
    assert (await fixture.at(AsOf(time_ms=TIME_MS + 9))) == replay(tmp_path, 3)
    with pytest.raises(PastRefusedError, match="in the future"):
        await fixture.at(AsOf(time_ms=TIME_MS + 10))
    with pytest.raises(PastRefusedError, match="is too old: the log reaches back to offset 0 "):
        await fixture.at(AsOf(time_ms=TIME_MS - 1))


async def test_moments_out_of_range_are_refused(small: Fixture) -> None:
    with pytest.raises(PastRefusedError, match="offset 5 is in the future: the newest one is 4"):
        await small.at(AsOf(offset=5))


async def test_log_may_be_ahead_of_the_decisions(small: Fixture) -> None:
    """Records that are written but not applied do not belong to the past."""
    small.snapshot.publish(replay(small.log_dir, 3))
    assert await small.at(AsOf(offset=2)) == replay(small.log_dir, 2)
    answers = await small.past.read_answers(AsOf(offset=2), question(topic="topic-1"))
    assert (answers.begin.offset, answers.allowed, answers.changes) == (2, True, ())
    with pytest.raises(PastRefusedError, match="the newest one is 3"):
        await small.at(AsOf(offset=4))
    with pytest.raises(PastRefusedError, match="the newest one is 3"):
        await small.past.read_answers(AsOf(offset=4), question(topic="topic-1"))


async def test_log_that_lags_is_not_used(small: Fixture) -> None:
    """A copy whose disk is full lacks the newest records."""
    small.snapshot.publish(at_offset(replay(small.log_dir), 9))
    with pytest.raises(PastUnavailableError, match="end at offset 4, before the newest state"):
        await small.at(AsOf(offset=2))
    with pytest.raises(PastUnavailableError, match="end at offset 4, before the newest state"):
        await small.past.read_answers(AsOf(offset=2), question(topic="topic-1"))


async def test_time_is_not_looked_up_in_a_log_that_lags(small: Fixture) -> None:
    """A batch that the files lack may be the last one until then; a kept state hides that."""
    assert await small.at(AsOf(time_ms=TIME_MS)) == replay(small.log_dir)
    small.snapshot.publish(at_offset(replay(small.log_dir), 9))
    with pytest.raises(PastUnavailableError, match="end at offset 4, before the newest state"):
        await small.at(AsOf(time_ms=TIME_MS))


async def test_log_of_another_state_is_not_used(
    small: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer from it would be wrong."""
    other = apply_changes(replay(small.log_dir), [AclAdded(b"x" * 16, acl(topic="topic-1"))])
    small.snapshot.publish(other)
    with pytest.raises(PastUnavailableError, match="the daemon's log says why"):
        await small.at(AsOf(offset=2))
    assert "cannot be undone" in caplog.text


async def test_damage_is_logged_and_its_place_is_not_told(
    small: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    path = find_files(small.log_dir).segments[0].path
    data = path.read_bytes()
    path.write_bytes(flipped(data, data.index(data_batch(3, [added(2)])) + 70))
    with pytest.raises(PastUnavailableError, match="the log is damaged, and no part of it can"):
        await small.at(AsOf(offset=2))
    assert str(path) in caplog.text


async def test_missing_log_is_unavailable(small: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    for segment in find_files(small.log_dir).segments:
        segment.path.unlink()
    with pytest.raises(PastUnavailableError):
        await small.at(AsOf(offset=2))
    assert "the past cannot be read" in caplog.text


async def test_before_the_acls_are_loaded_nothing_is_answered(small: Fixture) -> None:
    small.snapshot.publish(None)
    with pytest.raises(NotReadyError, match="not loaded yet"):
        await small.at(AsOf(offset=2))


async def test_plugged_authorizer_has_no_past(small: Fixture) -> None:
    """It may decide by other things than the log's ACLs."""
    plugged = PluggedAuthorizer(
        Plug(), name="Plug", snapshot=small.snapshot, on_failure=lambda _: None
    )
    past = Past(plugged, small.log_dir)
    with pytest.raises(PastRefusedError, match=r"^as_of: authorizer.class.name"):
        async with past.state_at(AsOf(offset=2)):
            pass


async def test_changes_are_limited(small: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "CHANGES_MAX", 1)
    assert await small.at(AsOf(offset=3)) == replay(small.log_dir, 3)
    with pytest.raises(PastRefusedError, match="more than 1 ACLs have changed since"):
        await small.at(AsOf(offset=2))


class BlockedReads:
    """Block each read of the past until ``release`` is called, and count the reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._event = trio.Event()
        read = read_changes_after

        def blocked(*words: object, **limits: object) -> object:
            self.count += 1
            trio.from_thread.run(self._event.wait)
            return read(*words, **limits)  # type: ignore[arg-type] # as the caller passes them

        monkeypatch.setattr(past_module, "read_changes_after", blocked)

    def release(self) -> None:
        self._event.set()


async def test_one_read_runs_at_a_time(
    small: Fixture, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """Requests for the same moment share one."""
    reads = BlockedReads(monkeypatch)
    for _ in range(3):
        nursery.start_soon(small.at, AsOf(offset=2))
    await wait_all_tasks_blocked(0.01)
    assert reads.count == 1
    reads.release()
    await small.at(AsOf(offset=2))
    assert reads.count == 1


async def test_waiting_requests_are_limited(
    small: Fixture, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    reads = BlockedReads(monkeypatch)
    for offset in (2, *[3] * WAITING_MAX):
        nursery.start_soon(small.at, AsOf(offset=offset))
    await wait_all_tasks_blocked(0.01)
    with pytest.raises(PastUnavailableError, match="too many requests ask for the past"):
        await small.at(AsOf(offset=4))
    reads.release()


async def test_one_caller_cannot_take_all_places(
    small: Fixture, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    reads = BlockedReads(monkeypatch)

    async def ask(offset: int, principal: str) -> None:
        async with small.past.state_at(AsOf(offset=offset), principal):
            pass

    for offset in (2, *[3] * (SHARE_MAX - 1)):
        nursery.start_soon(ask, offset, "User:greedy")
    await wait_all_tasks_blocked(0.01)
    with pytest.raises(PastUnavailableError, match="too many requests ask for the past"):
        await ask(4, "User:greedy")
    async with trio.open_nursery() as others:
        others.start_soon(ask, 4, "User:other")
        await wait_all_tasks_blocked(0.01)
        reads.release()


async def test_reading_thread_may_rest_at_each_batch(
    small: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without rests, the event loop would wait for it many times in each request."""
    rests: list[None] = []
    monkeypatch.setattr(Pace, "rest_if_due", lambda _: rests.append(None))
    await small.at(AsOf(offset=0))
    assert len(rests) >= 5


async def test_read_has_a_time_limit(small: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread ends too, so that the next request can read."""
    with monkeypatch.context() as patch:
        patch.setattr(past_module, "SECONDS_MAX", 0.01)
        BlockedReads(patch)
        with pytest.raises(PastUnavailableError, match="could not be read in"):
            await small.at(AsOf(offset=2))
    assert await small.at(AsOf(offset=2)) == replay(small.log_dir, 2)


async def test_states_are_kept_for_a_while(
    small: Fixture,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
) -> None:
    reads: list[int] = []

    def counted(log: PastLog, offset: int, **limits: int) -> object:
        reads.append(offset)
        return read_changes_after(log, offset, **limits)

    monkeypatch.setattr(past_module, "read_changes_after", counted)
    nursery.start_soon(small.past.run)
    for _ in range(2):
        await small.at(AsOf(offset=2))
    assert reads == [2]
    for _ in range(2):  # its offset is 4
        await small.at(AsOf(time_ms=TIME_MS))
    await small.at(AsOf(offset=4))
    assert reads == [2, 4]
    await wait_all_tasks_blocked()
    mock_clock.jump(KEPT_SECONDS)
    await wait_all_tasks_blocked()
    await small.at(AsOf(offset=2))
    assert reads == [2, 4, 2]
    async with small.past.state_at(AsOf(offset=2)) as then:
        mock_clock.jump(KEPT_SECONDS)
        await wait_all_tasks_blocked()
        assert then.state.snapshot == replay(small.log_dir, 2)


async def test_the_past_is_judged_by_the_rules_of_now(small: Fixture) -> None:
    """Also in a state that was made, and is kept, under other rules."""
    for rules in (RULES_4_3, RULES_4_4, ANY_RELEASE):
        newest = small.snapshot.newest
        assert newest is not None
        small.snapshot.publish(with_rules(newest, rules))
        then = await small.at(AsOf(offset=2))
        assert then is not None
        assert (then.offset, then.rules) == (2, rules)


async def test_state_is_dropped_once_the_log_has_grown(
    small: Fixture,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
) -> None:
    """It keeps the newest state of its time, which would take long to free later."""
    monkeypatch.setattr(past_module, "CHANGES_WHILE_KEPT_MAX", 10)
    nursery.start_soon(small.past.run)
    newest = small.snapshot.newest
    assert newest is not None
    await small.at(AsOf(offset=2))
    small.snapshot.publish(at_offset(newest, 15))
    await wait_all_tasks_blocked()
    mock_clock.jump(CHECK_SECONDS)
    await wait_all_tasks_blocked()
    with pytest.raises(PastUnavailableError, match="end at offset 4"):
        await small.at(AsOf(offset=2))


async def test_states_are_dropped_while_a_request_drops_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
) -> None:
    """An error there would end the daemon."""
    write_log(tmp_path, *([added(number)] for number in range(12)))
    fixture = Fixture(tmp_path)
    nursery.start_soon(fixture.past.run)
    for offset in range(2, 2 + STATES_KEPT_MAX):
        await fixture.at(AsOf(offset=offset))
    free, both_are_freed = past_module._Kept.free, trio.Event()
    dropped: list[int] = []

    async def free_both(kept: past_module._Kept) -> None:
        dropped.append(kept.moment.offset)
        if len(dropped) == 2:
            both_are_freed.set()
        await both_are_freed.wait()
        await free(kept)

    monkeypatch.setattr(past_module._Kept, "free", free_both)
    await wait_all_tasks_blocked()
    mock_clock.jump(KEPT_SECONDS)
    await wait_all_tasks_blocked()
    assert dropped == [2]
    for offset in (10, 11):  # the second is one too many, and drops the oldest
        await fixture.at(AsOf(offset=offset))
    await wait_all_tasks_blocked()
    assert dropped == [2, 3, 4, 5]
    await fixture.at(AsOf(offset=2))


async def test_few_states_are_kept_and_those_in_use_stay(tmp_path: Path) -> None:
    write_log(tmp_path, *([added(number)] for number in range(12)))
    fixture = Fixture(tmp_path)
    async with AsyncExitStack() as stack:
        held = [
            await stack.enter_async_context(fixture.past.state_at(AsOf(offset=offset)))
            for offset in range(2, 2 + 2 * STATES_KEPT_MAX)
        ]
        for offset, then in enumerate(held, 2):
            assert then.state.snapshot == replay(tmp_path, offset)


async def test_difference_is_the_change_since_which_the_answer_is_todays(small: Fixture) -> None:
    async with small.past.state_at(AsOf(offset=2)) as then:
        found = await then.find_difference(question(topic="topic-1"))
        assert found is not None
        assert (found.allowed, found.change.offset, found.change.is_added) == (False, 4, False)
        assert found.change.acl == added(1).acl
        granted = await then.find_difference(question(topic="topic-2"))
        assert granted is not None
        assert (granted.allowed, granted.change.offset) == (True, 3)
        assert await then.find_difference(question(topic="topic-3")) is None


async def test_difference_includes_what_came_after_a_kept_state(small: Fixture) -> None:
    small.snapshot.publish(replay(small.log_dir, 3))
    assert await small.at(AsOf(offset=2)) == replay(small.log_dir, 2)
    small.snapshot.publish(replay(small.log_dir))
    async with small.past.state_at(AsOf(offset=2)) as then:
        found = await then.find_difference(question(topic="topic-1"))
    assert found is not None
    assert (found.allowed, found.change.offset) == (False, 4)
