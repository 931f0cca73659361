"""A copy's directory, which never becomes a log of its own nor the reverse; its checkpoints."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from authorizerd.acl.index.builder import build
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.daemon.sources.copy_directory import claim_copy_directory, prepare_copy_directory
from authorizerd.daemon.sources.own_log_directory import (
    check_log_is_there,
    claim_log_directory,
    format_log_directory,
)
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.image.cluster import EMPTY_IMAGE
from authorizerd.metadata.copy_directory import MARK_NAME, CopyMark, read_mark, write_mark
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.log_copy import RETRY_SECONDS, LogCopy
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.storage import DISK, PRIVATE_DISK, Storage
from tests.support.copies import BEGINNING, CLUSTER_ID, acl_batch, begun_copy, new_copy, read_ids
from tests.support.log_files import added, write_log
from tests.support.recording_storage import RecordingStorage

pytestmark = pytest.mark.usefixtures("autojump_clock")

KINDS = [SourceKind.QUORUM, SourceKind.BROKERS]


def claim(log_dir: Path, kind: SourceKind = SourceKind.QUORUM, node_id: int = 1) -> str:
    """Claim a directory as ``serve`` does; return the id of its cluster."""
    prepare_copy_directory(log_dir, PRIVATE_DISK)
    properties = claim_copy_directory(log_dir, kind, node_id=node_id, storage=PRIVATE_DISK)
    assert properties.node_id == node_id
    return properties.cluster_id


def make_copy(log_dir: Path) -> None:
    begun_copy(log_dir).close()


def format_own(log_dir: Path) -> None:
    format_log_directory(log_dir, cluster_id=None, node_id=1, storage=DISK)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_directory_is_created_and_marked(tmp_path: Path, kind: SourceKind) -> None:
    """No format is needed. The directory is the owner's alone."""
    log_dir = tmp_path / "parent" / "copy"
    assert claim(log_dir, kind) == ""
    assert [each.name for each in log_dir.iterdir()] == [MARK_NAME]
    assert log_dir.stat().st_mode & 0o777 == 0o700
    assert claim(log_dir, kind) == ""


def test_copy_keeps_its_secret(tmp_path: Path) -> None:
    """Also if its log is set aside, or another version wrote it."""
    secret = claim_secret(tmp_path)
    assert len(secret) >= 32
    copy = LogCopy(tmp_path, node_id=1, storage=PRIVATE_DISK, segment_bytes_max=1 << 30)
    copy.open()
    copy.adopt_cluster(CLUSTER_ID)
    copy.append(BEGINNING)
    copy.close()
    assert claim_secret(tmp_path) == secret
    for records in ("1-before", KEPT_RECORDS):
        mark = read_mark(tmp_path)
        assert mark is not None
        write_mark(tmp_path, replace(mark, kept_records=records), PRIVATE_DISK)
        (tmp_path / "meta.properties").write_text("version=9\n")
        copy.open()
        copy.close()
        assert (tmp_path / "copy-set-aside").exists()
        assert claim_secret(tmp_path) == secret
    assert (tmp_path / MARK_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("records", [KEPT_RECORDS, "1-before"])
def test_old_copy_gets_a_secret(tmp_path: Path, records: str) -> None:
    """If the disk is full, a later start adds it."""
    mark = CopyMark("quorum", records)
    write_mark(tmp_path, mark, PRIVATE_DISK)
    unsaved = claim_secret(tmp_path, RecordingStorage("append_to"))
    assert read_mark(tmp_path) == mark
    secret = claim_secret(tmp_path)
    assert len(unsaved) >= 32
    assert secret != unsaved
    assert claim_secret(tmp_path) == secret
    assert read_mark(tmp_path) == replace(mark, secret=secret)


def claim_secret(log_dir: Path, storage: Storage = PRIVATE_DISK) -> str:
    return claim_copy_directory(log_dir, SourceKind.QUORUM, node_id=1, storage=storage).secret


def test_mark_is_durable_before_it_is_relied_upon(tmp_path: Path) -> None:
    """An earlier start may have ended between naming the mark and syncing its name."""
    claim(tmp_path)
    storage = RecordingStorage()
    claim_copy_directory(tmp_path, SourceKind.QUORUM, node_id=1, storage=storage)
    assert storage.calls == [("sync_directory", tmp_path.name)]


@pytest.mark.parametrize(
    "make_own",
    [
        format_own,
        write_log,
        lambda log_dir: (log_dir / "meta.properties.format").touch(),
        lambda log_dir: (log_dir / "meta.properties").write_text(
            "version=1\ncluster.id=x\nnode.id=1\n"
        ),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_own_log_does_not_become_a_copy(
    tmp_path: Path, make_own: Callable[[Path], object], kind: SourceKind
) -> None:
    """The error says how to carry the ACLs over. Nothing is changed."""
    make_own(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StartError, match="authorizerd acls import "):
        prepare_copy_directory(tmp_path, PRIVATE_DISK)
    with pytest.raises(StartError, match="a log of its own"):
        claim_copy_directory(tmp_path, kind, node_id=1, storage=PRIVATE_DISK)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("is_empty", [False, True])
def test_copy_does_not_become_an_own_log(tmp_path: Path, is_empty: bool) -> None:
    if is_empty:
        claim(tmp_path)
    else:
        make_copy(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StartError, match=r"controller\.quorum\.bootstrap\.servers"):
        check_log_is_there(tmp_path)
    with pytest.raises(StartError, match="a copy of a followed cluster"):
        claim_log_directory(tmp_path, node_id=1, storage=DISK)
    with pytest.raises(StartError, match="authorizerd acls export "):
        format_own(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_copy_of_another_source_is_refused(tmp_path: Path) -> None:
    claim(tmp_path, SourceKind.BROKERS)
    with pytest.raises(StartError, match=r"expected brokers, .*reset-copy"):
        claim(tmp_path, SourceKind.QUORUM)
    with pytest.raises(StartError, match=r"set authorizerd\.source=brokers"):
        check_log_is_there(tmp_path)


def test_copy_of_another_node_is_refused(tmp_path: Path) -> None:
    make_copy(tmp_path)
    with pytest.raises(StartError, match=r"node\.id: 2, but .* is the copy of node 1"):
        claim(tmp_path, node_id=2)


def test_damaged_properties_are_left_to_recovery(tmp_path: Path) -> None:
    make_copy(tmp_path)
    assert claim(tmp_path) == CLUSTER_ID
    (tmp_path / "meta.properties").write_text("version=9\n")
    assert claim(tmp_path) == ""


def test_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LogDirectoryError, match="file"):
        prepare_copy_directory(file / "copy", PRIVATE_DISK)
    storage = RecordingStorage("append_to")
    with pytest.raises(LogDirectoryError, match="error"):
        claim_copy_directory(tmp_path, SourceKind.QUORUM, node_id=1, storage=storage)


@pytest.mark.parametrize("open_at", [-1, 5])
async def test_checkpoint_replaces_the_log_of_the_copy(
    open_at: int, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """The checkpoint waits until the state is complete, and no transaction is open in it."""
    copy = begun_copy(tmp_path, acl_batch(2, 1, 2), acl_batch(4, 3, 4))
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


async def test_copy_that_was_behind_is_completed(tmp_path: Path, nursery: trio.Nursery) -> None:
    """The disk was full for a while. The status says so until a checkpoint has caught up."""
    now = 0.0
    storage = RecordingStorage(number=errno.ENOSPC)
    copy = begun_copy(tmp_path, acl_batch(2, 1), storage=storage, clock=lambda: now)
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
