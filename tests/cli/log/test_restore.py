"""``authorizerd restore`` and ``reset-copy``: what they print, refuse, remove and leave."""

import json
import os
from pathlib import Path

import pytest

from authorizerd.metadata.backups.backup import Backup
from authorizerd.metadata.copy_directory import MARK_NAME, SET_ASIDE_NAME, CopyMark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.storage import DISK
from tests.support.backups import new_backup, write_own_log
from tests.support.copies import write_copy
from tests.support.log_files import added, flipped, held, read_acls, write_log
from tests.support.printed import Printed, run_main


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """Return a backup with the ACLs 1 and 2, whose last offset is 3."""
    return new_backup(tmp_path, [added(1), added(2)])


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Return a log with the ACLs 2, 3 and 4, whose last offset is 4."""
    log_dir = tmp_path / "log"
    write_own_log(log_dir, [added(2), added(3), added(4)])
    return log_dir


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def numbers(path: Path) -> set[int]:
    return {int.from_bytes(acl_id, "big") for acl_id in read_acls(path)}


def restore(backup: Backup, log_dir: Path, *flags: str, code: int = 0) -> Printed:
    return run_main("restore", backup.path, "--log-dir", log_dir, *flags, code=code)


def write_configuration(folder: Path) -> tuple[Path, Path]:
    """Return a configuration that follows a cluster, and its log directory."""
    log_dir, file = folder / "copy", folder / "server.properties"
    file.write_text(
        f"node.id=7\nlog.dirs={log_dir}\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    return file, log_dir


def test_log_is_replaced_and_kept(backup: Backup, log_dir: Path) -> None:
    printed = restore(backup, log_dir)
    (replaced,) = log_dir.glob("replaced-*")
    assert printed.err == ""
    assert printed.out == (
        f"{backup.path}: verified\n"
        "cluster some-cluster, node 1, own log\n"
        "offset 3, epoch 1, 2026-10-14T17:46:40.000Z\n"
        "2 ACLs, 0 topics, 0 configs, 0 SCRAM credentials\n"
        f"SHA-256 {backup.sha256}\n"
        f"{log_dir}: restored; cluster some-cluster\n"
        "the log continues at offset 6, after epoch 2\n"
        "compared with the old log: 1 ACL added, 2 ACLs removed\n"
        f"the old log is kept in {replaced}\n"
    )
    assert (numbers(log_dir), numbers(replaced)) == ({1, 2}, {2, 3, 4})
    assert run_main("check-log", log_dir).out == (
        "segments 0, checkpoints 1, batches 0, records 0\n"
        "all is in the checkpoint, last offset 5, last epoch 2, ACLs at the end 2, no "
        "record since\nvalid\n"
    )


def test_json_says_the_same(backup: Backup, log_dir: Path) -> None:
    document = json.loads(restore(backup, log_dir, "--json", "--dry-run").out)
    assert document.pop("facts")["contents"]["acls"] == 2
    assert document == {
        "backup": str(backup.path), "sha256": backup.sha256, "log_dir": str(log_dir),
        "is_dry_run": True, "is_created": False, "cluster_id": "some-cluster", "next_offset": 6,
        "epoch": 2, "replaced": None, "acls_added": 1, "acls_removed": 2, "old_log_fault": None,
    }  # fmt: skip


def test_configuration_names_the_log_and_the_node(backup: Backup, tmp_path: Path) -> None:
    """A new directory is made. Its node is that of the configuration."""
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=7\nlog.dirs={tmp_path / 'new'}\n")
    printed = run_main("restore", backup.path, "--config", config, "--next-offset", "900")
    assert "the log continues at offset 900, after epoch 1\n" in printed.out
    assert "node.id=7" in (tmp_path / "new/meta.properties").read_text()
    assert numbers(tmp_path / "new") == {1, 2}


def test_used_log_is_not_replaced(backup: Backup, log_dir: Path) -> None:
    """A dry run does not disturb its owner."""
    before = [*names(log_dir), ".lock"]
    with held(log_dir):
        printed = restore(backup, log_dir, "--dry-run")
        assert "can be restored; nothing was replaced" in printed.out
        assert "in use by another process" in restore(backup, log_dir, code=1).err
    assert names(log_dir) == sorted(before)
    assert numbers(log_dir) == {2, 3, 4}


def test_dry_run_leaves_no_directory(backup: Backup, tmp_path: Path) -> None:
    """It accepts what the restore itself accepts. Parents that exist stay."""
    (tmp_path / "some").mkdir()
    log_dir = tmp_path / "some/new/log"
    assert restore(backup, log_dir, "--dry-run").out.endswith(
        "there was no old log: the directory would be created. If clients have seen later offsets "
        "of a lost log, --next-offset is needed\n"
    )
    assert names(tmp_path / "some") == []
    assert "no old log: the directory was created. If clients" in restore(backup, log_dir).out


def test_empty_volume_gets_the_log(backup: Backup, tmp_path: Path) -> None:
    """The note about offsets is for those who have not passed one."""
    (tmp_path / "volume/lost+found").mkdir(parents=True)
    printed = restore(backup, tmp_path / "volume", "--next-offset", "900")
    assert printed.out.endswith("there was no old log in the directory\n")
    assert numbers(tmp_path / "volume") == {1, 2}


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_directory_with_files_gets_no_log(backup: Backup, tmp_path: Path, more: list[str]) -> None:
    """Not even a lock file."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/important.txt").touch()
    assert restore(backup, tmp_path / "documents", *more, code=1).err == (
        f"authorizerd: {tmp_path}/documents: expected a log directory or an empty one, found "
        "'important.txt' and no meta.properties: name the log directory, or a new one\n"
    )
    assert names(tmp_path / "documents") == ["important.txt"]


