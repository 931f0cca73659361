"""Load shedding: only work that a pipelined request has waited for counts."""

from __future__ import annotations

import pytest
import trio

from authorizerd.daemon.net.turns import Admission, Turns

TURN_MS_MAX = 50
LIMIT_NS = TURN_MS_MAX * 1_000_000


@pytest.fixture
def waited_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The work that the queue reports after each wait."""
    waited = [0]

    async def wait(_: Turns, slice_ns: int = 0) -> int:
        await trio.lowlevel.checkpoint()
        return waited[0]

    monkeypatch.setattr(Turns, "wait", wait)
    return waited


async def test_request_is_refused_once_it_has_waited_longer_than_the_limit(
    waited_ns: list[int],
) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    for waited, is_refused in ((LIMIT_NS, False), (LIMIT_NS + 1, True), (0, False)):
        waited_ns[0] = waited
        await admission.wait()
        assert admission.admits() is not is_refused
        assert admission.is_deferred is is_refused
        admission.is_deferred = False


async def test_one_wait_refuses_one_request(waited_ns: list[int]) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    waited_ns[0] = LIMIT_NS + 1
    await admission.wait()
    assert [admission.admits() for _ in range(2)] == [False, True]


@pytest.mark.parametrize("has_answered", [True, False])
async def test_request_behind_no_unanswered_one_is_admitted(
    waited_ns: list[int], has_answered: bool
) -> None:
    turns = Turns()
    admission = Admission(turns, TURN_MS_MAX)
    waited_ns[0] = LIMIT_NS + 1
    if has_answered:
        await admission.wait()
        admission.leave(has_backlog=True)
    else:
        assert turns.begin_slice()  # another connection's, so this one waits
        await admission.enter()
    assert admission.admits()


async def test_connection_begins_one_slice_without_waiting(waited_ns: list[int]) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    assert admission.share(1) == 1
    assert [admission.begin_slice() for _ in range(2)] == [True, False]
    assert admission.share(1) > 1
