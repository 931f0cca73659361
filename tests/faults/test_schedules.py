"""Some hundred schedules in each test run; ``python -m tests.faults`` runs any number."""

import sys

import pytest

from tests.faults.runs import check_repetition, check_schedules
from tests.faults.schedules import Schedule
from tests.faults.stories import STORIES
from tests.support.programs import output_of
from tests.support.sizes import size

SCHEDULES = size(100, 600)


def test_acknowledged_changes_are_read_after_any_crash_or_failure() -> None:
    faults = (
        "ENOSPC on append", "EIO on append", "EIO on sync", "EIO on rename", "EIO on remove",
        "EIO on sync_directory", "writes lost", "writes kept", "writes torn", "writes reordered",
        "names lost", "names kept", "some names kept", "crash in append", "crash in sync",
        "crash in rename", "crash in remove", "crash in sync_directory", "crash in truncate",
    )  # fmt: skip
    events = (
        "checkpoints", "files retired", "clean shutdowns", "formats repeated",
        "recoveries repeated", "torn tails cut", "fell back to an older checkpoint or the log",
        "appends that failed", "stopped: damage after a clean shutdown",
    )  # fmt: skip
    check_schedules(Schedule, SCHEDULES, faults, events)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_seed_repeats_its_story(name: str) -> None:
    check_repetition(Schedule, name)


def test_command_prints_its_counts() -> None:
    command = [sys.executable, "-m", "tests.faults", "--schedules", "3", "--seed", "5"]
    printed = output_of(*command)
    assert printed.startswith("seeds 5 to 7: every invariant held")
    assert "appends" in printed
