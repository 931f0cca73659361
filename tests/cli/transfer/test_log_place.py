"""ACLs are written to a log all at once or not at all, and never to a log that others own."""

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.cli.errors import CommandError
from authorizerd.cli.transfer.log_place import CheckpointTarget, LogTarget, frame_batches
from authorizerd.cli.transfer.model import AclsFound, Target, Written
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction
from tests.support.acls import acl
from tests.support.log_files import acl_id, added, data_batch, read_acls, write_log
from tests.support.recording_storage import RecordingStorage

FIRST = acl("User:a", topic="t")
SECOND = acl("User:b", "WRITE", topic="t", deny=True)
THIRD = acl("User:c", topic="t")
UNKNOWN = Acl(9, "t", 9, "nobody", "", 99, 9)
CHECKPOINT = "00000000000000000007-0000000001.checkpoint"


def write(target: Target, *acls: Acl, ids: Sequence[bytes] = ()) -> Written:
    found = AclsFound(acls, dict(zip(acls, ids, strict=False)))
    with target.open() as opened:
        draft = opened.draft(found)
        assert draft.losses == ()
        return opened.write(draft, found)


def new_directory(folder: Path, *acls: Acl) -> Path:
    write(LogTarget(folder / "log", node_id=3), *acls)
    return folder / "log"


