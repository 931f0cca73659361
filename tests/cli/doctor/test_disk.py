"""The disk under the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from authorizerd.cli.doctor.disk import (
    FREE_BYTES_ENOUGH,
    FREE_BYTES_LEAST,
    FREE_FILES_ENOUGH,
    SYNC_SLOW_MS,
    SYNCS,
    disk_findings,
    files_finding,
    room_finding,
    sync_finding,
    sync_times_ms,
)
from authorizerd.cli.doctor.finding import Level


@pytest.mark.parametrize(
    ("free", "level"),
    [
        (FREE_BYTES_LEAST - 1, Level.ERROR),
        (FREE_BYTES_LEAST, Level.WARNING),
        (FREE_BYTES_ENOUGH - 1, Level.WARNING),
        (FREE_BYTES_ENOUGH, Level.OK),
    ],
)
def test_room_is_judged_by_what_is_free(tmp_path: Path, free: int, level: Level) -> None:
    """A full disk ends the daemon."""
    assert room_finding(tmp_path, free).level is level


def test_files_and_syncs_have_bounds(tmp_path: Path) -> None:
    """One slow sync among fast ones is no slow disk."""
    assert files_finding(tmp_path, FREE_FILES_ENOUGH).level is Level.OK
    assert files_finding(tmp_path, FREE_FILES_ENOUGH - 1).level is Level.WARNING
    slow = SYNC_SLOW_MS + 1
    assert sync_finding(tmp_path, [1.0, 1.0, slow]).level is Level.OK
    assert sync_finding(tmp_path, [1.0, slow, slow]).level is Level.WARNING


def test_what_is_synced_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each append is made durable, in the log's own directory, and a failure leaves nothing."""
    synced = []

    def fdatasync(file: int) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    assert len(sync_times_ms(tmp_path)) == SYNCS
    assert synced == sorted(set(synced))
    assert list(tmp_path.iterdir()) == []

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    last = list(disk_findings(tmp_path))[-1]
    assert last.level is Level.ERROR
    assert "Input/output error" in last.text
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_missing_has_no_disk(tmp_path: Path) -> None:
    """That is told elsewhere."""
    assert list(disk_findings(tmp_path / "none")) == []
