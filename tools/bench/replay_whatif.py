"""The what-if of a table as users run it: one command, from its start to its JSON.

**Invariant:** the process is new, so the time includes the start of Python and reading the ACLs.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from threading import Timer
from typing import Final

import msgspec

from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.whatif.report import WhatIf, decode_whatif
from tools.bench.daemon_process import AUTHORIZERD
from tools.bench.processes import Command, ProcessError

_TIMEOUT_SECONDS: Final = 900.0
_SHOWN_BYTES: Final = 300


class ProcessTime(msgspec.Struct, frozen=True):
    """Wall time and CPU time of a process, and the maximum of its resident memory."""

    seconds: float
    cpu: float
    resident_bytes: int


def run_whatif(table: Path, acls: Path, directory: Path) -> tuple[ProcessTime, WhatIf]:
    """Run ``replay whatif``, which chooses the engine, with its files below ``directory``.

    Args:
        acls: a log directory.

    Raises:
        ProcessError: the command failed.
    """
    out = directory / "whatif"
    command: Command = [
        AUTHORIZERD, "replay", "whatif", "--events", table, "--acls", acls, "--out", out,
        "--overwrite",
    ]  # fmt: skip
    times = time_process(command, directory / "whatif.log", (EXIT_DONE, EXIT_DENIED))
    return times, decode_whatif((out / "whatif.json").read_text())


def time_process(command: Command, log: Path, codes: tuple[int, ...] = (0,)) -> ProcessTime:
    """Run ``command`` to its end, with its output in ``log``.

    Raises:
        ProcessError: its exit code is not one of ``codes``, or it exceeded the time limit.
    """
    begun = time.perf_counter()
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        # Only wait4 returns the memory, and it has no time limit.
        killer = Timer(_TIMEOUT_SECONDS, process.kill)
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        killer.cancel()
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        said = log.read_text(errors="replace").strip()[-_SHOWN_BYTES:]
        raise ProcessError(f"{command[0]}: exit code {process.returncode}: {said}")
    return ProcessTime(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
