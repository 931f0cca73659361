from __future__ import annotations

import trio
import trio.testing

from authorizerd.daemon.console.sessions import (
    FAILED_AT_ONCE_MAX,
    FAILED_SECONDS,
    IDLE_SECONDS,
    SECONDS_MAX,
    SESSIONS_MAX,
    SESSIONS_PER_TOKEN_MAX,
    LogInLimit,
    Sessions,
)


async def test_session_is_found_by_its_secret_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sessions = Sessions(trio.current_time)
    one, other = sessions.open(b"a.token"), sessions.open(b"b.token")
    assert (sessions.find(one), sessions.find(other)) == (b"a.token", b"b.token")
    assert len({one, other, sessions.open(b"a.token")}) == 3
    for wrong in ("", one[:-1], one + "A", "ä", "a.token"):
        assert sessions.find(wrong) is None
        sessions.close(wrong)
    sessions.close(one)
    assert (sessions.find(one), sessions.find(other)) == (None, b"b.token")


async def test_idle_session_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sessions = Sessions(trio.current_time)
    used, idle = sessions.open(b"a"), sessions.open(b"b")
    await trio.sleep(IDLE_SECONDS - 1)
    assert sessions.find(used) == b"a"
    await trio.sleep(1)
    assert (sessions.find(used), sessions.find(idle)) == (b"a", None)


async def test_used_session_ends_after_its_longest_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sessions = Sessions(trio.current_time)
    secret, begun = sessions.open(b"a"), trio.current_time()
    while trio.current_time() < begun + SECONDS_MAX:
        assert sessions.find(secret) == b"a"
        await trio.sleep(IDLE_SECONDS / 2)
    assert sessions.find(secret) is None


async def test_new_session_ends_the_least_used_of_its_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sessions = Sessions(trio.current_time)
    other = sessions.open(b"other")
    secrets = [sessions.open(b"a") for _ in range(SESSIONS_PER_TOKEN_MAX)]
    assert sessions.find(secrets[0]) == b"a"
    sessions.open(b"a")
    assert [sessions.find(each) for each in secrets[:3]] == [b"a", None, b"a"]
    assert sessions.find(other) == b"other"


async def test_number_of_sessions_is_bounded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sessions = Sessions(trio.current_time)
    secrets = [sessions.open(b"%d" % number) for number in range(SESSIONS_MAX + 1)]
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(secrets[0]) is None
    assert sessions.find(secrets[1]) == b"1"
    await trio.sleep(IDLE_SECONDS)
    sessions.open(b"a")
    assert len(sessions) == 1


async def test_failed_log_ins_wait_and_limit_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    limit = LogInLimit()
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(FAILED_AT_ONCE_MAX):
            assert not limit.is_reached
            nursery.start_soon(limit.delay)
            await trio.testing.wait_all_tasks_blocked()
        assert limit.is_reached
    assert trio.current_time() == begun + FAILED_SECONDS
    assert not limit.is_reached
