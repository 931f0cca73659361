"""Searches and explanations: work that takes much longer than a decision.

**Invariant:** one piece of this work runs at a time, in turns, so a decision waits at most for one
turn of it. The number of waiting pieces and the time of each are limited.
"""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors.steps import begin_turn, finish_in_turns
from authorizerd.daemon.errors import BusyError

T = TypeVar("T")

WAITING_MAX: Final = 16
"""How many requests may wait for the one that runs."""


class LongWork:
    """Run long work of all connections, one piece after the other, in order of arrival.

    Args:
        timeout_ms: the maximum time of one piece, including its wait.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms: Final = timeout_ms
        self._turn: Final = trio.Lock()
        self._waiting = 0

    async def run(self, steps: Steps[T]) -> T:
        """Return the result of ``steps``. They are closed if they do not end in time.

        Raises:
            BusyError: too many others wait, or the time is over.
        """
        if self._waiting > WAITING_MAX:
            steps.close()
            raise BusyError(
                f"too many searches and explanations: {WAITING_MAX} wait already; retry later, or"
                " ask another daemon"
            )
        self._waiting += 1
        try:
            with trio.move_on_after(self._timeout_ms / 1000):
                async with self._turn:
                    begin_turn()
                    return await finish_in_turns(steps)
        finally:
            self._waiting -= 1
            steps.close()
        raise BusyError(
            f"the search or explanation took longer than {self._timeout_ms} ms, including its wait"
            " for others (authorizerd.search.timeout.ms): retry later, or ask another daemon"
        )
