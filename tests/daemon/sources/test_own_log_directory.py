"""The daemon's own log: its directory, and what is read from it."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.record_applier import CaughtUp, RecordApplier
from authorizerd.cli.main import main
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.own_log_directory import (
    UUID_BYTES,
    claim_log_directory,
    format_log_directory,
    new_uuid,
)
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.image.changes import CredentialAdded
from authorizerd.metadata.directory import CLEAN_SHUTDOWN_NAME, METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.meta_properties import NAME, MetaProperties, read_meta_properties
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction
from tests.support.daemon_process import write_config
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    data_batch,
    flipped,
    read_acls,
    write_checkpoint,
    write_file,
    write_log,
    write_segment,
)
from tests.support.recording_storage import PowerFailure, RecordingStorage
from tests.support.sasl import SHA_256, credential_of
from tests.support.turns import Turns

ID = re.compile(r"[A-Za-z0-9_-]{22}")


def formatted(
    log_dir: Path,
    *,
    cluster_id: str | None = None,
    storage: Storage = DISK,
    credentials: Sequence[CredentialAdded] = (),
) -> MetaProperties:
    return format_log_directory(
        log_dir, cluster_id=cluster_id, node_id=1, storage=storage, credentials=credentials
    )


def claimed(log_dir: Path, *, node_id: int = 1) -> MetaProperties:
    return claim_log_directory(log_dir, node_id=node_id, storage=DISK)


def test_formatted_directory_is_claimed_by_its_node(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    properties = formatted(log_dir, cluster_id="my-cluster")
    assert claimed(log_dir) == properties
    assert properties.cluster_id == "my-cluster"
    assert read_acls(log_dir) == {}


def test_missing_log_error_names_a_cure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is written, not even a lock file."""
    log_dir = tmp_path / "log"
    config = write_config(tmp_path, log_dir)
    for _ in ("missing", "empty"):
        assert main(["serve", "--config", str(config)]) == 1
        said = capfd.readouterr().err
        assert said == (
            f"authorizerd: {log_dir}: no metadata log found (expected __cluster_metadata-0 in it). "
            "Run `authorizerd format` for a new node, or check that the volume is mounted\n"
        )
        log_dir.mkdir(exist_ok=True)
    assert list(log_dir.iterdir()) == []


