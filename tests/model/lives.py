"""Run a story: its processes run one after another on one disk, and each may end with an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from typing import Final
from unittest.mock import patch

import trio
from trio.testing import MockClock

from authorizerd.acl import filters, updates
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.actors import record_applier, update_queue
from authorizerd.actors.errors import EndpointStartError, LogWriteError
from authorizerd.daemon.sources import own_log_reader as log_source
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, LogNotWrittenError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.meta_properties import MetaProperties, format_directory
from authorizerd.metadata.replay import Replay
from tests.faults.disk import UNREAD, FaultDisk
from tests.faults.verdicts import may_stop, whole_size
from tests.faults.workload import BrokenInvariantError
from tests.model.clients import ClientTask
from tests.model.invariants import Invariants
from tests.model.process import Process
from tests.model.story import Life, Story
from tests.model.watched_log import LOG_DIR, new_writer
from tests.support.recording_storage import PowerFailure

SHORT_TURNS: Final = (
    (filters, "ACLS_PER_STEP", 1),
    (updates, "_ITEMS_PER_STEP", 1),
    (updates, "_LOOKUPS_PER_STEP", 1),
    (record_applier, "CHANGES_PER_SLICE", 1),
    (update_queue, "CHANGES_PER_FLUSH_MAX", RECORDS_PER_REQUEST_MAX + 1),
    (log_source, "BATCHES_PER_READ", 1),
)
"""The smallest steps of long work, so that other tasks run in between."""


class StoryRun:
    """One run of a story; ``counts`` has its events."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.disk: Final = FaultDisk(Random(story.seed))
        self.counts: Final[Counter[str]] = Counter()
        self.invariants: Final = Invariants()

    def run(self) -> None:
        """Run the story to its end.

        Raises:
            BrokenInvariantError: an invariant does not hold.
        """
        format_directory(LOG_DIR, MetaProperties("cluster", 1, "d"), self.disk, self._begin_log)
        self.disk.end_process()
        for life in self._story.lives:
            self._live(life)

    def _begin_log(self) -> None:
        writer = new_writer(self.disk, 1 << 30)
        writer.start(Progress(), Replay(), node_id=1)
        writer.close()

    def _live(self, life: Life) -> None:
        disk = self.disk
        disk.crash_in, disk.crash_at = life.crash_in, life.crash_at
        disk.fail_in, disk.fail_at = life.fail_in, life.fail_at
        faults = disk.faults.copy()
        errors = self._errors_of(life)
        for error in errors:
            if len(errors) == 1 or not isinstance(error, EndpointStartError):  # follows from others
                self._judge(error, disk.faults - faults)
        if life.is_power_lost:
            disk.lose_power()
        else:
            disk.end_process()

    def _errors_of(self, life: Life) -> list[BaseException]:
        """Run one process to its end; return the errors that ended it."""
        errors: list[BaseException] = []
        process: Process | None = None
        try:
            process = Process(life, self.disk, self.invariants)
            self._run(process)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - judged below
            errors = list(_leaves(error))
        is_crash = any(isinstance(error, PowerFailure) for error in errors)
        if process is not None:
            if not is_crash:
                with suppress(PowerFailure):
                    process.close()
            self.counts["checkpoints"] += process.checkpointer.statistics.written
            process.check_end(is_crash=is_crash)
        self.invariants.end_life(is_clean=not errors, is_crash=is_crash)
        self.counts["lives"] += 1
        self.counts["crashes" if is_crash else "ended by a fault" if errors else "ended well"] += 1
        return errors

    def _run(self, process: Process) -> None:
        tasks = [ClientTask(process, client, self.counts) for client in process.life.clients]

        async def serve() -> None:
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(task.run)

        with _deterministic(process):
            trio.run(
                process.run, serve, clock=MockClock(autojump_threshold=0), instruments=[process]
            )

    def _judge(self, error: BaseException, faults: Counter[str]) -> None:
        """Check that a process may end this way after these faults of its disk.

        Raises:
            BrokenInvariantError: it may not.
        """
        match error:
            case PowerFailure():
                return
            case LogWriteError() | OSError() | LogDirectoryError() | LogNotWrittenError() if faults:
                return
            case CorruptLogError() if faults[UNREAD]:
                return
            case CorruptLogError() if self._stops_rightly(error):
                self.counts["stopped: reordered sectors"] += 1
            case _:
                raise BrokenInvariantError(f"the process ends with {error!r}") from error

    def _stops_rightly(self, error: CorruptLogError) -> bool:
        """Return True if recovery may refuse this log; then repair it, as an operator would."""
        self.disk.end_process()
        content = self.disk.content(error.path)
        if not may_stop(bytes(content.seen), bytes(content.written)):
            return False
        whole = whole_size(bytes(content.seen), bytes(content.written))
        if whole < content.synced:
            return False
        content.truncate(whole)
        return True


@contextmanager
def _deterministic(process: Process) -> Iterator[None]:
    """Schedule trio's tasks by the seed, and run the work of threads in the loop."""
    scheduler = trio._core._run
    with ExitStack() as stack:
        replaced: list[tuple[object, str, object]] = [
            (scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
            (scheduler, "_r", Random(process.life.seed)),
            (trio.to_thread, "run_sync", process.run_sync),
        ]
        if process.life.has_short_turns:
            replaced += SHORT_TURNS
        for module, name, value in replaced:
            stack.enter_context(patch.object(module, name, value))
        yield


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
