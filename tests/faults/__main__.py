"""``python -m tests.faults --schedules N --seed S``: run schedules and print their counts."""

import argparse
import logging
import sys
import time
import traceback
from collections import Counter

from tests.faults.copy_schedules import CopySchedule
from tests.faults.runs import run_schedules
from tests.faults.schedules import Schedule
from tests.faults.stories import Counts


def main() -> int:
    """Run the schedules and print the counts; return 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--schedules", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copy", action="store_true", help="the copy of a followed log")
    arguments = parser.parse_args()
    new_schedule = CopySchedule if arguments.copy else Schedule
    logging.disable()  # a copy warns of each fault
    counts, started = Counts(), time.monotonic()
    broken = run_schedules(new_schedule, arguments.seed, arguments.schedules, counts)
    if broken is not None:
        schedule, seed, error = broken
        print("\n".join(schedule.disk.calls))
        traceback.print_exception(error)
        print(f"\nbroken: story {schedule.name!r} of seed {seed}: {error}")
        copy = " --copy" if arguments.copy else ""
        print(f"repeat: python -m tests.faults{copy} --schedules 1 --seed {seed}")
        return 1
    last = arguments.seed + arguments.schedules - 1
    print(f"seeds {arguments.seed} to {last}: every invariant held,", end=" ")
    print(f"{counts.calls} calls in {time.monotonic() - started:.0f} s")
    _print("stories", counts.stories)
    _print("events", counts.events)
    _print("faults", counts.faults)
    return 0


def _print(title: str, counter: Counter[str]) -> None:
    print(title)
    for name, count in sorted(counter.items()):
        print(f"  {count:9} {name}")


if __name__ == "__main__":
    sys.exit(main())
