"""Run long work in chunks, and let every other task run after a fixed time.

**Invariant:** a task yields after the first chunk that ends at least ``TURN_SECONDS`` after its
turn began, even if it does several pieces of work in a row. So a turn takes at most that time and
one chunk, however cheap or costly the chunks are.

In the daemon, the garbage collector does not run by itself (``daemon.process.gc_control``). So long
work collects garbage between two turns.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final, TypeVar

import trio

from authorizerd.acl.steps import Steps

T = TypeVar("T")

TURN_SECONDS: Final = 0.0005
"""A checkpoint takes about a thirtieth of this. Many tasks may take turns in succession, and a
decision waits for all of them."""

CONTAINERS_MIN: Final = 250
"""With this many objects, a collection takes about 0.3 ms: scanning an uncached container takes
about 1 µs. Recycled tuples are not counted, so it may take three times as long."""

_ENDS_AT: Final[ContextVar[float]] = ContextVar("ends_at", default=0.0)
"""When the current task's turn ends. A task that has waited since then ends its turn early."""


def begin_turn() -> None:
    """Note that this task has just let others run. Without this call, its next turn may be
    shorter."""
    _ENDS_AT.set(time.perf_counter() + TURN_SECONDS)


def collect_if_many() -> bool:
    """Collect garbage if enough objects are new for a collection to be worth its time.

    Freeze the remaining objects, so that no collection scans them again. Return True if collected.
    Return False wherever collections run by themselves.
    """
    return gc.get_count()[0] >= CONTAINERS_MIN and _collect()


def _collect() -> bool:
    """Collect garbage and freeze the rest, unless collections run by themselves."""
    if gc.isenabled():
        return False
    gc.collect()
    gc.freeze()
    return True


async def pause_if_due() -> None:
    """Let other tasks run if this turn has lasted long enough."""
    if time.perf_counter() >= _ENDS_AT.get():
        await trio.lowlevel.checkpoint()
        if collect_if_many():  # a collection may take as long as a turn
            await trio.lowlevel.checkpoint()
        begin_turn()


async def collect(items: Iterable[T]) -> list[T]:
    """Return the items as a list, and let other tasks run between two of them."""
    collected: list[T] = []

    def gather() -> Steps[None]:
        for item in items:
            collected.append(item)
            yield

    await finish_in_turns(gather())
    return collected


async def finish_in_turns(steps: Steps[T], *, creates_many: bool = False) -> T:
    """Run a generator to its end, in turns. Return its value.

    If the work ``creates_many`` objects, garbage is collected before it begins, so that they can be
    frozen unscanned.

    There is no checkpoint after each chunk: it takes as long as reading ten ACLs, and chunks are
    short. Elapsed time is used, because reading the CPU time is a system call. It is never less
    than the CPU time, so turns can only end earlier.
    """
    now = time.perf_counter
    ends_at = _ENDS_AT.get()
    is_collected = _collect() if creates_many else collect_if_many()
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            if is_collected:
                gc.freeze()
            result: T = finished.value
            return result
        if now() >= ends_at:
            if is_collected:
                # Only this work has run since then, and it leaves no cycles, so skip the
                # collection.
                gc.freeze()
            await pause_if_due()
            is_collected = _collect()  # collect what other tasks have left, which takes little time
            ends_at = _ENDS_AT.get()
