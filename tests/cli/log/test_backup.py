"""``authorizerd backup``: where it writes, what it prints, what it refuses."""

import json
import os
from pathlib import Path

import pytest

from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.meta_properties import MetaProperties, write_meta_properties
from authorizerd.metadata.storage import DISK
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    flipped,
    removed,
    write_checkpoint,
    write_log,
)
from tests.support.printed import run_main

KAFKAS_NAME = "00000000000000000004-0000000001.checkpoint"
REGISTER_BROKER = b"\1\0\3"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Return a log whose last offset is 3."""
    log_dir = tmp_path / "log"
    write_log(log_dir, [added(1), added(2)])
    write_meta_properties(log_dir, MetaProperties("some-cluster", 1, "some-directory"), DISK)
    return log_dir


def test_backup_is_written_and_described(log_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "nightly"
    printed = run_main("backup", "--log-dir", log_dir, out)
    assert printed.err == ""
    assert printed.out == (
        f"{out}: written\n"
        "cluster some-cluster, node 1, own log\n"
        "offset 3, epoch 1, 2026-10-14T17:46:40.000Z\n"
        "2 ACLs, 0 topics, 0 configs, 0 SCRAM credentials\n"
        f"SHA-256 {read_backup(out).sha256}\n"
    )


def test_configuration_names_the_log(log_dir: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\nlog.dirs=/none\n")
    out = tmp_path / "out.checkpoint"
    words = ["backup", "--config", str(config), "--override", f"log.dirs={log_dir}", str(out)]
    run_main(*words)
    assert len(read_backup(out).state.acls) == 2


def test_json_has_the_facts(log_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.checkpoint"
    document = json.loads(run_main("backup", "--json", "--log-dir", log_dir, out).out)
    backup = read_backup(out)
    assert document.pop("facts")["contents"]["acls"] == 2
    assert document == {
        "file": str(out),
        "checksum_file": f"{out}.sha256",
        "sha256": backup.sha256,
        "is_new": True,
    }


def test_backup_in_a_directory_has_kafkas_name_and_stays(log_dir: Path, tmp_path: Path) -> None:
    """So a timer can run the command every hour. The newest file never looks old."""
    folder = tmp_path / "backups"
    folder.mkdir()
    for said in ("written", "already has this state"):
        for path in folder.iterdir():
            os.utime(path, (0, 0))
        printed = run_main("backup", "--log-dir", log_dir, f"{folder}/")
        assert printed.out.startswith(f"{folder / KAFKAS_NAME}: {said}\n")
    assert sorted(path.name for path in folder.iterdir()) == [KAFKAS_NAME, f"{KAFKAS_NAME}.sha256"]
    assert all(path.stat().st_mtime > 0 for path in folder.iterdir())


def test_backup_of_another_state_is_not_replaced(log_dir: Path, tmp_path: Path) -> None:
    """Two logs can have different states at the same offset."""
    folder = tmp_path / "backups"
    folder.mkdir()
    run_main("backup", "--log-dir", log_dir, folder)
    before = (folder / KAFKAS_NAME).read_bytes()
    write_log(log_dir, [added(1), removed(1)])
    printed = run_main("backup", "--log-dir", log_dir, folder, code=1)
    assert "is another backup, at offset 3 of cluster some-cluster" in printed.err
    assert (folder / KAFKAS_NAME).read_bytes() == before


@pytest.mark.parametrize(("out", "text"), [
    ("{log}/../log/out.checkpoint", "expected a path outside the log directory"),
    ("{log}/__cluster_metadata-0", "expected a path outside the log directory"),
    ("{log}/../none/", "expected an existing directory"),
    ("{log}/../none/out.checkpoint", "expected a path in an existing directory: create "),
])  # fmt: skip
def test_unusable_place_is_an_error(log_dir: Path, out: str, text: str) -> None:
    names = sorted(log_dir.rglob("*"))
    assert text in run_main("backup", "--log-dir", log_dir, out.format(log=log_dir), code=1).err
    assert sorted(log_dir.rglob("*")) == names


@pytest.mark.parametrize(("words", "text"), [
    ("out.checkpoint", "expected either --log-dir DIR or --config FILE, found neither"),
    ("--log-dir log --config c out.checkpoint", "found both"),
    ("--log-dir log --override node.id=1 out.checkpoint", "expected --config as well"),
    ("--log-dir log", "required: OUT"),
    ("--bootstrap-server h:1 out.checkpoint", "where the log is: use --config or --log-dir"),
])  # fmt: skip
def test_invalid_arguments_end_with_2(words: str, text: str) -> None:
    assert text in run_main("backup", *words.split(), code=2).err


def test_log_of_a_kafka_node_is_refused_without_a_write(log_dir: Path, tmp_path: Path) -> None:
    write_log(log_dir, [REGISTER_BROKER])
    out = tmp_path / "out.checkpoint"
    assert "REGISTER_BROKER_RECORD" in run_main("backup", "--log-dir", log_dir, out, code=1).err
    assert not out.exists()


def test_backup_of_a_copy_says_what_it_lacks(log_dir: Path, tmp_path: Path) -> None:
    write_log(log_dir, [REGISTER_BROKER, added(1)])
    write_mark(log_dir, CopyMark("quorum"), DISK)
    out = tmp_path / "out.checkpoint"
    printed = run_main("backup", "--log-dir", log_dir, out)
    assert "cluster some-cluster, node 1, quorum\n" in printed.out
    assert "a copy of a followed cluster" in printed.err
    assert "REGISTER_BROKER_RECORD" in printed.err
    assert read_backup(out).facts.source == "quorum"


def test_damaged_checkpoint_warns(log_dir: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(log_dir, 4, [METADATA_VERSION, added(1), added(2)])
    checkpoint.write_bytes(flipped(checkpoint.read_bytes(), 100))
    out = tmp_path / "out.checkpoint"
    assert f"warning: {checkpoint}" in run_main("backup", "--log-dir", log_dir, out).err
    assert len(read_backup(out).state.acls) == 2


def test_log_that_contradicts_itself_is_named(log_dir: Path, tmp_path: Path) -> None:
    """The error says to keep the older backups, which are sound."""
    write_log(log_dir, [added(1)], [removed(7)])
    out = tmp_path / "out.checkpoint"
    printed = run_main("backup", "--log-dir", log_dir, out, code=1)
    assert f"{log_dir}: the log contradicts itself: cannot remove" in printed.err
    assert not out.exists()
