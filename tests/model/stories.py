"""Run stories, one per seed, and shorten a story that breaks an invariant.

The processes of a story run one after another on one disk, and each may end with an error.
"""

import gc
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final, TypeAlias

import trio

from authorizerd.actors.errors import EndpointStartError, LogWriteError
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, LogNotWrittenError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.meta_properties import format_directory
from authorizerd.metadata.replay import Replay
from tests.faults.disk import UNREAD, FaultDisk
from tests.faults.verdicts import may_stop, whole_size
from tests.faults.workload import BrokenInvariantError
from tests.model.callers import Caller
from tests.model.cluster import Cluster
from tests.model.drawing import draw_story
from tests.model.following import FollowedInvariants, Follower, ListedInvariants
from tests.model.invariants import Invariants, check
from tests.model.kafka_visitor import FollowerKafkaVisitor, KafkaVisitor
from tests.model.machine import LOG_DIR, new_writer
from tests.model.network import Network
from tests.model.process import PROPERTIES, Process
from tests.model.story import HTTP, INSIDE, KAFKA, Client, Life, Story, smaller
from tests.model.visitors import HttpVisitor, StreamVisitor, Visitor
from tests.support.recording_storage import PowerFailure

Broken: TypeAlias = tuple[Story, Exception]
"""A story that breaks an invariant, and its error."""


class StoryRun:
    """One run of a story; ``counts`` has its events."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.disk: Final = FaultDisk(Random(story.seed))
        self.counts: Final[Counter[str]] = Counter()
        self.invariants: Final = _INVARIANTS[story.source]()
        self._clusters: list[Cluster] = []

    def run(self) -> None:
        """Run the story to its end, or raise BrokenInvariantError."""
        if self._story.source is SourceKind.LOG:
            format_directory(LOG_DIR, PROPERTIES, self.disk, self._begin_log)
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
        network = Network(
            Random(life.seed), life.delays_s, splits=life.splits, partitions=life.partitions
        )
        process = self._new_process(life, network)
        is_crash = False
        try:
            with process.on_its_machine():
                errors = self._errors_of_run(process)
                is_crash = any(isinstance(error, PowerFailure) for error in errors)
                if not is_crash:
                    with suppress(PowerFailure):
                        process.close()
                self.counts["checkpoints"] += process.parts.origin.checkpoints.written
                process.check_end(is_crash=is_crash)
        except (PowerFailure, LogDirectoryError, StartError, OSError) as error:
            errors.append(error)  # while it was opened
            is_crash = isinstance(error, PowerFailure)
        self.counts.update(network.faults)
        if process.workers is not None:
            self.counts.update(process.workers.counts)
        if isinstance(process, Follower):
            self.counts.update(process.links.faults)
        self.invariants.end_life(is_clean=not errors, is_crash=is_crash)
        self.counts["lives"] += 1
        self.counts["crashes" if is_crash else "ended by a fault" if errors else "ended well"] += 1
        return errors

    def _new_process(self, life: Life, network: Network) -> Process:
        if isinstance(self.invariants, FollowedInvariants):
            source = self._story.source
            return Follower(life, self.disk, network, self.invariants, self._clusters, source)
        return Process(life, self.disk, network, self.invariants)

    def _errors_of_run(self, process: Process) -> list[BaseException]:
        callers: list[Callable[[], Awaitable[None]]] = []
        visitors: list[Callable[[], Awaitable[None]]] = []
        for number, client in enumerate(process.life.clients):
            if client.surface == INSIDE:
                callers.append(Caller(process, client, number, self.counts).run)
            else:
                visitors.append(_new_visitor(process, client, number, self.counts).run)
        try:
            process.run(_together(callers), _together(visitors))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - judged by the caller
            return list(_leaves(error))
        return []

    def _judge(self, error: BaseException, faults: Counter[str]) -> None:
        """Check that a process may end this way after these faults of its disk."""
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


_INVARIANTS: Final[Mapping[SourceKind, type[Invariants]]] = {
    SourceKind.LOG: Invariants,
    SourceKind.QUORUM: FollowedInvariants,
    SourceKind.BROKERS: ListedInvariants,
}


def _new_visitor(process: Process, client: Client, number: int, counts: Counter[str]) -> Visitor:
    if client.surface == KAFKA:
        if isinstance(process, Follower):
            return FollowerKafkaVisitor(process, client, number, counts)
        return KafkaVisitor(process, client, number, counts)
    kind = HttpVisitor if client.surface == HTTP else StreamVisitor
    return kind(process, client, number, counts)


def _together(tasks: Sequence[Callable[[], Awaitable[None]]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)

    return run


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    elif isinstance(error, StartError) and error.__cause__ is not None:
        yield from _leaves(error.__cause__)
    else:
        yield error


def run_stories(seed: int, stories: int, counts: Counter[str]) -> Broken | None:
    """Run stories from ``seed`` on; return the first that breaks an invariant."""
    before = _list_descriptors()
    for number in range(seed, seed + stories):
        story = draw_story(number)
        run = StoryRun(story)
        error = fault_of(story, run)
        if error is not None:
            return story, error
        counts["stories"] += 1
        counts.update(run.counts + run.invariants.counts + run.disk.faults)
    after = _list_descriptors()
    left = after - before
    check(after.total() <= before.total(), f"descriptors are left open: {sorted(left.elements())}")
    return None


def _list_descriptors() -> Counter[str]:
    """Return what the open descriptors refer to."""
    gc.collect()  # servers that were never opened are in cycles, and so are their descriptors
    found = Counter[str]()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists the others
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    return found


def fault_of(story: Story, run: StoryRun | None = None) -> Exception | None:
    try:
        (run or StoryRun(story)).run()
    except Exception as error:  # noqa: BLE001 - any error is a broken invariant
        return error
    return None


def shortest(broken: Broken) -> Broken:
    """Return the shortest story found that fails, or the story itself if chance decides it."""
    is_shorter = fault_of(broken[0]) is not None
    while is_shorter:
        is_shorter = False
        for less in smaller(broken[0]):
            error = fault_of(less)
            if error is not None:
                broken, is_shorter = (less, error), True
                break
    return broken