def all_bytes(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def test_new_directory_has_the_acls_and_belongs_to_the_node(tmp_path: Path) -> None:
    log_dir = tmp_path / "new" / "log"
    done = write(LogTarget(log_dir, node_id=3, cluster_id="c"), FIRST, UNKNOWN, ids=[acl_id(7)])
    found = read_acls(log_dir)
    assert found[acl_id(7)] == FIRST
    assert set(found.values()) == {FIRST, UNKNOWN}
    properties = read_meta_properties(log_dir)
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == ("c", 3)
    assert (done.count, done.cluster_id) == (2, "c")


def test_new_directory_needs_a_node_id(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="expected --config FILE or --node-id ID"):
        write(LogTarget(tmp_path / "log"), FIRST)
    assert not (tmp_path / "log").exists()


def test_missing_acls_are_appended_in_one_batch(tmp_path: Path) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    done = write(LogTarget(log_dir), FIRST, SECOND, THIRD, ids=[acl_id(1), acl_id(2)])
    found = read_acls(log_dir)
    assert set(found.values()) == {FIRST, SECOND, THIRD}
    assert found[acl_id(2)] == SECOND
    assert acl_id(1) not in found, "an ACL that is there keeps the id that it has there"
    assert (done.count, done.offset) == (2, 10)


def test_id_that_another_acl_has_is_replaced(tmp_path: Path) -> None:
    write(LogTarget(tmp_path / "log", node_id=1), FIRST, ids=[acl_id(1)])
    write(LogTarget(tmp_path / "log"), SECOND, ids=[acl_id(1)])
    found = read_acls(tmp_path / "log")
    assert found[acl_id(1)] == FIRST
    assert set(found.values()) == {FIRST, SECOND}


def test_log_that_has_all_acls_is_not_changed(tmp_path: Path) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    write(LogTarget(log_dir))  # creates the lock's file
    before = all_bytes(log_dir)
    assert write(LogTarget(log_dir), FIRST).count == 0
    assert all_bytes(log_dir) == before


@pytest.mark.parametrize(("target", "expected"), [
    ({"node_id": 4}, "belongs to node 3"),
    ({"cluster_id": "c"}, "already has a cluster id"),
])  # fmt: skip
def test_other_nodes_log_is_refused(target: dict[str, int], expected: str, tmp_path: Path) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    before = all_bytes(log_dir)
    with pytest.raises((CommandError, StartError), match=expected):
        write(LogTarget(log_dir, **target), SECOND)  # type: ignore[arg-type] # one of two
    assert before.items() <= all_bytes(log_dir).items()


def test_copy_of_a_followed_cluster_is_refused(tmp_path: Path) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    write_mark(log_dir, CopyMark("quorum"), DISK)
    with pytest.raises(StartError, match="found a copy of a followed cluster"):
        write(LogTarget(log_dir), SECOND)


def test_log_without_properties_needs_a_node_id(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    with pytest.raises(CommandError, match=r"the directory has no meta\.properties"):
        write(LogTarget(tmp_path), SECOND)
    write(LogTarget(tmp_path, node_id=1), SECOND)
    assert set(read_acls(tmp_path).values()) == {added(1).acl, SECOND}


def test_interrupted_format_is_started_again(tmp_path: Path) -> None:
    failing = RecordingStorage("append", skip=2, number=errno.ENOSPC)
    with pytest.raises(LogDirectoryError, match="No space left on device"):
        write(LogTarget(tmp_path / "log", node_id=3, storage=failing), FIRST, SECOND)
    with pytest.raises(CommandError, match="node-id"):
        write(LogTarget(tmp_path / "log"), FIRST)
    write(LogTarget(tmp_path / "log", node_id=3), FIRST, SECOND)
    assert set(read_acls(tmp_path / "log").values()) == {FIRST, SECOND}


@pytest.mark.parametrize("call", ["append", "sync", "append_to", "sync_directory", "remove"])
@pytest.mark.parametrize("skip", range(3))
def test_full_disk_leaves_all_or_nothing_and_the_command_can_be_repeated(
    call: str, skip: int, tmp_path: Path
) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    failing = RecordingStorage(call, skip=skip, number=errno.ENOSPC)
    with suppress(LogDirectoryError, CommandError):
        write(LogTarget(log_dir, storage=failing), SECOND, THIRD)
    assert set(read_acls(log_dir).values()) in ({FIRST}, {FIRST, SECOND, THIRD})
    write(LogTarget(log_dir), SECOND, THIRD)
    assert set(read_acls(log_dir).values()) == {FIRST, SECOND, THIRD}


def test_several_batches_become_visible_together(tmp_path: Path) -> None:
    """A crash may lose the end of the log. Without its last batch, no ACL is there."""
    changes = [
        AclAdded(acl_id(number), acl("User:a", topic=str(number)))
        for number in range(1, RECORDS_PER_REQUEST_MAX + 2)
    ]
    batches = frame_batches(changes)
    assert [len(batch) for batch in batches] == [RECORDS_PER_REQUEST_MAX + 1, 2]
    assert isinstance(batches[0][0], BeginTransaction)
    assert isinstance(batches[-1][-1], EndTransaction)
    write_log(tmp_path / "whole", *batches)
    assert len(read_acls(tmp_path / "whole")) == len(changes)
    write_log(tmp_path / "torn", *batches[:1])
    assert read_acls(tmp_path / "torn") == {}


def test_one_batch_is_no_transaction() -> None:
    assert frame_batches([added(1), added(2)]) == [[added(1), added(2)]]
    assert frame_batches([]) == []


def test_torn_tail_is_cut_as_a_daemon_does(tmp_path: Path) -> None:
    log_dir = new_directory(tmp_path, FIRST)
    (segment,) = (log_dir / METADATA_TOPIC_DIRECTORY).glob("*.log")
    (log_dir / ".kafka_cleanshutdown").unlink()
    with segment.open("ab") as file:
        file.write(data_batch(99, [added(9)])[:20])
    write(LogTarget(log_dir), SECOND)
    assert set(read_acls(log_dir).values()) == {FIRST, SECOND}


def test_checkpoint_has_the_ids_and_codes(tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    done = write(CheckpointTarget(path), FIRST, UNKNOWN, ids=[acl_id(1), acl_id(2)])
    assert read_acls(path) == {acl_id(1): FIRST, acl_id(2): UNKNOWN}
    assert (done.count, done.offset) == (2, 6)


def test_same_acls_give_the_same_ids(tmp_path: Path) -> None:
    """Only the time in the file differs."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(CheckpointTarget(tmp_path / name / CHECKPOINT), FIRST, SECOND)
    assert read_acls(tmp_path / "a" / CHECKPOINT) == read_acls(tmp_path / "b" / CHECKPOINT)


def test_name_that_no_checkpoint_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="expected a name such as 0000"):
        write(CheckpointTarget(tmp_path / "acls.checkpoint"), FIRST)


@pytest.mark.parametrize("call", ["append", "sync", "rename"])
def test_full_disk_keeps_the_earlier_checkpoint(call: str, tmp_path: Path) -> None:
    path = tmp_path / CHECKPOINT
    write(CheckpointTarget(path), FIRST)
    failing = RecordingStorage(call, number=errno.ENOSPC)
    with pytest.raises(CommandError, match="not written: No space left on device"):
        write(CheckpointTarget(path, overwrite=True, storage=failing), SECOND)
    assert set(read_acls(path).values()) == {FIRST}
    assert [each.name for each in tmp_path.iterdir()] == [CHECKPOINT]
    write(CheckpointTarget(path, overwrite=True), SECOND)
    assert set(read_acls(path).values()) == {SECOND}


def test_open_transaction_of_an_earlier_writer_is_aborted(tmp_path: Path) -> None:
    """Otherwise the new ACLs would become part of it, and never be visible."""
    log_dir = new_directory(tmp_path, FIRST)
    write_log(log_dir, [added(1)], [BeginTransaction("x"), added(5)])
    write(LogTarget(log_dir), SECOND)
    assert set(read_acls(log_dir).values()) == {added(1).acl, SECOND}


def test_a_note_names_only_an_id_that_its_acl_has(tmp_path: Path) -> None:
    """Otherwise its ACL would count as one that was made again, without an end."""
    grant = Grant(
        id="1", acl=THIRD, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="why",
        acl_id=acl_id(3),
    )  # fmt: skip
    note, bare = make_grant_note(grant), make_grant_note(replace(grant, acl_id=None))
    damaged = replace(note, resource_name="authorizerd-grant?")
    write(LogTarget(tmp_path / "a", node_id=1), THIRD, note, ids=[acl_id(3), acl_id(4)])
    write(LogTarget(tmp_path / "b", node_id=1), THIRD, note, damaged, ids=[])
    assert read_acls(tmp_path / "a") == {acl_id(3): THIRD, acl_id(4): note}
    assert set(read_acls(tmp_path / "b").values()) == {THIRD, bare, damaged}
