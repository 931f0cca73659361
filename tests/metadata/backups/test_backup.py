"""A backup has the whole state, verifies itself, and is never half there."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.image.changes import ClusterChange
from authorizerd.image.cluster import ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ClusterChangeError
from authorizerd.management.plan.state import digest_acls
from authorizerd.metadata.backups.backup import (
    BackupFacts,
    checksum_path,
    count_contents,
    write_backup,
)
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.checkpoint_writer import (
    CheckpointState,
    encode_checkpoint,
    write_checkpoint,
)
from authorizerd.metadata.copy_directory import CopyMark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import BackupError
from authorizerd.metadata.log_state import LogState
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.metadata.storage import DISK, Storage
from tests.support import strategies
from tests.support.log_files import (
    TIME_MS,
    added,
    checkpoint_batches,
    flipped,
    read_acls,
    read_cluster,
)
from tests.support.recording_storage import PowerFailure, RecordingStorage

NAME = "nightly.checkpoint"
FEATURES = {"group.version": 1, "metadata.version": 30}
CLUSTER = ClusterImage(features=Map(FEATURES))
PROPERTIES = MetaProperties("some-cluster", 7, "some-directory")
ACLS = {added(number).id: added(number).acl for number in (1, 2, 3)}


def log_state(
    acls: Mapping[bytes, Acl] = ACLS,
    cluster: ClusterImage = CLUSTER,
    *,
    foreign_types: frozenset[int] = frozenset(),
    mark: CopyMark | None = None,
) -> LogState:
    content = CheckpointState(
        end_offset=42, epoch=3, timestamp_ms=TIME_MS, cluster=cluster, acls=acls
    )
    return LogState(
        content=content,
        next_offset=42,
        last_epoch=3,
        torn_bytes=0,
        foreign_types=foreign_types,
        damaged_checkpoints=(),
        properties=PROPERTIES,
        mark=mark,
    )


def write(folder: Path, state: LogState | None = None) -> Path:
    """Write a backup without the file beside it."""
    path = folder / NAME
    write_backup(log_state() if state is None else state, path, TIME_MS)
    checksum_path(path).unlink()
    return path


@given(
    st.dictionaries(strategies.ids, strategies.acls(unknown_codes=True), max_size=20),
    st.lists(strategies.colliding_cluster_changes(), max_size=40),
)
def test_backup_has_the_whole_state(acls: dict[bytes, Acl], changes: list[ClusterChange]) -> None:
    """ACLs with their ids and unknown codes, and all else. It is a checkpoint, too."""
    acls = {acl_id: acl for acl, acl_id in {acl: acl_id for acl_id, acl in acls.items()}.items()}
    cluster = CLUSTER
    for change in changes:
        with suppress(ClusterChangeError):
            cluster = apply_cluster_changes(cluster, [change])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        written = write_backup(log_state(acls, cluster), path, TIME_MS)
        read = read_backup(path)
        assert (read.facts, read.sha256) == (written.facts, written.sha256)
        assert dict(read.state.acls.items()) == read_acls(path) == acls
        assert read.state.cluster == read_cluster(path) == cluster
        assert (read.state.end_offset, read.state.epoch) == (42, 3)
        assert read.state.timestamp_ms == TIME_MS


def test_facts_say_what_the_backup_is(tmp_path: Path) -> None:
    facts = write_backup(log_state(), tmp_path / NAME, TIME_MS + 1).facts
    assert (facts.cluster_id, facts.node_id, facts.directory_id) == (
        "some-cluster", 7, "some-directory",
    )  # fmt: skip
    assert (facts.source, facts.offset, facts.epoch) == ("own log", 41, 3)
    assert (facts.time, facts.written) == ("2026-10-14T17:46:40.000Z", "2026-10-14T17:46:40.001Z")
    assert (facts.contents.acls, facts.contents.features) == (3, FEATURES)
    assert re.fullmatch("[0-9a-f]{48}", facts.contents.acls_digest)


def test_digest_depends_on_bindings_only() -> None:
    """Ids and order do not matter. It is the digest of plans, so the two can be compared."""
    assert count_contents(CLUSTER, ACLS).acls_digest == digest_acls(ACLS.values())
    others = {bytes([number] * 16): acl for number, acl in enumerate(reversed(ACLS.values()))}
    same = count_contents(CLUSTER, others).acls_digest
    assert same == count_contents(CLUSTER, ACLS).acls_digest
    assert same != count_contents(CLUSTER, dict(list(ACLS.items())[1:])).acls_digest


def test_files_are_private_and_sha256sum_accepts_them(tmp_path: Path) -> None:
    """They contain SCRAM credentials."""
    path = tmp_path / NAME
    backup = write_backup(log_state(), path, TIME_MS)
    assert backup.sha256 == sha256(path.read_bytes()).hexdigest()
    assert sorted(each.name for each in tmp_path.iterdir()) == [NAME, f"{NAME}.sha256"]
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    done = subprocess.run(
        ["sha256sum", "-c", f"{NAME}.sha256"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{NAME}: OK\n".encode())


def test_file_that_another_user_slips_in_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup has keys of SCRAM. Its folder may be one in which everybody can create files."""
    theirs = tmp_path / "theirs"
    theirs.touch()

    def slip_in(_: Storage, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(theirs)

    monkeypatch.setattr(Storage, "remove", slip_in)
    with pytest.raises(FileExistsError):
        write_backup(log_state(), tmp_path / "0.checkpoint", TIME_MS)
    assert theirs.read_bytes() == b""


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    """Even without the file beside it: the facts are in the backup."""
    path = write(tmp_path)
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(flipped(data, position))
        with pytest.raises(BackupError):
            read_backup(path)
    path.write_bytes(flipped(data, 200))
    with pytest.raises(BackupError, match=r"use another copy\. At byte \d+, log offset"):
        read_backup(path)
    path.write_bytes(data)
    assert len(read_backup(path).state.acls) == len(ACLS)


def test_every_cut_and_addition_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path)
    data = path.read_bytes()
    for changed in (*(data[:size] for size in range(len(data))), data + b"\0", data + data):
        path.write_bytes(changed)
        with pytest.raises(BackupError, match="use another copy"):
            read_backup(path)


