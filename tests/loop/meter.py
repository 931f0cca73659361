"""How long the stretches of a trio loop are: what a task does between two turns of it.

Work is counted, not timed, so that a slow or busy machine changes nothing:

- *lines*: how often the interpreter begins a line, enters a function or returns from one. A loop
  begins its lines anew each time round, a comprehension is entered for each item.
- *bytes*: the most that a stretch allocates beyond what was there, or lets go of. This is what
  long calls into C show: bytes that are joined, JSON that is decoded, a list that is copied.
- *containers*: how many new objects a garbage collection looks at.

What none of the three sees is a call into C that reads much and makes nothing of it, such as a
regular expression over a body. Such calls are given no more than one request, or one piece of it.
``CpuMeter`` sees them; it measures, and decides nothing.
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
import tracemalloc
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import trio

IS_CLIENT: Final = ContextVar("IS_CLIENT", default=False)
"""Whether a task is the test's own: its stretches do not count."""

FRAMES_SHOWN: Final = 6
PACKAGES: Final = frozenset(("acl", "actors", "config", "daemon", "metadata", "protocol"))


@dataclass(slots=True)
class Longest:
    """The longest stretch of those that were measured; ``amount`` is in the meter's own unit."""

    amount: float = 0.0
    task: str = ""
    where: str = ""
    stretches: int = 0
    total: float = 0.0


class Meter(trio.abc.Instrument):
    """Measures each stretch between ``start`` and ``stop``, and keeps the longest."""

    unit: str

    def __init__(self) -> None:
        self.longest = Longest()

    def start(self) -> None:
        """Begin to measure."""
        self.longest = Longest()

    def stop(self) -> None:
        """Measure no more."""

    def _note(self, task: trio.lowlevel.Task, amount: float, where: str = "") -> None:
        if task.context.get(IS_CLIENT, False):
            return
        longest = self.longest
        longest.stretches += 1
        longest.total += amount
        if amount > longest.amount:
            longest.amount, longest.where = amount, where
            longest.task = task.name.rpartition(".")[2]


class CpuMeter(Meter):
    """Measures in ms of the thread's CPU time."""

    unit = "ms"

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begun = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(task, (time.thread_time() - self._begun) * 1000)


class LineMeter(Meter):
    """Counts the lines that a stretch begins, and the calls and returns in it.

    Args:
        limit: where a stretch has begun so many, ``Longest.where`` says which.
    """

    unit = "lines"

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._is_on = False
        self._trace, self._restart, self._read = _new_trace(limit)

    def start(self) -> None:
        super().start()
        self._is_on = True

    def stop(self) -> None:
        self._is_on = False
        sys.settrace(None)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._is_on and not task.context.get(IS_CLIENT, False):
            self._restart()
            sys.settrace(self._trace)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._is_on:
            sys.settrace(None)
            self._note(task, *self._read())


def _new_trace(limit: int) -> tuple[Any, Callable[[], None], Callable[[], tuple[int, str]]]:
    """Return what counts, what begins to count anew, and what returns the count.

    A closure, since it runs at each line; it keeps where it was at line number ``limit``.
    """
    left = limit
    where = ""

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        nonlocal left, where
        left -= 1
        if not left:
            where = _described(frame)
        return trace

    def restart() -> None:
        nonlocal left, where
        left, where = limit, ""

    def read() -> tuple[int, str]:
        return limit - left, where

    return trace, restart, read


class ByteMeter(Meter):
    """Counts the bytes that a stretch allocates or lets go of, whichever is more."""

    unit = "bytes"

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def start(self) -> None:
        super().start()
        tracemalloc.start(1)

    def stop(self) -> None:
        tracemalloc.stop()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
            self._before = tracemalloc.get_traced_memory()[0]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if tracemalloc.is_tracing():
            after, peak = tracemalloc.get_traced_memory()
            self._note(task, peak - min(self._before, after))


class CollectionMeter(Meter):
    """Counts the new containers that garbage collections look at."""

    unit = "containers"

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0

    def start(self) -> None:
        super().start()
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._collected)

    def stop(self) -> None:
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: object) -> None:
        if phase == "start":
            self._seen += gc.get_count()[0]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._seen = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(task, self._seen)


def _described(frame: FrameType) -> str:
    """Return where a frame is, the innermost first, of the project's own frames."""
    own = [
        f"{Path(each.filename).name}:{each.lineno} {each.name}"
        for each in reversed(traceback.extract_stack(frame))
        if not PACKAGES.isdisjoint(Path(each.filename).parts)
    ]
    return " < ".join(own[:FRAMES_SHOWN])
