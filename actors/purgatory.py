"""The purgatory: requests that wait for completions which are not all done yet.

Invariant: a request whose completions are all done when it comes is never counted here, and one
that waits leaves when the last is done, when its time is up, or when its caller is cancelled. The
work it waits for goes on in any case.

Source: KIP-504, "Purgatory metrics"; Kafka 4.3 DelayedFuturePurgatory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from authorizerd.actors.completion import Completion

_ITEMS_PER_TURN: Final = 256


class Purgatory:
    """``requests_waiting`` and ``items_waiting`` are what its two metrics show.

    ``timeout_ms`` may be changed, for those that begin to wait from then on.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.requests_waiting = 0
        self.items_waiting = 0

    async def wait(self, completions: Sequence[Completion[Any]]) -> None:
        """Return when all are done or the time is up; those that are not done then may still be.

        Cancelled, it leaves the completions as they are.
        """
        pending: dict[Completion[Any], int] = {}
        for place, completion in enumerate(completions, 1):
            if not completion.is_done:
                whole = completion.whole
                pending[whole] = pending.get(whole, 0) + 1
            if place % _ITEMS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        if not pending:
            return
        left = sum(pending.values())
        self.requests_waiting += 1
        self.items_waiting += left
        try:
            with trio.move_on_after(self.timeout_ms / 1000):
                for place, (whole, items) in enumerate(pending.items(), 1):
                    if not whole.is_done:  # they are mostly done together, and a wait costs
                        await whole.wait_until_done()
                    elif place % _ITEMS_PER_TURN == 0:
                        await trio.lowlevel.checkpoint()
                    self.items_waiting -= items
                    left -= items
        finally:
            self.items_waiting -= left
            self.requests_waiting -= 1
