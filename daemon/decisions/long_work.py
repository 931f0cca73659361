"""Searches and explanations: work that takes much longer than a decision.

**Invariant:** one piece of this work runs at a time, in turns, so a decision waits at most for one
turn of it. The number of waiting pieces, those of one caller, and the time of each are limited.
"""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors.steps import begin_turn, finish_in_turns
from authorizerd.daemon.decisions.slots import Slots
from authorizerd.daemon.errors import BusyError

T = TypeVar("T")

WAITING_MAX: Final = 16
"""How many requests may wait for the one that runs."""
SHARE_MAX: Final = WAITING_MAX // 2
"""How many requests of one caller may run or wait."""


class LongWork:
    """Run long work of all connections, one piece after the other, in order of arrival.

    Args:
        timeout_ms: the maximum time of one piece, including its wait.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms: Final = timeout_ms
        self._turn: Final = trio.Lock()
        self._places: Final = Slots(WAITING_MAX + 1, SHARE_MAX)

    async def run(self, steps: Steps[T], principal: str | None = None) -> T:
        """Return the result of ``steps``. They are closed if they do not end in time.

        Args:
            principal: the caller's, None if callers cannot be told apart.

        Raises:
            BusyError: too many others, or too many of this caller, wait; or the time is over.
        """
        give_back = self._places.take(principal)
        if give_back is None:
            steps.close()
            raise BusyError(
                f"too many searches and explanations: {WAITING_MAX} wait already, or {SHARE_MAX} of"
                " this caller; retry later, or ask another daemon"
            )
        try:
            with trio.move_on_after(self._timeout_ms / 1000):
                async with self._turn:
                    begin_turn()
                    return await finish_in_turns(steps)
        finally:
            give_back()
            steps.close()
        raise BusyError(
            f"the search or explanation took longer than {self._timeout_ms} ms, including its wait"
            " for others (authorizerd.search.timeout.ms): retry later, or ask another daemon"
        )