def test_format_warns_of_other_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The log directory is perhaps a typo."""
    for name in ("lost+found", "important.txt"):
        log_dir = tmp_path / f"log of {name}"
        (log_dir / name).mkdir(parents=True)
        assert main(["format", "--config", str(write_config(tmp_path, log_dir))]) == 0
        said = capfd.readouterr().err
        if name == "lost+found":
            assert said == ""
        else:
            assert said == (
                f"authorizerd: warning: {log_dir}: expected an empty directory, found "
                "'important.txt': if log.dirs is wrong, remove meta.properties and "
                "__cluster_metadata-0 there\n"
            )


def test_file_in_formats_way_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(tmp_path / "log")
    obstacle = tmp_path / "log" / CLEAN_SHUTDOWN_NAME
    obstacle.unlink()
    obstacle.mkdir()
    assert main(["serve", "--config", str(write_config(tmp_path, tmp_path / "log"))]) == 1
    assert f"{obstacle}: Is a directory\n" in capfd.readouterr().err


def test_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    formatted(tmp_path / "log")
    with pytest.raises(StartError, match=r"node\.id: 2, but .* belongs to node 1"):
        claimed(tmp_path / "log", node_id=2)


def test_log_of_a_quorum_is_refused_unchanged(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    voters = b'{"leaderId":1,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    write_file(tmp_path, "quorum-state", voters)
    with pytest.raises(LogDirectoryError, match=r"a quorum with node 2\."):
        claimed(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [METADATA_TOPIC_DIRECTORY]


def test_log_of_a_single_kafka_node_is_claimed_with_ids(real_log_dir: Path, tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    shutil.copytree(real_log_dir, log_dir)
    assert claimed(log_dir).cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"


def test_log_without_properties_gets_a_cluster_id(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    properties = claimed(tmp_path)
    assert ID.fullmatch(properties.cluster_id)
    assert claimed(tmp_path) == read_meta_properties(tmp_path) == properties


def test_directory_without_a_log_is_not_claimed(tmp_path: Path) -> None:
    """An operator may still format it, so nothing is written."""
    with pytest.raises(LogDirectoryError, match=METADATA_TOPIC_DIRECTORY):
        claimed(tmp_path)
    assert list(tmp_path.iterdir()) == []
    formatted(tmp_path)
    claimed(tmp_path)


@pytest.mark.parametrize("make", [formatted, lambda log_dir: write_log(log_dir, [added(1)])])
def test_format_keeps_a_present_log(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path)
    before = read_meta_properties(tmp_path), read_acls(tmp_path)
    with pytest.raises(LogDirectoryError, match="already formatted; nothing was changed"):
        formatted(tmp_path)
    assert (read_meta_properties(tmp_path), read_acls(tmp_path)) == before


def test_credentials_for_a_formatted_directory_are_not_added(tmp_path: Path) -> None:
    """Otherwise the operator would believe that the users can log in."""
    formatted(tmp_path / "log")
    users = [credential_of(each, "secret", SHA_256) for each in ("alice", "bob", "alice")]
    with pytest.raises(LogDirectoryError) as error:
        formatted(tmp_path / "log", credentials=users)
    assert "no credential was added for alice, bob. Start the daemon, and add" in str(error.value)
    assert "kafka-configs" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("mask", [0, 0o077])
def test_log_is_private_to_its_user_and_group(tmp_path: Path, mask: int) -> None:
    """It may have SCRAM credentials. A stricter umask is kept."""
    before = os.umask(mask)
    try:
        formatted(tmp_path / "log")
        with locked(tmp_path / "log"):
            pass
    finally:
        os.umask(before)
    paths = [tmp_path / "log", *(tmp_path / "log").rglob("*")]
    assert len(paths) >= 5
    for path in paths:
        mode = 0o750 if path.is_dir() else 0o640
        assert path.stat().st_mode & 0o777 == mode & ~mask, path


@pytest.mark.parametrize("cluster_id", ["", "a b", "a\nnode.id=2", "back\\slash", "é", "日"])
def test_invalid_cluster_id_is_refused(tmp_path: Path, cluster_id: str) -> None:
    with pytest.raises(StartError, match="--cluster-id: "):
        formatted(tmp_path / "log", cluster_id=cluster_id)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "failing", ["append", "sync", "sync_directory", "append_to", "rename", "make_directory"]
)
@pytest.mark.parametrize("skip", range(6))
@pytest.mark.parametrize("is_crash", [False, True])
def test_failed_formatting_can_be_repeated(
    tmp_path: Path, failing: str, skip: int, is_crash: bool
) -> None:
    """Any call may fail. Until the directory is complete, a start is refused."""
    log_dir = tmp_path / "log"
    storage = RecordingStorage(failing, skip=skip, is_crash=is_crash)
    try:
        formatted(log_dir, cluster_id="first", storage=storage)
    except (LogDirectoryError, PowerFailure):
        if read_meta_properties(log_dir) is None:
            with pytest.raises(LogDirectoryError):
                claimed(log_dir)
            formatted(log_dir, cluster_id="second")
    assert claimed(log_dir).cluster_id in ("first", "second")
    assert read_acls(log_dir) == {}
    names = {each.name for each in log_dir.iterdir()}
    assert names == {NAME, METADATA_TOPIC_DIRECTORY, ".kafka_cleanshutdown"}


def test_ids_have_kafkas_form() -> None:
    """An id is a random UUID of version 4 in 22 characters. As tools expect, no hyphen leads it."""
    first_tries = iter([b"\xf8" + bytes(15), b"\xfb" * UUID_BYTES, b"\x01" * UUID_BYTES])
    assert new_uuid(lambda _: next(first_tries)) == "AQEBAQEBQQGBAQEBAQEBAQ"
    made = {new_uuid() for _ in range(500)}
    assert len(made) == 500
    assert all(ID.fullmatch(each) and not each.startswith("-") for each in made)


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


async def test_damaged_checkpoint_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
    turns = Turns()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        nursery.start_soon(applier.run)
        await LocalLogSource(MetadataLog.open(tmp_path)).run(feed)
        await applier.snapshot.wait_until(lambda snapshot: snapshot is not None)
        nursery.cancel_scope.cancel()
    assert applier.statistics().acls == 10_000
    assert turns.count > 100
