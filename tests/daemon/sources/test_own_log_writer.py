"""The OwnLog in its thread, and the Checkpointer over a real log with manual time and failures."""

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import AclAdded, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.published import Published
from authorizerd.daemon.sources import own_log_writer as own_log
from authorizerd.daemon.sources.own_log_writer import (
    CHECK_SECONDS,
    RETRY_SECONDS,
    Checkpointer,
    CheckpointPolicy,
    OwnLog,
)
from authorizerd.image.changes import TopicAdded
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_files
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import Storage
from authorizerd.metadata.writer import LogWriter
from tests.metadata.reading import numbers
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    read_acls,
    read_cluster,
    removed,
    write_log,
)
from tests.support.recording_storage import RecordingStorage

pytestmark = pytest.mark.usefixtures("autojump_clock")

NEVER = 2**62
QUOTA_RECORD = bytes.fromhex("01 0e 00 00")
"""The start of a ClientQuotaRecord, a type that checkpoints do not store."""
CONTROLLER_RECORD = bytes.fromhex("01 1b 00 00")
NO_OP_RECORD = bytes.fromhex("01 14 00 00")


def new_writer(log_dir: Path) -> LogWriter:
    return LogWriter(log_dir, storage=Storage(), segment_bytes_max=300, now_ms=lambda: 1)


def read_whole(log_dir: Path) -> tuple[Progress, Replay]:
    log, replay = MetadataLog.open(log_dir), Replay()
    for batch in log.batches():
        list(replay.steps(batch))
    return log.progress, replay


