"""The doctor's checks of the clock, the limits and the installed packages."""

from __future__ import annotations

import resource
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from authorizerd.cli.doctor.finding import Level
from authorizerd.cli.doctor.system import (
    CLOCK_START_S,
    CLOCK_STEP_S,
    examine_versions,
    judge_clock,
    judge_limit,
    list_requirements,
)

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(
    ("wall_s", "step_s", "level"),
    [
        (CLOCK_START_S, 0.0, Level.OK),
        (CLOCK_START_S, CLOCK_STEP_S * 2, Level.WARNING),
        (CLOCK_START_S, -CLOCK_STEP_S * 2, Level.WARNING),
        (CLOCK_START_S - 1, 0.0, Level.ERROR),
        (0.0, 0.0, Level.ERROR),
    ],
)
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
