"""The doctor's checks of the disk."""

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
    examine_disk,
    judge_free_files,
    judge_free_space,
    judge_syncs,
    measure_syncs_ms,
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
def test_free_space_is_judged(tmp_path: Path, free: int, level: Level) -> None:
    assert judge_free_space(tmp_path, free).level is level


def test_free_inodes_and_the_median_sync_are_judged(tmp_path: Path) -> None:
    assert judge_free_files(tmp_path, FREE_FILES_ENOUGH).level is Level.OK
    assert judge_free_files(tmp_path, FREE_FILES_ENOUGH - 1).level is Level.WARNING
    slow = SYNC_SLOW_MS + 1
    assert judge_syncs(tmp_path, [1.0, 1.0, slow]).level is Level.OK
    assert judge_syncs(tmp_path, [1.0, slow, slow]).level is Level.WARNING


def test_sync_probe_is_removed_even_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def fdatasync(file: int) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    assert len(measure_syncs_ms(tmp_path)) == SYNCS
    assert synced == sorted(set(synced))
    assert list(tmp_path.iterdir()) == []

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    last = list(examine_disk(tmp_path))[-1]
    assert last.level is Level.ERROR
    assert "Input/output error" in last.text
    assert list(tmp_path.iterdir()) == []


def test_missing_directory_is_left_to_another_check(tmp_path: Path) -> None:
    assert list(examine_disk(tmp_path / "none")) == []
