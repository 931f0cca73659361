"""One turn for the long work of all callers, which the callers take one after another.

**Invariant:** one piece of work has the turn at a time. Before a caller gets it again, every other
caller that waits gets it once, however many requests the caller has sent. The requests of one
caller get it in order of arrival. Requests of callers that cannot be told apart are one caller's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import trio

from authorizerd.daemon.decisions.slots import Slots

WAITING_MAX: Final = 16
"""How many requests may wait for the one that has the turn."""
SHARE_MAX: Final = WAITING_MAX // 2
"""How many requests of one caller may have the turn or wait for it."""


class FairQueue:
    """A queue for the turn, with a limited number of places in all and for each caller."""

    def __init__(self) -> None:
        self._places: Final = Slots(WAITING_MAX + 1, SHARE_MAX)
        self._is_taken = False
        self._waiting: Final[OrderedDict[str | None, deque[trio.lowlevel.Task]]] = OrderedDict()

    def enter(self, principal: str | None) -> Callable[[], None] | None:
        """Take a place, without which nobody may wait; see ``Slots.take``."""
        return self._places.take(principal)

    def turn(self, principal: str | None) -> Turn:
        """Return the context in which a request of this caller has the turn."""
        return Turn(self, principal)

    async def _take(self, principal: str | None) -> None:
        if self._is_taken:
            await self._wait(principal, self._waiting.setdefault(principal, deque()).append)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._is_taken = True

    async def _wait(
        self, principal: str | None, enter: Callable[[trio.lowlevel.Task], None]
    ) -> None:
        task = trio.lowlevel.current_task()
        enter(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting[principal].remove(task)
            if not self._waiting[principal]:
                del self._waiting[principal]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _pass_on(self, principal: str | None) -> None:
        """Give the turn to the next caller: to ``principal`` only after all others."""
        if principal in self._waiting:
            self._waiting.move_to_end(principal)
        if not self._waiting:
            self._is_taken = False
            return
        following, tasks = next(iter(self._waiting.items()))
        trio.lowlevel.reschedule(tasks.popleft())
        if tasks:
            self._waiting.move_to_end(following)
        else:
            del self._waiting[following]

    async def _let_others(self, principal: str | None) -> bool:
        if not self._waiting.keys() - {principal}:
            return False

        def enter(task: trio.lowlevel.Task) -> None:
            self._waiting.setdefault(principal, deque()).appendleft(task)
            self._pass_on(principal)

        await self._wait(principal, enter)
        return True


class Turn:
    """The context in which one request has the turn."""

    def __init__(self, queue: FairQueue, principal: str | None) -> None:
        self._queue: Final = queue
        self._principal: Final = principal
        self._has_turn = False

    async def __aenter__(self) -> Self:
        await self._queue._take(self._principal)
        self._has_turn = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._has_turn:
            self._queue._pass_on(self._principal)

    async def let_others(self) -> bool:
        """Let each other caller that waits have the turn once, and wait for it again.

        This request stays the first one of its caller. Return True if another one had the turn.
        """
        self._has_turn = False
        waited = await self._queue._let_others(self._principal)
        self._has_turn = True
        return waited
