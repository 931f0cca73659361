"""The ready file: complete, from this run, and only at its own path."""

from __future__ import annotations

import json
import os
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
    metrics_http=None,
    offset=4,
)


def test_ready_file_replaces_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("earlier")
    write_ready_file(path, READY)
    assert json.loads(path.read_bytes())["admin_http"] == "127.0.0.1:3"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_link", [True, False])
def test_existing_file_at_the_temporary_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    """A user with write access to the folder cannot redirect the write."""
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


def test_temporary_name_cannot_be_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: set[str] = set()

    def keep(self: Path, target: Path) -> None:
        names.add(self.name)

    monkeypatch.setattr(Path, "replace", keep)
    for _ in range(2):
        write_ready_file(tmp_path / "ready.json", READY)
    assert len(names) == 2


def test_failed_rename_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "ready.json").mkdir()
    with pytest.raises(StartError, match=r"--ready-file: .*ready\.json: Is a directory"):
        write_ready_file(tmp_path / "ready.json", READY)
    assert [each.name for each in tmp_path.iterdir()] == ["ready.json"]
