"""The doctor's checks of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.cli.doctor.system import (
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

SLOW = SYNC_SLOW_MS + 1


@pytest.mark.parametrize(
    ("judge", "measured", "level"),
    [
        (judge_free_space, FREE_BYTES_LEAST - 1, Level.ERROR),
        (judge_free_space, FREE_BYTES_LEAST, Level.WARNING),
        (judge_free_space, FREE_BYTES_ENOUGH - 1, Level.WARNING),
        (judge_free_space, FREE_BYTES_ENOUGH, Level.OK),
        (judge_free_files, FREE_FILES_ENOUGH, Level.OK),
        (judge_free_files, FREE_FILES_ENOUGH - 1, Level.WARNING),
        (judge_syncs, [1.0, 1.0, SLOW], Level.OK),
        (judge_syncs, [1.0, SLOW, SLOW], Level.WARNING),
    ],
)
def test_space_inodes_and_syncs_are_judged(
    tmp_path: Path, judge: Callable[[Path, object], Finding], measured: object, level: Level
) -> None:
    assert judge(tmp_path, measured).level is level


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


def test_disk_of_a_copy_is_judged_as_that_of_a_copy(tmp_path: Path) -> None:
    """The daemon goes on without it, and no change waits for a sync."""
    found = judge_free_space(tmp_path, 0, is_copy=True)
    assert found.level is Level.WARNING
    assert "the daemon ends" not in found.advice
    assert not any("sync" in each.text for each in examine_disk(tmp_path, is_copy=True))


def test_missing_directory_is_left_to_another_check(tmp_path: Path) -> None:
    assert list(examine_disk(tmp_path / "none")) == []
