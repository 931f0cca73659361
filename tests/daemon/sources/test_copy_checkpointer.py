from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from authorizerd.acl.builder import build
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.image.cluster import EMPTY_IMAGE
from tests.support.copies import BEGINNING, acl_batch, new_copy, open_copy, read_ids
from tests.support.log_files import added


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
