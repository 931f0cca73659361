from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from actors.listener_gate import ListenerGate
from actors.published import Published


def new_gate(snapshot: Published[AclSnapshot | None]) -> ListenerGate:
    return ListenerGate(("EARLY", "LATE"), early=("EARLY",), snapshot=snapshot)


async def test_only_early_endpoints_are_open_before_loading(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """However long loading takes, what waits for it stays closed."""
    gate = new_gate(Published(None))
    await nursery.start(gate.run)
    assert gate.is_open("EARLY")
    assert not gate.is_open("LATE")
    with trio.fail_after(1):
        await gate.wait_until_open("EARLY")
    with pytest.raises(trio.TooSlowError), trio.fail_after(3600):
        await gate.wait_until_open("LATE")
    nursery.cancel_scope.cancel()


async def test_the_others_open_when_the_acls_are_loaded(nursery: trio.Nursery) -> None:
    """Waiters are woken once, and whoever asks later does not wait."""
    snapshot: Published[AclSnapshot | None] = Published(None)
    gate = new_gate(snapshot)
    await nursery.start(gate.run)
    opened: list[str] = []

    async def wait() -> None:
        await gate.wait_until_open("LATE")
        opened.append("LATE")

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert opened == []
    snapshot.publish(EMPTY_SNAPSHOT)
    await wait_all_tasks_blocked()
    assert opened == ["LATE"]
    assert gate.is_open("LATE")
    with trio.fail_after(1):
        await gate.wait_until_open("LATE")


def test_an_early_endpoint_must_exist() -> None:
    """A name that is no endpoint is a fault of the caller."""
    with pytest.raises(AssertionError):
        ListenerGate(("LATE",), early=("EARLY",), snapshot=Published(None))
