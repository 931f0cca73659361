"""Checkpoints of the copy of a followed log: when they are written, and what they repair."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from authorizerd.acl.index.builder import build
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.image.cluster import EMPTY_IMAGE
from authorizerd.metadata.log_copy import RETRY_SECONDS
from tests.support.copies import BEGINNING, acl_batch, new_copy, open_copy, read_ids
from tests.support.log_files import added
from tests.support.recording_storage import RecordingStorage


@pytest.mark.parametrize("open_at", [-1, 5])
async def test_checkpoint_replaces_the_log_of_the_copy(
    open_at: int, tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The checkpoint waits until the state is complete, and no transaction is open in it."""
    copy = open_copy(tmp_path)
    copy.append([*BEGINNING, acl_batch(2, 1, 2), acl_batch(4, 3, 4)])
    applied = Published[AclSnapshot | None](None)
    checkpointer = CopyCheckpointer(
        copy,
        SourceStatus(SourceKind.QUORUM),
        applied,
        Published(EMPTY_IMAGE),
        is_complete=lambda offset: offset != open_at,
        bytes_between=100,
    )
    nursery.start_soon(checkpointer.run)

    async def apply(offset: int, last_number: int) -> int:
        """Publish a state; return how many checkpoints have been written some seconds later."""
        applied.publish(build(map(added, range(1, last_number + 1)), offset=offset))
        await trio.sleep(5)
        return checkpointer.statistics.written

    assert await apply(3, 2) == 0, "the copy is newer"
    if open_at == 5:
        assert await apply(5, 4) == 0
        await trio.to_thread.run_sync(copy.append, [acl_batch(6, 5)])
    while not await apply(6 if open_at == 5 else 5, 5 if open_at == 5 else 4):
        pass  # the thread that writes it takes real time
    copy.close()
    again = new_copy(tmp_path)
    again.open()
    assert next(again.batches()).is_checkpoint
    assert len(read_ids(list(again.batches()))) == (5 if open_at == 5 else 4)


async def wait_for(holds: Callable[[], bool]) -> None:
    """Let virtual seconds pass, since the thread that writes takes real time."""
    while not holds():  # noqa: ASYNC110 - no event tells what a thread has done
        await trio.sleep(1)


async def test_copy_that_was_behind_is_completed(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The disk was full for a while. The status says so until a checkpoint has caught up."""
    now = 0.0
    storage = RecordingStorage(number=errno.ENOSPC)
    copy = open_copy(tmp_path, storage, clock=lambda: now)
    copy.append([*BEGINNING, acl_batch(2, 1)])
    status = SourceStatus(SourceKind.QUORUM)
    applied = Published[AclSnapshot | None](build(map(added, (1, 2)), offset=3))
    checkpointer = CopyCheckpointer(
        copy,
        status,
        applied,
        Published(EMPTY_IMAGE),
        is_complete=lambda _: True,
        bytes_between=1 << 20,
    )
    nursery.start_soon(checkpointer.run)
    storage.failing = "append"
    copy.append([acl_batch(3, 2)])
    await trio.sleep(10)
    assert "No space left" in status.copy_fault
    assert checkpointer.statistics.written == 0
    now = RETRY_SECONDS
    storage.failing = "append"
    await wait_for(lambda: checkpointer.statistics.failures > 0)
    assert status.copy_fault, "the disk is still full"
    now += RETRY_SECONDS
    await wait_for(lambda: not status.copy_fault)
    assert checkpointer.statistics.written == 1
    copy.close()
    again = new_copy(tmp_path)
    again.open()
    assert read_ids(list(again.batches())) == {1, 2}
