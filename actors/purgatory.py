"""The purgatory: requests that wait for completions which are not all done yet.

Invariant: a request whose completions are all done when it comes is never counted here, and one
that waits leaves when the last is done, when its time is up, or when its caller is cancelled. The
work it waits for goes on in any case.

Source: KIP-504, "Purgatory metrics"; Kafka 4.3 DelayedFuturePurgatory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from actors.completion import Completion


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
        pending = [completion for completion in completions if not completion.is_done]
        if not pending:
            return
        self.requests_waiting += 1
        self.items_waiting += len(pending)
        left = len(pending)
        try:
            with trio.move_on_after(self.timeout_ms / 1000):
                for completion in pending:
                    if not completion.is_done:  # they are mostly done together, and a wait costs
                        await completion.wait_until_done()
                    self.items_waiting -= 1
                    left -= 1
        finally:
            self.items_waiting -= left
            self.requests_waiting -= 1
