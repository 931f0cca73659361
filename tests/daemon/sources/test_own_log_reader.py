from __future__ import annotations

from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.record_applier import CaughtUp, RecordApplier
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.replay import Replay
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    data_batch,
    flipped,
    write_checkpoint,
    write_log,
    write_segment,
)


async def received(log_dir: Path) -> list[ChangeBatch | CaughtUp]:
    feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](1000)
    await LocalLogSource(MetadataLog.open(log_dir)).run(feed)
    return [message async for message in inbox]


async def test_batches_come_in_log_order_before_the_end_marker(tmp_path: Path) -> None:
    """Control batches and skipped records advance the offset without changing anything."""
    write_log(tmp_path, [added(1)], [added(2), added(3)])
    assert await received(tmp_path) == [
        ChangeBatch(0),
        ChangeBatch(1, cluster_changes=(METADATA_VERSION,)),
        ChangeBatch(2, (added(1),)),
        ChangeBatch(4, (added(2), added(3))),
        CaughtUp(4),
    ]


async def test_transaction_is_passed_on_at_its_end(tmp_path: Path) -> None:
    begin, end = BeginTransaction("t"), EndTransaction()
    write_log(tmp_path, [begin, added(1)], [added(2), end], [begin, added(3)])
    messages = await received(tmp_path)
    assert messages[2:] == [
        ChangeBatch(3),
        ChangeBatch(5, (added(1), added(2))),
        ChangeBatch(7),
        CaughtUp(7),
    ]


async def test_first_written_batch_is_passed_on(tmp_path: Path) -> None:
    """It may hold a new log's features, which a checkpoint must contain."""
    write_segment(tmp_path, 0, data_batch(0, [added(1)], epoch=0))
    begun = ChangeBatch(7, cluster_changes=(METADATA_VERSION,))

    class Written(OwnLog):
        def __init__(self) -> None:
            self.last_offset = -1

        async def begin(self, progress: Progress, replay: Replay) -> ChangeBatch:
            assert progress.last_offset == 0
            self.last_offset = begun.last_offset
            return begun

    feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](10)
    source = LocalLogSource(MetadataLog.open(tmp_path), Written())
    await source.run(feed)
    messages = [message async for message in inbox]
    assert messages == [ChangeBatch(0, (added(1),)), begun, CaughtUp(7)]
    assert source.high_watermark == 7


async def test_nothing_after_damage_is_passed_on(tmp_path: Path) -> None:
    """The channel is closed without the end marker, so nothing is published."""
    good, bad = data_batch(0, [METADATA_VERSION]), data_batch(1, [added(1)])
    write_segment(tmp_path, 0, good, flipped(bad, 70), data_batch(2, [added(2)]))
    feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](1000)
    applier = RecordApplier(inbox)
    with pytest.raises(CorruptLogError):
        await LocalLogSource(MetadataLog.open(tmp_path)).run(feed)
    await applier.run()
    assert applier.snapshot.newest is None


async def test_damaged_checkpoint_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the same state."""
    write_log(tmp_path, [added(1)])
    path = write_checkpoint(tmp_path, 3, [METADATA_VERSION, added(1)])
    path.write_bytes(path.read_bytes()[:-1])
    messages = await received(tmp_path)
    assert messages[-1] == CaughtUp(2)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert (
        f"damaged checkpoint is skipped; the log still has its content: {path}: at byte "
        in record.getMessage()
    )


async def test_loading_yields_to_other_tasks(tmp_path: Path) -> None:
    write_log(tmp_path, [added(number) for number in range(10_000)])
    feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](1)
    applier = RecordApplier(inbox)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        nursery.start_soon(applier.run)
        await LocalLogSource(MetadataLog.open(tmp_path)).run(feed)
        await applier.snapshot.wait_until(lambda snapshot: snapshot is not None)
        nursery.cancel_scope.cancel()
    assert applier.statistics().acls == 10_000
    assert turns > 100
