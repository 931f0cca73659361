"""Fuzz one target: mutate inputs, keep those that take new paths, and shrink those that fail.

The same target, seed and number of inputs give the same inputs.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Final

import trio

from tests.fuzz.mutations import mutate
from tests.fuzz.target import SECRET, Check, Target
from tests.fuzz.trace import ROOT, Trace

CPU_SECONDS_MAX: Final = 20
"""An input that takes longer hangs: usual ones take less than a millisecond."""
TRACED_FIRST: Final = 2_000
TRACED_LINES: Final = 2_000_000
TRACED_EVERY: Final = 8
"""The first inputs are traced until they have taken so many lines, then one of so many: tracing
takes several times as long.
"""
KEPT_MAX: Final = 4_096
BLOCKS_MAX: Final = 2_000
"""How many blocks of memory may be left after reading all kept inputs once more."""
SHRINKING_TRIALS_MAX: Final = 500
FAILURES_MAX: Final = 20


class HangError(BaseException):
    """An input takes more than ``CPU_SECONDS_MAX`` of CPU time."""


class LoggedError(Exception):
    """A log line has a secret, or reports an internal error."""


@dataclass(frozen=True)
class Failure:
    """An input that fails, as small as possible, and why. ``kind`` is the same for each cause."""

    data: bytes
    kind: str
    text: str


@dataclass
class Result:
    """Counts of a run. ``new_paths`` are those that no seed takes."""

    target: str
    inputs: int = 0
    seed_paths: int = 0
    new_paths: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def run(
    target: Target,
    *,
    inputs: int,
    seed: int = 1,
    seconds: float = float("inf"),
    found: Iterable[bytes] = (),
) -> Result:
    """Send ``inputs`` mutated inputs to a target, after its seeds and those of ``found``.

    Args:
        seconds: stop earlier once so much time has passed.
    """
    result = Result(target.name)
    with _watched() as log:
        session = _Session(target, result, log)
        try:
            trio.run(session.fuzz, Random(f"{seed} {target.name}"), inputs, seconds, tuple(found))
        except Exception as error:  # noqa: BLE001 - a task of the place has failed
            result.failures.append(Failure(session.newest, *_describe(error)))
    return result


def replay(target: Target, inputs: Iterable[bytes]) -> list[Failure]:
    """Return the failures of these inputs, unshrunk."""
    result = Result(target.name)

    async def read_all(log: _WatchedLog) -> None:
        async with target.place() as check:
            session = _Session(target, result, log)
            for data in inputs:
                await session.read(check, data)

    with _watched() as log:
        trio.run(read_all, log)
    return result.failures


class _Session:
    """One target while it is fuzzed."""

    def __init__(self, target: Target, result: Result, log: _WatchedLog) -> None:
        self._target = target
        self._log = log
        self._result = result
        self._trace = Trace(target.lines_max)
        self._kinds: set[str] = set()
        self.newest = b""

    async def fuzz(
        self, random: Random, inputs: int, seconds: float, found: tuple[bytes, ...]
    ) -> None:
        result, trace, target = self._result, self._trace, self._target
        begun = time.monotonic()
        async with target.place() as check:
            kept = [data for data in (*target.seeds(), *found) if await self.read(check, data)]
            if not kept:
                return
            result.seed_paths = len(trace.paths)
            trace.lines = 0
            for number in range(inputs):
                if len(result.failures) >= FAILURES_MAX or time.monotonic() - begun > seconds:
                    break
                data = mutate(random, random.choice(kept), kept, target.words)
                is_first = number < TRACED_FIRST and trace.lines < TRACED_LINES
                is_traced = is_first or number % TRACED_EVERY == 0
                before = len(trace.paths)
                is_sound = await self.read(check, data, is_traced=is_traced, shrinks=True)
                if is_sound and len(trace.paths) > before and len(kept) < KEPT_MAX:
                    kept.append(data)
                result.inputs += 1
            result.new_paths = len(trace.paths) - result.seed_paths
            result.seconds = time.monotonic() - begun
            await self._check_growth(check, kept)

    async def read(
        self, check: Check, data: bytes, *, is_traced: bool = True, shrinks: bool = False
    ) -> bool:
        """Read an input. Return True if it did not fail, else note the failure."""
        self.newest = data
        error = await self._try(check, data, is_traced=is_traced)
        if error is None:
            return True
        kind, text = _describe(error)
        if kind not in self._kinds:
            self._kinds.add(kind)
            if shrinks and not isinstance(error, HangError):
                data = await self._shrink(check, data, kind)
            self._result.failures.append(Failure(data, kind, text))
        return False

    async def _try(self, check: Check, data: bytes, *, is_traced: bool) -> BaseException | None:
        """Return what is wrong, or None."""
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
        try:
            if is_traced and self._target.is_traced:
                with self._trace.running():
                    await self._read(check, data)
            else:
                await self._read(check, data)
            self._log.check()
        except (Exception, HangError) as error:  # noqa: BLE001 - each one is a failure
            return error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return None

    async def _read(self, check: Check, data: bytes) -> None:
        read = check(data)
        if read is None:
            return
        if isinstance(read, Generator):
            for _ in read:
                self._trace.end_step()
        else:
            await read

    async def _shrink(self, check: Check, data: bytes, kind: str) -> bytes:
        """Return a part of ``data`` that fails for the same reason, as small as can be found."""
        trials = SHRINKING_TRIALS_MAX
        size = max(1, len(data) // 2)
        while size and trials:
            place, is_smaller = 0, False
            while place < len(data) and trials:
                trials -= 1
                smaller = data[:place] + data[place + size :]
                error = await self._try(check, smaller, is_traced=True)
                if error is not None and _describe(error)[0] == kind:
                    data, is_smaller = smaller, True
                else:
                    place += size
            if not is_smaller:
                size //= 2
        return data

    async def _check_growth(self, check: Check, kept: list[bytes]) -> None:
        """Read all kept inputs twice: the second time must leave no memory or descriptor behind."""
        gc.freeze()  # what exists already would only make the collections slow
        used = [await self._use_after(check, kept) for _ in range(3)]
        gc.unfreeze()
        blocks, files = (after - before for before, after in zip(used[1], used[2], strict=True))
        if blocks > BLOCKS_MAX or files > 0:
            text = f"{len(kept)} inputs leave {blocks} blocks of memory and {files} descriptors"
            self._result.failures.append(Failure(b"", "growth", text))

    async def _use_after(self, check: Check, kept: list[bytes]) -> tuple[int, int]:
        for data in kept:
            await self._try(check, data, is_traced=False)
        gc.collect()
        return sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


def _describe(error: BaseException) -> tuple[str, str]:
    """Return the kind of a failure, by its type and innermost place, and its text."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename.startswith(str(ROOT))]
    place = own[-1] if own else frames[-1]
    kind = (
        f"{type(error).__name__} in {place.name}, {os.path.basename(place.filename)}:{place.lineno}"
    )
    path = " > ".join(f"{os.path.basename(each.filename)}:{each.lineno}" for each in own[-6:])
    return kind, f"{type(error).__name__}: {str(error)[:400]} ({path})"


class _WatchedLog(logging.Handler):
    """Keeps the first log line since the last check that must not be."""

    def __init__(self) -> None:
        super().__init__()
        self._fault = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if SECRET in text or record.exc_info or record.levelno >= logging.ERROR:
            self._fault = self._fault or text

    def check(self) -> None:
        """Raise LoggedError if there was such a line."""
        fault, self._fault = self._fault, ""
        if fault:
            raise LoggedError(fault)


@contextmanager
def _watched() -> Iterator[_WatchedLog]:
    """Watch the log, and raise HangError in an input that never ends, even in a re.match."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError(f"no end after {CPU_SECONDS_MAX} s of CPU time")

    root, log = logging.getLogger(), _WatchedLog()
    level, action = root.level, signal.signal(signal.SIGVTALRM, stop)
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        root.removeHandler(log)
        root.setLevel(level)
        signal.signal(signal.SIGVTALRM, action)
