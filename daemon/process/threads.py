"""Run functions in threads, without reference cycles.

``trio.to_thread.run_sync`` leaves its function's error in a cycle: the error's traceback has frames
that refer to the error. A frozen object in a cycle is never freed (``daemon.process.gc_control``),
so each error would leak everything that its frames refer to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import outcome
import trio

T = TypeVar("T")


async def run_in_thread(
    function: Callable[..., T],
    *arguments: object,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Return the function's result, or raise its error, as ``trio.to_thread.run_sync`` does.

    Args:
        abandon_on_cancel: False to let a cancelled call still wait for the function.
        limiter: how many threads may run at once; None means trio's default limit.
    """
    captured: list[outcome.Outcome[T]] = []

    def run() -> None:
        captured.append(outcome.capture(function, *arguments))

    await trio.to_thread.run_sync(run, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
    # The error's traceback refers to this frame, so no local name may hold the outcome.
    return captured.pop().unwrap()
