"""Run many schedules, and stop at the first that breaks an invariant."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import ClassVar, Final

from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.replay import Replay
from tests.faults.disk import FaultDisk
from tests.faults.stories import Counts, Story
from tests.faults.workload import State, Workload, apply
from tests.support.sizes import IS_WHOLE


class Run(ABC):
    """One story, drawn from a seed; call ``run`` once."""

    stories: ClassVar[Mapping[str, Story]]

    def __init__(self, seed: int, name: str | None = None) -> None:
        self._chance: Final = Random(seed)
        self.name: Final = self._chance.choice(sorted(self.stories)) if name is None else name
        self._story: Final = self.stories[self.name]
        self.disk: Final = FaultDisk(Random(seed + 1_000_003))
        self.events: Final[Counter[str]] = Counter()
        self._workload: Final = Workload(self._chance, is_large=self._story.is_large)

    @abstractmethod
    def run(self) -> None:
        """Run the story. Raise BrokenInvariantError if an invariant does not hold."""

    def _end(self) -> bool:
        """End the process, perhaps by a loss of power; return True if that is lost."""
        is_lost = self._chance.random() < self._story.power_loss
        if is_lost:
            self.disk.lose_power()
        else:
            self.disk.end_process()
        return is_lost

    def _arm(self, *rare_calls: str) -> None:
        """Make the disk crash or fail at a later call, perhaps at one of ``rare_calls``."""
        if self._chance.random() < self._story.crash:
            self.disk.crash_in = self._chance.randint(1, self._chance.choice((12, 90)))
            self.disk.crash_at = self._chance.choice((None, None, None, *rare_calls))
        if self._chance.random() < self._story.failure:
            self.disk.fail_in = self._chance.randint(1, 60)


def read_state(batches: Iterable[LogBatch], replay: Replay) -> State:
    """Return the ACLs after the changes of these batches."""
    state = State()
    for batch in batches:
        for step in replay.steps(batch):
            for change in () if step is None else step.changes:
                apply(state, change)
    return state


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


def check_schedules(
    new_schedule: type[Run], schedules: int, faults: Iterable[str], events: Iterable[str]
) -> None:
    """Run schedules; with ``WHOLE=1``, all together have every kind of story, fault and event."""
    counts = Counts()
    broken = run_schedules(new_schedule, 1, schedules, counts)
    assert broken is None, f"seed {broken[1]}: {broken[2]}\n" + "\n".join(broken[0].disk.calls)
    if IS_WHOLE:
        assert counts.stories.keys() == new_schedule.stories.keys()
        assert [each for each in faults if not counts.faults[each]] == []
        assert [each for each in events if not counts.events[each]] == []


def check_repetition(new_schedule: type[Run], name: str) -> None:
    """Check that all calls are the same again, so that a broken schedule can be debugged."""
    first, second = new_schedule(7, name), new_schedule(7, name)
    first.run()
    second.run()
    assert first.disk.calls == second.disk.calls
    assert first.events == second.events
