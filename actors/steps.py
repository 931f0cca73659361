"""Run long work in short steps, and let every other task run after a fixed time.

**Invariant:** a turn ends with the first step that ends ``TURN_SECONDS`` after its begin, even if a
task does several pieces of work one after the other. So a turn takes at most that time and one
step, however cheap or costly the steps are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

import trio

from authorizerd.acl.steps import Steps

T = TypeVar("T")

TURN_SECONDS: Final = 0.0005
"""A checkpoint takes about a thirtieth of this. Many tasks may each take a turn in succession, and
a decision waits for all of them."""

_ENDS_AT: Final[ContextVar[float]] = ContextVar("ends_at", default=0.0)
"""When the current task's turn ends. A task that has waited since then ends its turn early."""

_AFTER_TURN: Final[ContextVar[Callable[[], bool]]] = ContextVar("after_turn", default=lambda: False)


class Heap(Protocol):
    """The garbage collector, which does not run by itself."""

    def collect(self) -> None:
        """Free the garbage that exists now, and never look at the remaining objects again."""

    def keep(self) -> None:
        """Never look at the objects that were created since ``collect``.

        This takes no time, unlike collecting after they were created. But if they contained garbage
        in cycles, it would never be freed. So no other task may have run since ``collect``.
        """


class NoHeap:
    """A heap that is left alone."""

    def collect(self) -> None: ...

    def keep(self) -> None: ...


NO_HEAP: Final = NoHeap()


def begin_turn() -> None:
    """Note that this task has just let others run. Without this, its next turn may be shorter."""
    _ENDS_AT.set(time.perf_counter() + TURN_SECONDS)


def call_after_turns(call: Callable[[], bool]) -> None:
    """Have ``call`` called after each turn of this task and of all tasks that it will start.

    It returns True if it has taken time. Other tasks run before and after it, because it may take
    as long as a turn.
    """
    _AFTER_TURN.set(call)


async def pause_if_due() -> None:
    """Let other tasks run if this turn has lasted long enough."""
    if time.perf_counter() >= _ENDS_AT.get():
        await trio.lowlevel.checkpoint()
        if _AFTER_TURN.get()():
            await trio.lowlevel.checkpoint()
        begin_turn()


async def finish_in_turns(steps: Steps[T], heap: Heap = NO_HEAP) -> T:
    """Run a generator to its end, in turns. Return its value.

    Why not a checkpoint after each step? It takes as long as reading ten ACLs, and a step must be
    short even for the costliest items. Why the elapsed time? Reading the CPU time is a system call.
    The elapsed time is never less, so a turn can only end earlier.

    Args:
        heap: if the steps create many objects that will live long.
    """
    now = time.perf_counter
    ends_at = _ENDS_AT.get()
    heap.collect()
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            heap.keep()
            result: T = finished.value
            return result
        if now() >= ends_at:
            heap.keep()
            await pause_if_due()
            heap.collect()
            ends_at = _ENDS_AT.get()
