import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.listener_gate import ListenerGate


def new_gate() -> tuple[ListenerGate, Completion[None]]:
    """Return a gate with a started endpoint, one not started yet, and a free one."""
    late = Completion[None]()
    gate = ListenerGate({"EARLY": Completion.of(None), "LATE": late}, free=("FREE",))
    return gate, late


@pytest.mark.usefixtures("autojump_clock")
async def test_only_started_endpoints_are_open(nursery: trio.Nursery) -> None:
    """An endpoint stays closed until it is started, however long that takes."""
    gate, _ = new_gate()
    assert gate.is_open("FREE")
    assert not gate.is_open("EARLY")
    await nursery.start(gate.run)
    with trio.fail_after(1):
        await gate.wait_until_open("EARLY")
    assert not gate.is_open("LATE")
    assert not gate.is_all_open
    with pytest.raises(trio.TooSlowError), trio.fail_after(3600):
        await gate.wait_until_open("LATE")
    with pytest.raises(trio.TooSlowError), trio.fail_after(3600):
        await gate.wait_until_all_open()


async def test_an_endpoint_opens_when_it_is_started(nursery: trio.Nursery) -> None:
    gate, late = new_gate()
    await nursery.start(gate.run)
    opened: list[str] = []

    async def wait() -> None:
        await gate.wait_until_open("LATE")
        opened.append("LATE")

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert opened == []
    late.succeed(None)
    await wait_all_tasks_blocked()
    assert opened == ["LATE"]
    assert gate.is_open("LATE")
    assert gate.is_all_open
    with trio.fail_after(1):
        await gate.wait_until_all_open()


async def test_an_endpoint_that_cannot_be_started_never_opens() -> None:
    """The error names it, and ends the daemon."""
    gate, late = new_gate()
    late.fail(OSError("no ACLs"))
    with pytest.RaisesGroup(
        pytest.RaisesExc(EndpointStartError, match="^LATE cannot be .* no ACLs$")
    ):
        await gate.run()
    assert not gate.is_open("LATE")
