"""The purgatory: requests that wait for completions.

**Invariant:** a request whose completions are all done on arrival is never counted. A waiting
request leaves when the last completion is done, its time is up, or its caller is cancelled. The
work it waits for continues in any case.

Source: KIP-504, "Purgatory metrics"; Kafka 4.3 DelayedFuturePurgatory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from authorizerd.actors.completion import Completion, ItemCompletions

_ITEMS_PER_TURN: Final = 256


class Purgatory:
    """Count the waiting requests and items, for the two metrics of the purgatory.

    ``timeout_ms`` may be changed. The new value applies to later waits.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.requests_waiting = 0
        self.items_waiting = 0

    async def wait(self, completions: Sequence[Completion[Any]]) -> None:
        """Return when all completions are done or the time is up. Some may then still be pending.

        Cancellation leaves the completions unchanged.
        """
        pending = await _count_pending(completions)
        if not pending:
            return
        left = sum(pending.values())
        self.requests_waiting += 1
        self.items_waiting += left
        try:
            with trio.move_on_after(self.timeout_ms / 1000):
                for place, (whole, items) in enumerate(pending.items(), 1):
                    if not whole.is_done:  # most end together; skip needless waits
                        await whole.wait_until_done()
                    elif place % _ITEMS_PER_TURN == 0:
                        await trio.lowlevel.checkpoint()
                    self.items_waiting -= items
                    left -= items
        finally:
            self.items_waiting -= left
            self.requests_waiting -= 1


async def _count_pending(
    completions: Sequence[Completion[Any]],
) -> dict[Completion[Any], int]:
    """Return the number of unfinished items by the completion that they end with."""
    if isinstance(completions, ItemCompletions):  # the usual case: all end together
        whole = completions.whole
        return {} if whole.is_done or not completions else {whole: len(completions)}
    pending: dict[Completion[Any], int] = {}
    for place, completion in enumerate(completions, 1):
        if not completion.is_done:
            whole = completion.whole
            pending[whole] = pending.get(whole, 0) + 1
        if place % _ITEMS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    return pending
