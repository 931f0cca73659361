"""The ready file: complete, from this run, and only at its own path."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from authorizerd.daemon.errors import StartError
from authorizerd.daemon.telemetry import ready_file
from authorizerd.daemon.telemetry.ready_file import ReadyFile, write_ready_file

READY = ReadyFile(
    listeners={"PLAINTEXT": "127.0.0.1:1"},
    decision_http="127.0.0.1:2",
    decision_stream=None,
    admin_http="127.0.0.1:3",
    offset=4,
)


def test_it_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """Its mode is that of any new file, and nothing else is left in the folder."""
    path = tmp_path / "ready.json"
    path.write_text("earlier")
    write_ready_file(path, READY)
    assert json.loads(path.read_bytes())["admin_http"] == "127.0.0.1:3"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_link", [True, False])
def test_what_stands_at_the_name_aside_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    """A user who may write to the folder cannot make the daemon overwrite a file."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    monkeypatch.setattr(ready_file, "token_hex", lambda size: "guessed")
    aside = tmp_path / "ready.json.guessed.part"
    if is_link:
        aside.symlink_to(victim)
    else:
        os.link(victim, aside)
    with pytest.raises(StartError, match=r"--ready-file: .*File exists"):
        write_ready_file(tmp_path / "ready.json", READY)
    assert victim.read_text() == "kept"
    assert aside.exists()


def test_the_name_aside_cannot_be_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise such a user could prevent the start."""
    names: set[str] = set()

    def keep(self: Path, target: Path) -> None:
        names.add(self.name)

    monkeypatch.setattr(Path, "replace", keep)
    for _ in range(2):
        write_ready_file(tmp_path / "ready.json", READY)
    assert len(names) == 2


def test_where_it_cannot_be_moved_nothing_is_left(tmp_path: Path) -> None:
    """The error names the path."""
    (tmp_path / "ready.json").mkdir()
    with pytest.raises(StartError, match=r"--ready-file: .*ready\.json: Is a directory"):
        write_ready_file(tmp_path / "ready.json", READY)
    assert [each.name for each in tmp_path.iterdir()] == ["ready.json"]
