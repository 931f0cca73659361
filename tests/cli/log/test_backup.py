"""``authorizerd backup``: where it writes, what it prints, what it refuses."""

import json
import os
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.meta_properties import MetaProperties, write_meta_properties
from authorizerd.metadata.storage import DISK
from tests.support.fixture_types import Capture
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    flipped,
    removed,
    write_checkpoint,
    write_log,
)

KAFKAS_NAME = "00000000000000000004-0000000001.checkpoint"
REGISTER_BROKER = b"\1\0\3"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Return a log whose last offset is 3."""
    log_dir = tmp_path / "log"
    write_log(log_dir, [added(1), added(2)])
    write_meta_properties(log_dir, MetaProperties("some-cluster", 1, "some-directory"), DISK)
    return log_dir


def test_backup_is_written_and_described(log_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "nightly"
    assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == (
        f"{out}: written\n"
        "cluster some-cluster, node 1, own log\n"
        "offset 3, epoch 1, 2026-10-14T17:46:40.000Z\n"
        "2 ACLs, 0 topics, 0 configs, 0 SCRAM credentials\n"
        f"SHA-256 {read_backup(out).sha256}\n"
    )


def test_configuration_names_the_log(log_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\nlog.dirs=/none\n")
    out = tmp_path / "out.checkpoint"
    words = ["backup", "--config", str(config), "--override", f"log.dirs={log_dir}", str(out)]
    assert main(words) == 0, capsys.readouterr().err
    assert len(read_backup(out).state.acls) == 2


def test_json_has_the_facts(log_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.checkpoint"
    assert main(["backup", "--json", "--log-dir", str(log_dir), str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    backup = read_backup(out)
    assert document.pop("facts")["contents"]["acls"] == 2
    assert document == {
        "file": str(out),
        "checksum_file": f"{out}.sha256",
        "sha256": backup.sha256,
        "is_new": True,
    }


def test_backup_in_a_directory_gets_kafkas_name_and_is_written_once(
    log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    """So a timer can run the command every hour. The newest file never looks old."""
    folder = tmp_path / "backups"
    folder.mkdir()
    for said in ("written", "has this state already"):
        for path in folder.iterdir():
            os.utime(path, (0, 0))
        assert main(["backup", "--log-dir", str(log_dir), f"{folder}/"]) == 0
        assert capsys.readouterr().out.startswith(f"{folder / KAFKAS_NAME}: {said}\n")
    assert sorted(path.name for path in folder.iterdir()) == [KAFKAS_NAME, f"{KAFKAS_NAME}.sha256"]
    assert all(path.stat().st_mtime > 0 for path in folder.iterdir())


def test_backup_of_another_state_is_not_replaced(
    log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Two logs can have different states at the same offset."""
    folder = tmp_path / "backups"
    folder.mkdir()
    assert main(["backup", "--log-dir", str(log_dir), str(folder)]) == 0
    before = (folder / KAFKAS_NAME).read_bytes()
    write_log(log_dir, [added(1), removed(1)])
    assert main(["backup", "--log-dir", str(log_dir), str(folder)]) == 1
    assert "is another backup, at offset 3 of cluster some-cluster" in capsys.readouterr().err
    assert (folder / KAFKAS_NAME).read_bytes() == before


@pytest.mark.parametrize(("out", "text"), [
    ("{log}/../log/out.checkpoint", "expected a place outside the log directory"),
    ("{log}/__cluster_metadata-0", "expected a place outside the log directory"),
    ("{log}/../none/", "expected an existing directory"),
    ("{log}/../none/out.checkpoint", "No such file or directory"),
])  # fmt: skip
def test_unusable_place_is_an_error(log_dir: Path, capsys: Capture, out: str, text: str) -> None:
    names = sorted(log_dir.rglob("*"))
    assert main(["backup", "--log-dir", str(log_dir), out.format(log=log_dir)]) == 1
    assert text in capsys.readouterr().err
    assert sorted(log_dir.rglob("*")) == names


@pytest.mark.parametrize(("words", "text"), [
    ("out.checkpoint", "expected either --log-dir DIR or --config FILE, found neither"),
    ("--log-dir log --config c out.checkpoint", "found both"),
    ("--log-dir log --override node.id=1 out.checkpoint", "expected --config as well"),
    ("--log-dir log", "required: OUT"),
    ("--bootstrap-server h:1 out.checkpoint", "where the log is: use --config or --log-dir"),
])  # fmt: skip
def test_invalid_arguments_end_with_2(capsys: Capture, words: str, text: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["backup", *words.split()])
    assert end.value.code == 2
    assert text in capsys.readouterr().err


def test_log_of_a_kafka_node_is_refused_before_anything_is_written(
    log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    write_log(log_dir, [REGISTER_BROKER])
    out = tmp_path / "out.checkpoint"
    assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 1
    assert "REGISTER_BROKER_RECORD" in capsys.readouterr().err
    assert not out.exists()


def test_backup_of_a_copy_says_what_it_lacks(
    log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    write_log(log_dir, [REGISTER_BROKER, added(1)])
    write_mark(log_dir, CopyMark("quorum"), DISK)
    out = tmp_path / "out.checkpoint"
    assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0
    printed = capsys.readouterr()
    assert "cluster some-cluster, node 1, quorum\n" in printed.out
    assert "a copy of a followed cluster" in printed.err
    assert "REGISTER_BROKER_RECORD" in printed.err
    assert read_backup(out).facts.source == "quorum"


def test_damaged_checkpoint_warns(log_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    checkpoint = write_checkpoint(log_dir, 4, [METADATA_VERSION, added(1), added(2)])
    checkpoint.write_bytes(flipped(checkpoint.read_bytes(), 100))
    out = tmp_path / "out.checkpoint"
    assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 0
    assert f"warning: {checkpoint}" in capsys.readouterr().err
    assert len(read_backup(out).state.acls) == 2


def test_log_that_contradicts_itself_is_named(
    log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The error says to keep the older backups, which are sound."""
    write_log(log_dir, [added(1)], [removed(7)])
    out = tmp_path / "out.checkpoint"
    assert main(["backup", "--log-dir", str(log_dir), str(out)]) == 1
    assert f"{log_dir}: the log contradicts itself: cannot remove" in capsys.readouterr().err
    assert not out.exists()
