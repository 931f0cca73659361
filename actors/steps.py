"""Long work in short steps, with a turn for every other task between them."""

from __future__ import annotations

from typing import TypeVar

import trio

from authorizerd.acl.steps import Steps

T = TypeVar("T")


async def finish_in_turns(steps: Steps[T]) -> T:
    """Run a generator to its end with a checkpoint after each yield; return its value."""
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result
        await trio.lowlevel.checkpoint()
