"""Run long work in short steps, and let every other task run between them."""

from __future__ import annotations

from typing import TypeVar

import trio

from authorizerd.acl.steps import Steps

T = TypeVar("T")


async def finish_in_turns(steps: Steps[T]) -> T:
    """Run a generator to its end, with a checkpoint after each yield. Return its value."""
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result
        await trio.lowlevel.checkpoint()
