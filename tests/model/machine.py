"""The machine of a story's process: its disk with the log, its threads, its clocks and its chances.

**Invariant:** inside ``simulated``, every choice of the process and of trio's scheduler comes from
one seed, so each run is the same.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias, TypeVar
from unittest.mock import patch

import trio

from authorizerd.acl import steps
from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.actors import update_queue
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.update_queue import LogChange
from authorizerd.daemon import components, lifespan
from authorizerd.daemon.decisions import authzen, stream_server
from authorizerd.daemon.net import connection_server, selector
from authorizerd.daemon.net.connection import Connection
from authorizerd.daemon.origins import own_log
from authorizerd.daemon.sources import own_log_reader
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import LogWriter
from tests.faults.disk import TIME_MS, FaultDisk
from tests.model.invariants import Invariants
from tests.model.reference import LogState
from tests.model.story import PEER, Life

T = TypeVar("T")

Replacement: TypeAlias = tuple[object, str, Any]
"""An attribute, and what replaces it."""

LOG_DIR: Final = Path("/data/log")
SHORT_TURNS: Final = (
    (steps, "ITEMS_PER_CHUNK", 1),
    (update_queue, "CHANGES_PER_FLUSH_MAX", RECORDS_PER_REQUEST_MAX + 1),
    (own_log_reader, "BATCHES_PER_READ", 1), (authzen, "AT_ONCE_MAX", 4), (authzen, "PER_STEP", 1),
    (stream_server, "QUESTIONS_PER_TURN", 5), (stream_server, "QUESTIONS_PER_TURN_MIN", 5),
    (stream_server, "QUESTIONS_PER_SLICE", 5),
)  # fmt: skip
"""The smallest chunks of long work, so that other tasks run in between."""
_TURN_S: Final = 0.001
"""Longer than any turn of ``actors.steps``."""


_checkpoint: Final = trio.lowlevel.checkpoint


STALLS_S: Final[ContextVar[tuple[float, ...] | None]] = ContextVar("stalls_s", default=None)
"""The possible durations of a call in a thread, if they are not those of the disk."""


class Machine:
    """The disk and the chances of one life."""

    def __init__(self, life: Life, disk: FaultDisk) -> None:
        self.disk: Final = disk
        self.chance: Final = Random(life.seed)
        self._life = life
        self._clock_s = 0.0

    def new_ids(self) -> Iterator[bytes]:
        """Yield ids of ACLs without end."""
        for number in itertools.count(self.chance.getrandbits(64)):
            yield number.to_bytes(16, "big")

    def now_ms(self) -> int:
        return TIME_MS + len(self.disk.calls)

    def read_clock_s(self) -> float:
        """Return the CPU's time. Now and then, a turn has ended since the last reading."""
        if self._life.has_short_turns and self.chance.random() < 0.3:
            self._clock_s += _TURN_S
        return self._clock_s

    def read_clock_ns(self) -> int:
        return int(self.read_clock_s() * 1e9)

    async def let_others_run(self) -> None:
        """Replace ``trio.lowlevel.checkpoint``: now and then, time passes until the next turn."""
        if self.chance.random() < 0.2:
            await trio.sleep(self.chance.choice((0.0001, 0.001, 0.01)))
        else:
            await _checkpoint()

    async def run_sync(
        self,
        function: Callable[..., T],
        *arguments: object,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Replace ``trio.to_thread.run_sync``: run the function in the loop, after a delay.

        A cancelled call still completes, unless it may be abandoned. Then it is cancelled before or
        after the function runs, never within it.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        stalls_s = STALLS_S.get() or self._life.stalls_s
        async with limiter or nullcontext():
            with trio.CancelScope(shield=not abandon_on_cancel):
                await trio.sleep(self.chance.choice(stalls_s))
                try:
                    result = function(*arguments)
                except Exception:
                    await trio.sleep(self.chance.choice(stalls_s))
                    raise
                await trio.sleep(self.chance.choice(stalls_s))
        return result


class _FaultRecorder(logging.Handler):
    """Pass on each fault that the daemon only logs, because it ends one connection."""

    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._on_fault = on_fault

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        if fault is not None and not isinstance(fault, OSError):
            self._on_fault(fault)


class _Connection(Connection):
    """A connection from another machine."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self.address = PEER


@contextmanager
def simulated(
    machine: Machine, life: Life, on_fault: Callable[[BaseException], None], *replaced: Replacement
) -> Iterator[None]:
    """Run a process on this machine: its threads, clocks and disk, and trio's order of tasks.

    Args:
        on_fault: called with each exception that the daemon logs.
        replaced: further attributes and what replaces them.
    """
    scheduler, root = trio._core._run, logging.getLogger()
    level = root.level
    with ExitStack() as stack:
        stack.callback(root.setLevel, level)  # the daemon sets it
        for owner, name, value in (
            (scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
            (scheduler, "_r", Random(life.seed)),
            (trio.to_thread, "run_sync", machine.run_sync),
            (time, "perf_counter", machine.read_clock_s),
            (time, "perf_counter_ns", machine.read_clock_ns),
            (time, "thread_time_ns", machine.read_clock_ns),
            (root, "handlers", [_FaultRecorder(on_fault)]),
            (connection_server, "Connection", _Connection),
            (selector, "perf_counter_ns", machine.read_clock_ns),
            (components, "DISK", machine.disk),
            (lifespan, "automatic_collection_off", nullcontext),
            (own_log, "now_ms", machine.now_ms),
            (own_log, "_random_ids", machine.new_ids),
            *(SHORT_TURNS if life.has_short_turns else ()),
            *(
                ((trio.lowlevel, "checkpoint", machine.let_others_run),)
                if life.has_short_turns
                else ()
            ),
            *replaced,
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield


def new_writer(disk: FaultDisk, segment_bytes: int) -> LogWriter:
    return LogWriter(
        LOG_DIR,
        storage=disk,
        segment_bytes_max=segment_bytes,
        now_ms=lambda: TIME_MS + len(disk.calls),
    )


def read_log(disk: FaultDisk) -> LogState:
    faults = disk.crash_in, disk.crash_at, disk.fail_in, disk.fail_at
    disk.calm()
    found, replay = LogState(), Replay()
    for log_batch in MetadataLog.open(LOG_DIR, disk).batches():
        for step in replay.steps(log_batch):
            if step is not None:
                found.apply((*step.changes, *step.cluster_changes))
    disk.crash_in, disk.crash_at, disk.fail_in, disk.fail_at = faults
    return found


class WatchedLog:
    """An ``OwnLog`` that reports to the invariants before and after each call."""

    def __init__(self, own: OwnLog, disk: FaultDisk, invariants: Invariants) -> None:
        self._own = own
        self._disk = disk
        self._invariants = invariants

    @property
    def last_offset(self) -> int:
        return self._own.last_offset

    async def begin(self, progress: Progress, replay: Replay) -> ChangeBatch:
        begun = await self._own.begin(progress, replay)
        self._invariants.begin(read_log(self._disk), begun.last_offset)
        return begun

    async def append(
        self, batches: Sequence[tuple[LogChange, ...]], before_sync: Callable[[], None]
    ) -> int:
        self._invariants.write(batches)
        try:
            last_offset = await self._own.append(batches, before_sync)
        except UpdateRefusedError:
            self._invariants.refused_to_write()
            raise
        self._invariants.wrote(last_offset)
        return last_offset
