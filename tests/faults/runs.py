"""Run many schedules, and stop at the first that breaks an invariant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from tests.faults.disk import FaultDisk
from tests.faults.stories import Counts


class Run(Protocol):
    """One story, drawn from a seed."""

    @property
    def name(self) -> str: ...

    @property
    def disk(self) -> FaultDisk: ...

    @property
    def events(self) -> Counter[str]: ...

    def run(self) -> None:
        """Run the story. Raise BrokenInvariantError if an invariant does not hold."""


Broken = tuple[Run, int, Exception]
"""A schedule that breaks an invariant, its seed, and the error."""


def run_schedules(
    new_schedule: Callable[[int], Run], seed: int, schedules: int, counts: Counts
) -> Broken | None:
    """Run schedules from ``seed`` on; stop at the first that breaks an invariant."""
    for number in range(seed, seed + schedules):
        schedule = new_schedule(number)
        try:
            schedule.run()
        except Exception as error:  # noqa: BLE001 - any error is a broken invariant
            return schedule, number, error
        counts.stories[schedule.name] += 1
        counts.events += schedule.events
        counts.faults += schedule.disk.faults
        counts.calls += len(schedule.disk.calls)
    return None
