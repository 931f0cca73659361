"""The results of parts: one JSON file for each, so that a failed part never loses the others."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.figures import Row
from tools.processes import find_program

_VERSION: Final = re.compile(r"\d+\.\d+[-.\w]*")
_PROGRAMS: Final = {"wrk": "-v", "opa": "version", "openfga": "version", "java": "-version"}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a part has measured. If ``error`` is not "", the part failed and is not published."""

    part: str
    began: str
    seconds: float
    machine: str
    load_average: float
    is_quick: bool
    rows: list[Row]
    error: str = ""


def write_result(folder: Path, result: Result) -> None:
    """Write the file of a part, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{result.part}.tmp"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    unfinished.replace(folder / f"{result.part}.json")


def read_results(folder: Path) -> dict[str, Result]:
    """Return the results of a folder by the name of their part."""
    decode = msgspec.json.Decoder(Result).decode
    results = [decode(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return {result.part: result for result in results}


def describe_machine() -> str:
    """Return a line about this machine and the versions of programs that a run may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {_version(name, option)}" for name, option in _PROGRAMS.items())
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return (
        f"{names[0] if names else 'unknown'}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB; "
        f"{system}; {platform.python_implementation()} {platform.python_version()}; {versions}"
    )


def _version(name: str, option: str) -> str:
    program = find_program(name)
    if program is None:
        return "absent"
    done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    # Some print their version to standard error, and some with an exit code.
    found = _VERSION.search(done.stdout + done.stderr)
    return "unknown" if found is None else found[0]
