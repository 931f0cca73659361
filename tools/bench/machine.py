"""Describe the machine that runs the measurements, and its programs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.processes import find_program

_UNKNOWN: Final = "unknown"
_VERSION: Final = re.compile(r"\d+\.\d+[-.\w]*")
_MODULE: Final = re.compile(r"^\tmod\t\S+\tv(\S+)", re.MULTILINE)
_VERSION_SECONDS: Final = 30.0
_PROGRAMS: Final = {
    "wrk": ("-v",), "opa": ("version",), "openfga": ("version",), "java": ("-version",),
}  # fmt: skip


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


def find_versions() -> dict[str, str]:
    """Return the versions of the other programs that a run may use, or why there is none."""
    return {name: _version(name, *options) for name, options in _PROGRAMS.items()}


def _version(name: str, *options: str) -> str:
    program = find_program(name)
    if program is None:
        return "absent"
    done = subprocess.run(
        [program, *options], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
    )
    # Some print it to standard error, and some with an exit code.
    found = _VERSION.search(done.stdout + done.stderr)
    return _module_version(program) if found is None else found[0]


def _module_version(program: Path) -> str:
    """Return the version of the Go module that a program was built from."""
    if shutil.which("go") is None:
        return _UNKNOWN
    text = subprocess.run(
        ["go", "version", "-m", program],  # noqa: S607 - Go is found on the path
        capture_output=True,
        text=True,
        timeout=_VERSION_SECONDS,
        check=False,
    ).stdout
    found = _MODULE.search(text)
    return _UNKNOWN if found is None else found[1]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return _UNKNOWN
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, _UNKNOWN)