def test_damaged_backup_replaces_nothing(backup: Backup, log_dir: Path) -> None:
    backup.path.write_bytes(flipped(backup.path.read_bytes(), 200))
    before = names(log_dir)
    assert "the file is damaged, use another copy" in restore(backup, log_dir, code=1).err
    assert names(log_dir) == before


def test_backup_of_another_cluster_needs_a_flag(backup: Backup, log_dir: Path) -> None:
    properties = log_dir / "meta.properties"
    properties.write_text(properties.read_text().replace("some-cluster", "other"))
    assert "found cluster other" in restore(backup, log_dir, code=1).err
    assert numbers(log_dir) == {2, 3, 4}
    assert "restored; cluster other\n" in restore(backup, log_dir, "--other-cluster").out
    assert "cluster.id=other\n" in properties.read_text()


def test_damaged_log_is_named(backup: Backup, log_dir: Path) -> None:
    (segment,) = (log_dir / METADATA_TOPIC_DIRECTORY).iterdir()
    segment.write_bytes(flipped(segment.read_bytes(), 100))
    out = restore(backup, log_dir).out
    assert f"the old log cannot be read: {segment}: at byte" in out
    assert "compared with" not in out
    assert numbers(log_dir) == {1, 2}


def test_follower_is_not_restored(backup: Backup, tmp_path: Path) -> None:
    config, log_dir = write_configuration(tmp_path)
    printed = run_main("restore", backup.path, "--config", config, code=1)
    assert "restore the cluster, then run `authorizerd reset-copy`" in printed.err
    write_mark(log_dir, CopyMark("quorum"), DISK)
    assert "found a copy of a followed cluster" in restore(backup, log_dir, code=1).err


def test_root_does_not_write_into_the_log_of_another_user(
    backup: Backup, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon could not read what root has restored."""
    if os.geteuid() == 0:
        os.chown(log_dir / METADATA_TOPIC_DIRECTORY, 12345, -1)
        owner = 12345
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert f"belongs to the user with id {owner}" in restore(backup, log_dir, code=1).err
    assert not [*log_dir.glob("re*")]


@pytest.mark.parametrize(("words", "text"), [
    ("b.checkpoint", "expected either --log-dir DIR or --config FILE, found neither"),
    ("b.checkpoint --log-dir log --next-offset -1", "expected an offset of at least 0"),
    ("--log-dir log", "required: BACKUP"),
    ("b.checkpoint --bootstrap-server h:1", "files where the log is: use --config or --log-dir"),
])  # fmt: skip
def test_invalid_arguments_end_with_2(words: str, text: str) -> None:
    assert text in run_main("restore", *words.split(), code=2).err


def test_interrupted_restore_is_undone_by_the_next(backup: Backup, log_dir: Path) -> None:
    """Only a file system that cannot exchange two names leaves this."""
    part = log_dir / "restore-20260102T030405Z"
    part.mkdir()
    (log_dir / METADATA_TOPIC_DIRECTORY).rename(part / "replaced")
    printed = run_main("check-log", log_dir, code=1)
    assert "a restore was interrupted, which has left restore-2026" in printed.err
    printed = restore(backup, log_dir)
    assert "put the log of" in printed.err
    assert "compared with the old log: 1 ACL added, 2 ACLs removed\n" in printed.out


def test_copy_is_removed_and_nothing_else(tmp_path: Path) -> None:
    """The command prints what it removes. It can be repeated only once there is a copy again."""
    file, log_dir = write_configuration(tmp_path)
    write_copy(log_dir)
    (log_dir / "notes.txt").touch()
    out = run_main("reset-copy", "--config", file).out
    for name in (f"{SET_ASIDE_NAME}/{segment_name(0)}", "meta.properties", MARK_NAME):
        assert f"Removed {log_dir / name}\n" in out
    assert "fetches everything from the cluster again" in out
    assert names(log_dir) == [".lock", "notes.txt"]
    assert "nothing was removed" in run_main("reset-copy", "--config", file, code=1).err


def test_own_log_is_not_removed(tmp_path: Path) -> None:
    file, log_dir = write_configuration(tmp_path)
    write_log(log_dir)
    before = names(log_dir)
    assert MARK_NAME in run_main("reset-copy", "--config", file, code=1).err
    assert names(log_dir) == before


def test_copy_in_use_is_not_removed(tmp_path: Path) -> None:
    file, log_dir = write_configuration(tmp_path)
    write_copy(log_dir)
    with held(log_dir):
        printed = run_main("reset-copy", "--config", file, code=1)
    assert "in use by another process" in printed.err
    assert (log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)).exists()


def test_interrupted_reset_is_finished_by_the_next(tmp_path: Path) -> None:
    """Until the mark is removed, the directory is a copy."""
    file, log_dir = write_configuration(tmp_path)
    write_copy(log_dir)
    (log_dir / METADATA_TOPIC_DIRECTORY).rename(log_dir / SET_ASIDE_NAME)
    (log_dir / "meta.properties").unlink()
    run_main("reset-copy", "--config", file)
    assert names(log_dir) == [".lock"]
