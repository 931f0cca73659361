from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.daemon.process import threads
from authorizerd.daemon.process.threads import run_in_thread


class Held:
    """Something that a frame of the function holds."""


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_result_or_error_is_that_of_the_function() -> None:
    assert await run_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 7, 0)


async def test_error_leaves_no_cycle() -> None:
    """Without a collection, what the function held is gone with the error."""
    held: list[weakref.ref[Held]] = []

    def fail() -> None:
        local = Held()
        held.append(weakref.ref(local))
        raise ValueError("expected")

    async def call() -> None:
        with pytest.raises(ValueError, match="expected"):
            await run_in_thread(fail)

    await call()
    await trio.testing.wait_all_tasks_blocked()
    assert held[0]() is None


def test_daemon_starts_threads_here_alone() -> None:
    daemon = Path(threads.__file__).parents[1]
    users = {path.name for path in daemon.rglob("*.py") if "to_thread" in path.read_text("utf-8")}
    assert users == {"threads.py"}
