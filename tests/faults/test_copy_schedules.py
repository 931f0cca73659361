"""Some hundred schedules of the copy; ``python -m tests.faults --copy`` runs any number."""

import sys

import pytest

from tests.faults.copy_schedules import CopySchedule
from tests.faults.runs import check_repetition, check_schedules
from tests.faults.stories import COPY_STORIES
from tests.support.programs import output_of
from tests.support.sizes import size

SCHEDULES = size(50, 300)


def test_copy_is_a_state_of_the_cluster_after_any_crash_or_failure() -> None:
    faults = (
        "ENOSPC on append", "EIO on append", "EIO on sync", "EIO on rename", "EIO on remove",
        "EIO on sync_directory", "EIO on reading", "writes lost", "writes torn",
        "writes reordered", "names lost", "some names kept", "crash in append", "crash in sync",
        "crash in rename", "crash in remove", "crash in sync_directory", "crash in truncate",
    )  # fmt: skip
    events = (
        "appends beside a checkpoint", "checkpoints", "checkpoints that failed",
        "copies completed", "copies read back", "copies set aside", "copies that could not be read",
        "inspections", "recoveries repeated", "resets", "resets that failed", "snapshots",
        "snapshots abandoned", "snapshots in memory", "snapshots rejected",
        "snapshots that failed",
    )  # fmt: skip
    check_schedules(CopySchedule, SCHEDULES, faults, events)


@pytest.mark.parametrize("name", sorted(COPY_STORIES))
def test_seed_repeats_its_story(name: str) -> None:
    check_repetition(CopySchedule, name)


def test_command_runs_the_copy() -> None:
    command = [sys.executable, "-m", "tests.faults", "--copy", "--schedules", "3", "--seed", "5"]
    printed = output_of(*command)
    assert printed.startswith("seeds 5 to 7: every invariant held")
    assert "snapshots" in printed
