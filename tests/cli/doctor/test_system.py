"""The clock, the limits, and what is installed."""

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
    clock_finding,
    is_synchronized,
    limit_finding,
    required_names,
    version_findings,
)

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize(
    ("wall_s", "step_s", "synchronized", "level"),
    [
        (CLOCK_START_S, 0.0, True, Level.OK),
        (CLOCK_START_S, 0.0, None, Level.OK),
        (CLOCK_START_S, 0.0, False, Level.WARNING),
        (CLOCK_START_S, CLOCK_STEP_S * 2, True, Level.WARNING),
        (CLOCK_START_S, -CLOCK_STEP_S * 2, True, Level.WARNING),
        (CLOCK_START_S - 1, 0.0, True, Level.ERROR),
        (0.0, 0.0, None, Level.ERROR),
    ],
)
def test_a_clock_is_set_steady_and_kept_right(
    wall_s: float, step_s: float, synchronized: bool | None, level: Level
) -> None:
    """What is not known is no warning."""
    assert clock_finding(wall_s, step_s, synchronized).level is level


def test_the_kernel_is_asked_and_nothing_is_set() -> None:
    """Asked twice, it says the same, or nothing at all."""
    assert is_synchronized() in (True, False, None)
    assert is_synchronized() == is_synchronized()


def test_only_the_hard_limit_counts() -> None:
    """The daemon raises the soft one by itself."""
    assert limit_finding(4096, 4096).level is Level.OK
    assert limit_finding(4096, resource.RLIM_INFINITY).level is Level.OK
    too_low = limit_finding(4096, 4095)
    assert too_low.level is Level.WARNING
    assert "4095" in too_low.text
    assert "4096" in too_low.text


def test_the_requirements_are_the_projects() -> None:
    """What only replay needs is not asked for."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    needed = project["dependencies"]
    extra = [f"{name}; extra == 'replay'" for name in project["optional-dependencies"]["replay"]]
    assert required_names([*needed, *extra, "a-b.c>=1,<2"]) == [*needed, "a-b.c"]


def test_a_requirement_that_is_missing_is_an_error() -> None:
    """The others are named with their versions all the same."""

    def installed(name: str) -> str:
        if name == "trio":
            raise PackageNotFoundError(name)
        return "1.2"

    missing, all_others = version_findings(installed)
    assert (missing.level, missing.text) == (Level.ERROR, "trio is not installed")
    assert "msgspec 1.2" in all_others.text
    assert "trio" not in all_others.text