async def test_append_runs_in_a_thread_and_returns_the_last_offset(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    own = OwnLog(new_writer(tmp_path), node_id=1)
    begun = await own.begin(*read_whole(tmp_path))
    assert begun == ChangeBatch(3, cluster_changes=(METADATA_VERSION,))
    threads: list[threading.Thread] = []
    assert (
        await own.append(
            [(added(2), added(3)), (removed(1),)],
            before_sync=lambda: threads.append(threading.current_thread()),
        )
        == 6
    )
    assert threads == [threading.current_thread()]
    assert numbers(tmp_path) == {2, 3}


async def test_append_without_a_free_descriptor_is_refused(tmp_path: Path) -> None:
    """Nothing was written, and the next append succeeds."""
    write_log(tmp_path, [added(1)])
    storage = RecordingStorage(number=errno.EMFILE)
    writer = LogWriter(tmp_path, storage=storage, segment_bytes_max=300, now_ms=lambda: 1)
    own = OwnLog(writer, node_id=1)
    await own.begin(*read_whole(tmp_path))
    last = tuple(added(number) for number in range(2, 9))
    storage.failing = "append_to"
    with pytest.raises(UpdateRefusedError, match=r"Too many open files.*try again"):
        await own.append([last])
    assert numbers(tmp_path) == {1}
    await own.append([last])
    assert numbers(tmp_path) == set(range(1, 9))


class Running:
    """A running checkpointer, and a log that ``append`` extends."""

    def __init__(self, log_dir: Path, storage: RecordingStorage, policy: CheckpointPolicy) -> None:
        self.log_dir = log_dir
        self.storage = storage
        self.writer = new_writer(log_dir)
        progress, replay = read_whole(log_dir)
        self.writer.start(progress, replay, node_id=1)
        records = [AclAdded(*each) for each in read_acls(log_dir).items()]
        self.published: Published[AclSnapshot | None] = Published(
            build(records, self.writer.last_offset)
        )
        self.cluster: Published[ClusterImage] = Published(read_cluster(log_dir))
        self.bytes_read = 0
        self.checkpointer = Checkpointer(
            log_dir,
            self.writer,
            self.published,
            self.cluster,
            policy,
            replay=replay,
            storage=storage,
            bytes_read=lambda: self.bytes_read,
        )
        self.statistics = self.checkpointer.statistics

    def append(self, *changes: Change) -> None:
        self.writer.append([changes])
        newest = self.published.newest
        assert newest is not None
        self.published.publish(at_offset(apply_changes(newest, changes), self.writer.last_offset))

    @property
    def end_offsets(self) -> list[int]:
        return [each.end_offset for each in find_files(self.log_dir).checkpoints]


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return a function that starts a checkpointer, which works without a thread.

    While a thread worked, the virtual clock would jump.
    """

    async def run_sync(function: Callable[..., Any], *arguments: object, **_: object) -> object:
        await trio.lowlevel.checkpoint()
        return function(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)

    def start(
        *,
        bytes_between: int = NEVER,
        interval_s: float = 0,
        retention_bytes: int = -1,
        retention_ms: int = -1,
        bytes_read: int = 0,
        batches: tuple[Any, ...] = ([added(1)],),
    ) -> Running:
        write_log(tmp_path, *batches)
        policy = CheckpointPolicy(
            bytes_between=bytes_between,
            interval_ms=int(interval_s * 1000),
            retention_bytes=retention_bytes,
            retention_ms=retention_ms,
        )
        running = Running(tmp_path, RecordingStorage(), policy)
        running.bytes_read = bytes_read
        nursery.start_soon(running.checkpointer.run)
        return running

    return start


async def looked() -> None:
    """Let the checkpointer check once, and wait until it is idle."""
    await trio.sleep(1.5 * CHECK_SECONDS)


async def test_checkpoint_is_due_after_a_number_of_bytes(start: Start) -> None:
    """It holds the published state up to the last offset; then the count restarts."""
    running = start(bytes_between=1000)
    await looked()
    assert running.end_offsets == []
    while running.writer.bytes_written < 1000:
        running.append(added(running.writer.last_offset))
    end_offset = running.writer.last_offset + 1
    await looked()
    assert running.end_offsets == [end_offset]
    assert running.statistics.last_end_offset == end_offset
    [checkpoint] = find_files(running.log_dir).checkpoints
    assert checkpoint.epoch == running.writer.epoch
    assert read_acls(checkpoint.path) == read_acls(running.log_dir)
    running.append(added(1000))
    await looked()
    assert running.statistics.written == 1
    while running.writer.bytes_written < 2200:
        running.append(added(running.writer.last_offset))
    await looked()
    assert running.statistics.written == 2


async def test_bytes_read_since_the_last_checkpoint_count(start: Start) -> None:
    """Otherwise a daemon that restarts often would never write a checkpoint."""
    running = start(bytes_between=1000, bytes_read=900)
    running.append(added(2))
    await looked()
    assert len(running.end_offsets) == 1
    await trio.sleep(1000)
    assert running.statistics.written == 1


async def test_checkpoint_is_due_after_an_interval_only_with_a_change(start: Start) -> None:
    running = start(interval_s=100)
    await trio.sleep(98)
    assert running.end_offsets == []
    await trio.sleep(4)
    assert running.end_offsets == [4]
    running.append(added(2))
    await trio.sleep(50)
    assert running.end_offsets == [4]
    await trio.sleep(54)
    assert running.end_offsets == [4, 5]
    await trio.sleep(1000)
    assert len(running.storage.named("rename")) == running.statistics.written == 2


async def test_interval_of_0_turns_the_interval_off(start: Start) -> None:
    running = start(interval_s=0)
    running.append(added(2))
    await trio.sleep(4000)
    assert running.end_offsets == []


async def test_no_snapshot_is_kept_between_two_checks(start: Start) -> None:
    """Freeing a snapshot that many changes have replaced would block the event loop."""
    newest = start().published.newest
    held = sys.getrefcount(newest)
    await looked()
    assert sys.getrefcount(newest) == held


async def test_log_with_foreign_records_gets_no_checkpoint(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    running = start(bytes_between=1, interval_s=1, batches=([added(1)], [QUOTA_RECORD]))
    running.append(added(2))
    await trio.sleep(100)
    assert running.storage.calls == []
    assert "no checkpoints are written" in caplog.text
    assert "of types 14" in caplog.text


async def test_checkpoint_contains_the_topics_of_the_log(start: Start) -> None:
    topic = TopicAdded("t", b"t" * 16)
    batches = [added(1), topic], [CONTROLLER_RECORD, NO_OP_RECORD]
    running = start(bytes_between=1, batches=batches)
    await looked()
    [checkpoint] = find_files(running.log_dir).checkpoints
    assert checkpoint.end_offset == running.writer.last_offset + 1
    assert read_cluster(checkpoint.path) == read_cluster(running.log_dir)
    assert read_cluster(checkpoint.path).topics["t"].id == topic.id


@pytest.mark.parametrize("failing", ["append_to", "append", "sync", "rename", "sync_directory"])
async def test_failed_checkpoint_is_counted_and_retried_later(
    start: Start, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile appends continue."""
    running = start(bytes_between=1)
    running.storage.failing = failing
    await looked()
    assert (running.statistics.written, running.statistics.failures) == (0, 1)
    assert "checkpoint at offset 4" in caplog.text
    running.append(added(2))
    await trio.sleep(RETRY_SECONDS / 2)
    assert running.statistics.written == 0
    await trio.sleep(RETRY_SECONDS)
    assert (running.statistics.written, running.statistics.failures) == (1, 1)
    assert running.end_offsets[-1] == 5
    assert numbers(running.log_dir) == {1, 2}


async def test_failed_removal_is_retried_without_another_checkpoint(start: Start) -> None:
    running = start(bytes_between=1, retention_bytes=0)
    await looked()
    running.append(added(2))
    running.storage.failing = "remove"
    await looked()
    assert (running.statistics.written, running.statistics.failures) == (2, 1)
    assert running.end_offsets == [4, 5]
    await trio.sleep(RETRY_SECONDS / 2)
    assert running.end_offsets == [4, 5]
    await trio.sleep(2 * RETRY_SECONDS)
    assert running.end_offsets == [5]
    assert (running.statistics.written, running.statistics.failures) == (2, 1)
    running.append(added(3))
    await looked()
    assert running.end_offsets == [6]


async def test_directory_that_cannot_be_listed_is_logged_and_retried(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    def refuse(*_: object) -> None:
        raise LogDirectoryError("no files can be opened")

    running = start(bytes_between=1, retention_bytes=0)
    await looked()
    with monkeypatch.context() as patched:
        patched.setattr(own_log, "find_files", refuse)
        running.append(added(2))
        await trio.sleep(1.5 * RETRY_SECONDS)
        assert running.statistics.failures == 2
        assert "superseded log files cannot be removed: no files can be opened" in caplog.text
    assert running.end_offsets == [4, 5]
    await trio.sleep(2 * RETRY_SECONDS)
    assert running.end_offsets == [5]


@pytest.mark.parametrize(("retention_bytes", "kept"), [(-1, 3), (0, 1), (NEVER, 3)])
async def test_retention_by_bytes(start: Start, retention_bytes: int, kept: int) -> None:
    """-1 keeps all; 0 keeps only what the newest checkpoint needs."""
    running = start(bytes_between=1, retention_bytes=retention_bytes)
    for number in (2, 3, 4):
        running.append(added(number))
        await looked()
    assert len(running.end_offsets) == kept
    assert numbers(running.log_dir) == {1, 2, 3, 4}
    assert len(find_files(running.log_dir).segments) == (1 if kept == 1 else 3)


@pytest.mark.parametrize(("retention_ms", "kept"), [(-1, 2), (3_600_000, 1), (0, 1)])
async def test_retention_by_age(start: Start, retention_ms: int, kept: int) -> None:
    """The age is the wall-clock time since the file was last written."""
    running = start(bytes_between=1, retention_ms=retention_ms)
    await looked()
    [path] = (running.log_dir / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint")
    os.utime(path, (1000, 1000))
    running.append(added(2))
    await looked()
    assert len(running.end_offsets) == kept
    assert running.end_offsets[-1] == 5


class HeldStorage(Storage):
    """A storage whose appends block their thread until ``goes_on`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def size(self, path: Path) -> int:
        assert self.goes_on.wait(timeout=30)
        return super().size(path)


async def test_cancelled_append_is_waited_for(tmp_path: Path) -> None:
    """The daemon never closes the log while a thread still writes."""
    write_log(tmp_path, [added(1)])
    storage = HeldStorage()
    own = OwnLog(
        LogWriter(tmp_path, storage=storage, segment_bytes_max=300, now_ms=lambda: 1), node_id=1
    )
    await own.begin(*read_whole(tmp_path))
    storage.goes_on.clear()
    scope = trio.CancelScope()
    ended = trio.Event()

    async def append() -> None:
        with scope:
            await own.append([(added(2),)])
        ended.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            storage.goes_on.set()
    finally:
        storage.goes_on.set()
    assert numbers(tmp_path) == {1, 2}
