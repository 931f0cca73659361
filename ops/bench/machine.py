"""Describe the machine that runs the measurements."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

import msgspec

_UNKNOWN: Final = "unknown"


class Machine(msgspec.Struct, frozen=True):
    """``load_average`` is of the last minute before the run."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    load_average: float

    def __str__(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB; {self.system}; "
            f"{self.python}; load average {self.load_average:.2f} at the start"
        )


def describe_machine() -> Machine:
    """Return the description of this machine."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load_average=os.getloadavg()[0],
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return _UNKNOWN
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, _UNKNOWN)