def test_file_beside_it_is_compared(tmp_path: Path) -> None:
    """It may be absent, but it never contradicts the backup."""
    path = tmp_path / NAME
    write_backup(log_state(), path, TIME_MS)
    beside = checksum_path(path)
    beside.write_text(f"{'0' * 64}  {NAME}\n")
    with pytest.raises(BackupError, match=r"use another copy: expected SHA-256 0{64}"):
        read_backup(path)
    beside.write_text("no checksum\n")
    with pytest.raises(BackupError, match="expected one line of `sha256sum`"):
        read_backup(path)
    beside.unlink()
    read_backup(path)


def write_facts(path: Path, facts: BackupFacts, content: CheckpointState) -> None:
    """Write a backup with these facts, whose checksum is that of the content."""
    checksum = sha256()

    def new_facts() -> bytes:
        return msgspec.json.encode(replace(facts, sha256=checksum.hexdigest()))

    pieces = []
    for piece in encode_checkpoint(content, new_facts):
        pieces.append(piece)
        checksum.update(piece)
    path.write_bytes(b"".join(pieces))


def facts_like(path: Path) -> BackupFacts:
    return read_backup(path).facts


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("contents.acls", 4, "expected acls 4, as the backup says, found 3"),
        ("contents.acls_digest", "0", "expected acls_digest 0"),
        ("contents.topics", 1, "expected topics 1"),
        ("contents.partitions", 1, "expected partitions 1"),
        ("contents.configs", 1, "expected configs 1"),
        ("contents.scram_credentials", 1, "expected scram_credentials 1"),
        ("contents.features", {}, "expected features {}"),
        ("offset", 1, "expected offset 1, as the backup says, found 41"),
        ("epoch", 1, "expected epoch 1, as the backup says, found 3"),
        ("version", 2, "expected authorizerd-backup of version 1, found .* of version 2"),
        ("format", "other", "found other of version 1"),
        ("node_id", "seven", "its facts: node_id: expected an integer"),
    ],
)
def test_other_facts_are_rejected(tmp_path: Path, field: str, value: object, text: str) -> None:
    """A valid checkpoint with a valid checksum is not enough."""
    path = write(tmp_path)
    facts = facts_like(path)
    outer, _, inner = field.rpartition(".")
    changed = {inner: value}
    if outer:
        changed = {outer: replace(facts.contents, **changed)}
    write_facts(path, replace(facts, **changed), log_state().content)
    with pytest.raises(BackupError, match=text):
        read_backup(path)


