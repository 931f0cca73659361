"""The purgatory: requests that wait for completions.

**Invariant:** a request whose completions are all done on arrival is never counted. A waiting
request counts once, whatever it waits for. It leaves when the last completion is done, its time
limit has passed, or its caller is cancelled. The work it waits for continues in any case.

Source: KIP-504, "Purgatory metrics"; Kafka 4.3 DelayedFuturePurgatory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from authorizerd.actors.completion import Completion, ItemCompletions

_ITEMS_PER_TURN: Final = 256


class Purgatory:
    """Count the waiting requests, and those that timed out, for the metrics.

    ``timeout_ms`` may be changed. The new value applies to later waits.
    """

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.requests_waiting = 0
        self.requests_timed_out = 0

    async def wait(self, completions: Sequence[Completion[Any]]) -> None:
        """Return when all completions are done or the time is up. Some may then still be pending.

        Cancellation leaves the completions unchanged.
        """
        pending = await _find_pending(completions)
        if not pending:
            return
        self.requests_waiting += 1
        try:
            with trio.move_on_after(self.timeout_ms / 1000) as limit:
                for number, whole in enumerate(pending, 1):
                    if not whole.is_done:  # most completions end together; skip needless waits
                        await whole.wait_until_done()
                    elif number % _ITEMS_PER_TURN == 0:
                        await trio.lowlevel.checkpoint()
            self.requests_timed_out += limit.cancelled_caught
        finally:
            self.requests_waiting -= 1


async def _find_pending(completions: Sequence[Completion[Any]]) -> dict[Completion[Any], None]:
    """Return the unfinished completions, each once, in order."""
    if isinstance(completions, ItemCompletions):  # the usual case: all end together
        whole = completions.whole
        return {} if whole.is_done or not completions else {whole: None}
    pending: dict[Completion[Any], None] = {}
    for number, completion in enumerate(completions, 1):
        if not completion.is_done:
            pending[completion.whole] = None
        if number % _ITEMS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
    return pending
