"""The doctor's checks of the clock, the limits, the installed packages and the disk."""

from __future__ import annotations

import os
import resource
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.cli.doctor.system import (
    CLOCK_START_S,
    CLOCK_STEP_S,
    FREE_BYTES_ENOUGH,
    FREE_BYTES_LEAST,
    FREE_FILES_ENOUGH,
    SYNC_SLOW_MS,
    SYNCS,
    examine_disk,
    examine_versions,
    judge_clock,
    judge_free_files,
    judge_free_space,
    judge_limit,
    judge_syncs,
    list_requirements,
    measure_syncs_ms,
)

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(("wall_s", "step_s", "level"), [
    (CLOCK_START_S, 0.0, Level.OK),
    (CLOCK_START_S, CLOCK_STEP_S * 2, Level.WARNING),
    (CLOCK_START_S, -CLOCK_STEP_S * 2, Level.WARNING),
    (CLOCK_START_S - 1, 0.0, Level.ERROR),
    (0.0, 0.0, Level.ERROR),
])  # fmt: skip
def test_clock_must_be_set_and_steady(wall_s: float, step_s: float, level: Level) -> None:
    assert judge_clock(wall_s, step_s).level is level


def test_hard_limit_of_open_files_is_judged() -> None:
    assert judge_limit(4096, 4096).level is Level.OK
    assert judge_limit(4096, resource.RLIM_INFINITY).level is Level.OK
    too_low = judge_limit(4096, 4095)
    assert too_low.level is Level.WARNING
    assert "4095" in too_low.text
    assert "4096" in too_low.text


def test_requirements_leave_out_extras() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = project["dependencies"]
    names = [each.partition(">=")[0] for each in needed]
    extra = [f"{name}; extra == 'replay'" for name in project["optional-dependencies"]["replay"]]
    assert list_requirements([*needed, *extra, "a-b.c>=1,<2"]) == [*names, "a-b.c"]


def test_missing_requirement_is_an_error() -> None:

    def installed(name: str) -> str:
        if name == "trio":
            raise PackageNotFoundError(name)
        return "1.2"

    missing, all_others = examine_versions(installed)
    assert (missing.level, missing.text) == (Level.ERROR, "trio is not installed")
    assert "msgspec 1.2" in all_others.text
    assert "trio" not in all_others.text


SLOW = SYNC_SLOW_MS + 1


@pytest.mark.parametrize(("judge", "measured", "level"), [
    (judge_free_space, FREE_BYTES_LEAST - 1, Level.ERROR),
    (judge_free_space, FREE_BYTES_LEAST, Level.WARNING),
    (judge_free_space, FREE_BYTES_ENOUGH - 1, Level.WARNING),
    (judge_free_space, FREE_BYTES_ENOUGH, Level.OK),
    (judge_free_files, FREE_FILES_ENOUGH, Level.OK),
    (judge_free_files, FREE_FILES_ENOUGH - 1, Level.WARNING),
    (judge_syncs, [1.0, 1.0, SLOW], Level.OK),
    (judge_syncs, [1.0, SLOW, SLOW], Level.WARNING),
])  # fmt: skip
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