def test_checksum_in_the_facts_is_compared(tmp_path: Path) -> None:
    """Two backups of the same state differ in nothing but bytes that no fact counts."""
    path = write(tmp_path)
    facts = facts_like(path)
    pieces = encode_checkpoint(log_state().content, lambda: msgspec.json.encode(facts))
    path.write_bytes(b"".join(pieces))
    read_backup(path)
    wrong = msgspec.json.encode(replace(facts, sha256="0" * 64))
    path.write_bytes(b"".join(encode_checkpoint(log_state().content, lambda: wrong)))
    with pytest.raises(BackupError, match=r"expected SHA-256 0{64}"):
        read_backup(path)


def test_checkpoint_of_a_log_is_no_backup(tmp_path: Path) -> None:
    """It does not say what it contains, or of which cluster it is."""
    (tmp_path / METADATA_TOPIC_DIRECTORY).mkdir()
    path = write_checkpoint(tmp_path, log_state().content, DISK)
    with pytest.raises(BackupError, match="that `authorizerd backup` wrote, found a checkpoint"):
        read_backup(path)


def test_other_files_are_no_backup(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"".join(checkpoint_batches([added(1)])))  # neither its name nor it says where
    with pytest.raises(BackupError, match="found a damaged or another file: use another copy"):
        read_backup(path)
    path.write_text("acls: []\n")
    with pytest.raises(BackupError, match="expected a file that `authorizerd backup` wrote"):
        read_backup(path)
    path.write_bytes(b"")
    with pytest.raises(BackupError, match="found an empty file: use another copy"):
        read_backup(path)
    with pytest.raises(BackupError, match="No such file"):
        read_backup(tmp_path / "none.checkpoint")


def test_log_with_records_that_a_backup_would_lose_is_refused(tmp_path: Path) -> None:
    """The error names them, and the way out. A copy lacks them anyway."""
    path = tmp_path / NAME
    with pytest.raises(BackupError) as raised:
        write_backup(log_state(foreign_types=frozenset((0, 14, 99))), path, TIME_MS)
    text = str(raised.value)
    assert "REGISTER_BROKER_RECORD, CLIENT_QUOTA_RECORD, record type 99" in text
    assert "Back up the whole log directory instead" in text
    assert not any(tmp_path.iterdir())
    copied = log_state(foreign_types=frozenset((0,)), mark=CopyMark("quorum"))
    assert write_backup(copied, path, TIME_MS).facts.source == "quorum"


def test_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text("something else")
    with pytest.raises(BackupError, match="already exists, nothing was written"):
        write_backup(log_state(), path, TIME_MS)
    assert path.read_text() == "something else"


def test_crash_leaves_a_whole_backup_or_none(tmp_path: Path) -> None:
    """At any call; and another attempt then succeeds."""
    calls = RecordingStorage()
    write_backup(log_state(), tmp_path / NAME, TIME_MS, calls)
    assert calls.calls[-1][0] == "sync_directory"
    for number, (name, _) in enumerate(calls.calls):
        folder = tmp_path / str(number)
        folder.mkdir()
        skip = [call for call, _ in calls.calls[:number]].count(name)
        storage = RecordingStorage(name, skip=skip, is_crash=True)
        with pytest.raises(PowerFailure):
            write_backup(log_state(), folder / NAME, TIME_MS, storage)
        if (folder / NAME).exists():
            assert checksum_path(folder / NAME).exists()
        else:
            write_backup(log_state(), folder / NAME, TIME_MS)
        assert dict(read_backup(folder / NAME).state.acls.items()) == ACLS


def test_names_become_durable_after_what_they_name() -> None:
    """The backup's name comes last: once it is visible, so is the file beside it."""
    storage = RecordingStorage()
    with tempfile.TemporaryDirectory() as folder:
        write_backup(log_state(), Path(folder) / NAME, TIME_MS, storage)
        parent = Path(folder).name
    order = storage.named("sync", "rename", "sync_directory")
    assert order == [
        ("sync", f"{NAME}.part"),
        ("sync", f"{NAME}.sha256.part"),
        ("rename", f"{NAME}.sha256"),
        ("sync_directory", parent),
        ("rename", NAME),
        ("sync_directory", parent),
    ]


@pytest.mark.parametrize("failing", ["append_to", "append", "sync", "rename"])
def test_failed_backup_leaves_nothing(tmp_path: Path, failing: str) -> None:
    """A full disk needs the space. Each call of the name fails once."""
    for skip in range(20):
        storage = RecordingStorage(failing, skip=skip)
        try:
            write_backup(log_state(), tmp_path / NAME, TIME_MS, storage)
        except OSError:
            assert [*tmp_path.iterdir()] == []
        else:
            break
    else:
        pytest.fail("every call failed")
    assert skip > 1
