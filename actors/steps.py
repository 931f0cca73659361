"""Run long work in short steps, and let every other task run between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from authorizerd.acl.steps import Steps

T = TypeVar("T")


def _nothing() -> None:
    """Do nothing between steps: the default of ``finish_in_turns``."""


async def finish_in_turns(steps: Steps[T], between: Callable[[], None] = _nothing) -> T:
    """Run a generator to its end, with ``between`` and a checkpoint after each yield.

    Return its value.
    """
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            result: T = finished.value
            return result
        between()
        await trio.lowlevel.checkpoint()
