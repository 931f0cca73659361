"""Searches and explanations: work that takes much longer than a decision.

**Invariant:** one step of this work runs at a time, in turns, so a decision waits at most for one
turn of it. The callers go on one after another (``FairQueue``), some steps at a time, so a caller
waits for a slice of each other caller, never for all of its work. The number of waiting pieces,
those of one caller, and the time of each are limited.
"""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors.steps import begin_turn, finish_in_turns
from authorizerd.daemon.decisions.fair_queue import SHARE_MAX, WAITING_MAX, FairQueue
from authorizerd.daemon.errors import BusyError

T = TypeVar("T")

STEPS_PER_SLICE: Final = 256
"""How many steps a caller's work takes before that of another caller that waits goes on."""


class LongWork:
    """Run long work of all connections, the callers in turn.

    Args:
        timeout_ms: the maximum time of one piece, including its wait.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms: Final = timeout_ms
        self._queue: Final = FairQueue()

    async def run(self, steps: Steps[T], principal: str | None = None) -> T:
        """Return the result of ``steps``. They are closed if they do not end in time.

        Args:
            principal: the caller's, None if callers cannot be told apart.

        Raises:
            BusyError: too many others, or too many of this caller, wait; or the time is over.
        """
        give_back = self._queue.enter(principal)
        if give_back is None:
            steps.close()
            raise BusyError(
                f"too many searches and explanations: {WAITING_MAX} wait already, or {SHARE_MAX} of"
                " this caller; retry later, or ask another daemon"
            )
        try:
            with trio.move_on_after(self._timeout_ms / 1000):
                async with self._queue.turn(principal) as turn:
                    begin_turn()
                    while (finished := await finish_in_turns(_take_slice(steps))) is None:
                        if await turn.let_others():
                            begin_turn()
                    return finished[0]
        finally:
            give_back()
            steps.close()
        raise BusyError(
            f"the search or explanation took longer than {self._timeout_ms} ms, including its wait"
            " for others (authorizerd.search.timeout.ms): retry later, or ask another daemon"
        )


def _take_slice(steps: Steps[T]) -> Steps[tuple[T] | None]:
    """Take some steps. Return, in a tuple, what they return at their end; None before it."""
    for _ in range(STEPS_PER_SLICE):
        try:
            next(steps)
        except StopIteration as end:
            return (end.value,)
        yield
    return None
