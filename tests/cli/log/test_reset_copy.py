"""``authorizerd reset-copy`` removes a copy, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.metadata.copy_directory import MARK_NAME, SET_ASIDE_NAME
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from tests.support.copies import BEGINNING, CLUSTER_ID, new_copy
from tests.support.log_files import write_log

HOLD_LOCK = """
import sys
from pathlib import Path
from authorizerd.metadata.lock import locked
with locked(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


def write_configuration(folder: Path) -> tuple[Path, Path]:
    """Return a configuration that follows a cluster, and its log directory."""
    log_dir, file = folder / "log", folder / "server.properties"
    file.write_text(
        f"node.id=7\nlog.dirs={log_dir}\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    return file, log_dir


def make_copy(log_dir: Path) -> None:
    copy = new_copy(log_dir)
    copy.open()
    copy.adopt_cluster(CLUSTER_ID)
    copy.append(BEGINNING)
    copy.close()


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_copy_is_removed_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command prints what it removes. It can be repeated only once there is a copy again."""
    file, log_dir = write_configuration(tmp_path)
    make_copy(log_dir)
    (log_dir / "notes.txt").touch()
    assert main(["reset-copy", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    for name in (f"{SET_ASIDE_NAME}/{segment_name(0)}", "meta.properties", MARK_NAME):
        assert f"Removed {log_dir / name}\n" in out
    assert "fetches everything from the cluster again" in out
    assert names(log_dir) == [".lock", "notes.txt"]
    assert main(["reset-copy", "--config", str(file)]) == 1
    assert "nothing was removed" in capsys.readouterr().err


def test_own_log_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, log_dir = write_configuration(tmp_path)
    write_log(log_dir)
    before = names(log_dir)
    assert main(["reset-copy", "--config", str(file)]) == 1
    assert MARK_NAME in capsys.readouterr().err
    assert names(log_dir) == before


def test_copy_in_use_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, log_dir = write_configuration(tmp_path)
    make_copy(log_dir)
    command = [sys.executable, "-c", HOLD_LOCK, str(log_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert main(["reset-copy", "--config", str(file)]) == 1
        holder.communicate()
    assert "in use by another process" in capsys.readouterr().err
    assert (log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)).exists()


def test_interrupted_reset_is_finished_by_the_next(tmp_path: Path) -> None:
    """Until the mark is removed, the directory is a copy."""
    file, log_dir = write_configuration(tmp_path)
    make_copy(log_dir)
    (log_dir / METADATA_TOPIC_DIRECTORY).rename(log_dir / SET_ASIDE_NAME)
    (log_dir / "meta.properties").unlink()
    assert main(["reset-copy", "--config", str(file)]) == 0
    assert names(log_dir) == [".lock"]
