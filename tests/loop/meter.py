"""Measure the stretches of a trio loop: the work of a task between two turns of the loop.

The tests count work instead of time, so that a slow or busy machine does not matter:

- *lines*: the number of lines that the interpreter starts, and of calls and returns. Each round of
  a loop and each item of a comprehension counts.
- *bytes*: the memory that a stretch allocates or frees, whichever is more. This shows long calls
  into C: joined bytes, decoded JSON, a copied list.
- *containers*: the number of new objects that a garbage collection visits.
- *uncollected containers*: the number that the next timed collection would visit.
- *slow calls*: calls into C that take milliseconds and belong in a thread: TLS handshakes, and the
  derivation of a key from a password.

No count shows another call into C that reads much and allocates nothing, such as a regular
expression over a body. Such a call processes at most one request, or a part of it. ``CpuMeter``
shows these calls, but no test depends on it.
"""

from __future__ import annotations

import gc
import hashlib
import ssl
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import trio

IS_CLIENT: Final = ContextVar("IS_CLIENT", default=False)
"""True in the tasks of the test, whose stretches do not count."""

FRAMES_SHOWN: Final = 6
PACKAGES: Final = frozenset(
    ("acl", "actors", "config", "daemon", "management", "metadata", "protocol", "tls")
)
SLOW_CALLS: Final = ((ssl.SSLObject, "do_handshake"), (hashlib, "pbkdf2_hmac"))


@dataclass(slots=True)
class Longest:
    """The longest measured stretch; ``amount`` is in the meter's unit."""

    amount: float = 0.0
    task: str = ""
    where: str = ""
    stretches: int = 0
    total: float = 0.0


class Meter(trio.abc.Instrument):
    """Measure each stretch between ``start`` and ``stop``, and keep the longest."""

    unit: str

    def __init__(self) -> None:
        self.longest = Longest()

    def start(self) -> None:
        """Start measuring."""
        self.longest = Longest()

    def stop(self) -> None:
        """Stop measuring."""

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
    """Measure the thread's CPU time in ms."""

    unit = "ms"

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begun = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(task, (time.thread_time() - self._begun) * 1000)


class LineMeter(Meter):
    """Count the lines, calls and returns of a stretch.

    Args:
        limit: ``Longest.where`` is the place where a stretch reaches this count.
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
    """Return functions that count, restart, and read the count and the place of line ``limit``.

    They are closures, which are fast, because the count runs on every line.
    """
    left = limit
    where = ""

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401
        nonlocal left, where
        left -= 1
        if not left:
            where = _place_of(frame)
        return trace

    def restart() -> None:
        nonlocal left, where
        left, where = limit, ""

    def read() -> tuple[int, str]:
        return limit - left, where

    return trace, restart, read


class ByteMeter(Meter):
    """Count the bytes that a stretch allocates or frees, whichever is more."""

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
    """Count the new containers that garbage collections visit."""

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
            # Not ``gc.get_count``: it counts tuples whose memory Python keeps for others as well.
            self._seen += sum(len(gc.get_objects(number)) for number in range(3))

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._seen = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(task, self._seen)


class UncollectedMeter(Meter):
    """Count the new containers that the next timed collection will visit."""

    unit = "uncollected containers"

    def start(self) -> None:
        super().start()
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        self.longest = Longest(gc.get_count()[0])


class SlowCallMeter(Meter):
    """Count the calls of ``SLOW_CALLS`` on the event loop's thread.

    A step of a handshake is slow only if it verifies the client's certificate: the keys of the
    daemons that are measured sign in a tenth of a millisecond.
    """

    unit = "slow calls"

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0
        self._where = ""
        self._patches = ExitStack()

    def start(self) -> None:
        super().start()
        loop = threading.get_ident()
        for place, name in SLOW_CALLS:
            call = getattr(place, name)
            self._patches.enter_context(patch.object(place, name, self._counting(call, loop)))

    def stop(self) -> None:
        self._patches.close()

    def _counting(self, call: Callable[..., Any], loop: int) -> Callable[..., Any]:
        def count(*arguments: object, **named: object) -> object:
            is_slow = (
                not isinstance(arguments[0], ssl.SSLObject)
                or arguments[0].context.verify_mode is not ssl.CERT_NONE
            )
            if is_slow and threading.get_ident() == loop:
                self._calls += 1
                self._where = _place_of(sys._getframe(1))
            return call(*arguments, **named)

        return count

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._calls = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note(task, self._calls, self._where)


def _place_of(frame: FrameType) -> str:
    """Return the place of a frame, with the project's frames that led to it, innermost first."""
    own = [
        f"{Path(each.filename).name}:{each.lineno} {each.name}"
        for each in reversed(traceback.extract_stack(frame))
        if not PACKAGES.isdisjoint(Path(each.filename).parts)
    ]
    return " < ".join(own[:FRAMES_SHOWN])
