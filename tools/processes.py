"""Start and end other programs.

**Invariant:** every program is ended by its own process id, none is left behind, and every wait has
a time limit.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")
Command = Sequence[str | Path]

PEERS: Final = Path(".run/peers")
"""Where ``make peers`` puts the programs of peers."""
STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_SAMPLE_SECONDS: Final = 0.5
_OUTPUT_SHOWN: Final = 300
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class ProcessError(Exception):
    """A program failed or exceeded its time limit; the text names it and the reason."""


def end_at_sigterm() -> None:
    """Let the first SIGTERM raise SystemExit, so that each block ends the programs that it started.

    Later signals are ignored: ``make`` sends a second one if its whole group gets the signal.
    """

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def find_program(name: str) -> Path | None:
    """Return the path of a program that ``make peers`` has built, or that is on the path."""
    found = shutil.which(name, path=PEERS) or shutil.which(name)
    return None if found is None else Path(found).absolute()


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def capture_output(
    command: Command,
    *,
    timeout_seconds: float,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Run ``command`` to completion and return its output.

    Raises:
        ProcessError: it could not be started, failed, or exceeded the time limit.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except OSError as error:
        raise ProcessError(f"{name}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"{name}: not finished in {timeout_seconds:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        # A traceback names the error at its end.
        raise ProcessError(f"{name}: exit code {done.returncode}: {said[-_OUTPUT_SHOWN:]}")
    return done.stdout


def capture_json(command: Command, kind: type[T], *, timeout_seconds: float) -> T:
    """Run ``command`` and return the JSON that it prints.

    Raises:
        ProcessError: see ``capture_output``; or the output is not JSON of this type.
    """
    return decode_output(capture_output(command, timeout_seconds=timeout_seconds), kind, command)


def decode_output(printed: bytes, kind: type[T], command: Command) -> T:
    """Return the JSON that ``command`` printed.

    Raises:
        ProcessError: it is not JSON of that type.
    """
    try:
        return msgspec.json.decode(printed, type=kind)
    except msgspec.MsgspecError as error:
        raise ProcessError(f"{Path(command[0]).name}: {error}") from error


@contextmanager
def running(
    command: Command, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``command`` until the block ends, then send SIGTERM, and SIGKILL if that has no effect.

    Raises:
        ProcessError: it could not be started.
    """
    with log.open("wb") as log_file:
        try:
            process = subprocess.Popen(
                command, stdout=log_file, stderr=log_file, stdin=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            raise ProcessError(f"{command[0]}: {error.strerror or error}") from error
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """Wall time of a process, and its peak resident memory."""

    seconds: float
    resident_bytes: int


def time_process(
    command: Command, log: Path, timeout_seconds: float, codes: Sequence[int] = (0,)
) -> ProcessTime:
    """Run ``command`` to completion, with its output in ``log``.

    Raises:
        ProcessError: its exit code is not one of ``codes``, or it exceeded the time limit.
    """
    begun = time.perf_counter()
    with running(command, log) as process:
        # Only wait4 returns the memory, but it has no time limit.
        killer = Timer(timeout_seconds, process.kill)
        killer.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    if process.returncode not in codes:
        said = log.read_text(errors="replace").strip()[-_OUTPUT_SHOWN:]
        raise ProcessError(f"{command[0]}: exit code {process.returncode}: {said}")
    return ProcessTime(seconds, used.ru_maxrss * 1024)


def wait_for_file(path: Path, process: subprocess.Popen[bytes], timeout_seconds: float) -> bytes:
    """Return the file's contents once ``process`` has written it.

    Raises:
        ProcessError: the process ended first, or the time limit was exceeded.
    """
    give_up = time.monotonic() + timeout_seconds
    while not path.exists():
        if process.poll() is not None:
            raise ProcessError(
                f"{process.args!r}: exit code {process.returncode} before it was ready"
            )
        if time.monotonic() > give_up:
            raise ProcessError(f"{process.args!r}: not ready in {timeout_seconds:.0f} s")
        time.sleep(_POLL_SECONDS)
    return path.read_bytes()


def cpu_seconds(process_id: int) -> float:
    """Return the CPU time, user and system, of a process with its threads and children.

    Children that have ended count once the process has waited for them.

    Source: proc(5), ``/proc/<pid>/stat``, fields 14 to 17; ``/proc/<pid>/task/<tid>/children``.
    """
    process = Path(f"/proc/{process_id}")
    # The name, in parentheses, may itself contain spaces and parentheses.
    after_name = (process / "stat").read_text().rpartition(")")[2].split()
    # The first field after the name is field 3.
    own = sum(map(int, after_name[11:15])) / _TICKS_PER_SECOND
    for child in children_of(process_id):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            own += cpu_seconds(child)
    return own


@contextmanager
def sampling(take: Callable[[], T]) -> Iterator[list[T]]:
    """Yield a list that collects what ``take`` returns: at once, at intervals, and at the end.

    A sample is left out if ``take`` raises OSError, such as for a process that has just ended.
    """
    ended, samples = Event(), [take()]

    def sample() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            with suppress(OSError):
                samples.append(take())

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
        samples.append(take())


def sum_increases(samples: Sequence[float]) -> float:
    """Return the CPU time that was used between samples of ``cpu_seconds``.

    The time of a process is lost when it ends if its parent ignores SIGCHLD. This is the case for
    PySpark's workers, after a minute without tasks.
    """
    return sum(max(0.0, later - earlier) for earlier, later in pairwise(samples))


def children_of(process_id: int) -> list[int]:
    """Return the ids of a process's children.

    Source: proc(5), ``/proc/<pid>/task/<tid>/children``.
    """
    children: list[int] = []
    for of_thread in Path(f"/proc/{process_id}").glob("task/*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            children += map(int, of_thread.read_text().split())
    return children


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A process's memory.

    ``uss_bytes`` counts the pages that no other process maps. ``pss_bytes`` adds its share of the
    other pages, so the sum over all processes is their total memory.
    """

    pss_bytes: int
    uss_bytes: int


def read_memory(process_id: int) -> Memory:
    """Return the memory of a process, without its children.

    Source: proc(5), ``/proc/<pid>/smaps_rollup``.
    """
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    kib = {words[0]: int(words[1]) for words in map(str.split, lines[1:])}
    own = kib["Private_Clean:"] + kib["Private_Dirty:"]
    return Memory(pss_bytes=kib["Pss:"] * 1024, uss_bytes=own * 1024)


def tree_bytes(process_id: int) -> int:
    """Return the total memory of a process and its descendants."""
    try:
        own, children = read_memory(process_id).pss_bytes, children_of(process_id)
    except (OSError, KeyError, IndexError):
        return 0  # the process has ended meanwhile
    return own + sum(map(tree_bytes, children))


def status_bytes(process_id: int, name: str) -> int:
    """Return a size of a process in bytes: ``VmRSS``, its resident memory, or ``VmHWM``, its peak.

    Source: proc(5), ``/proc/<pid>/status``.
    """
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes.

    Source: proc(5), ``/proc/<pid>/statm``, second field.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
