"""Check the machine: its clock, its limits, the installed packages, and the log's disk.

**Invariant:** the file written to measure the disk is removed, even if the check fails.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.endpoints import connections_wanted
from authorizerd.daemon.net.fd_limit import OTHER_FILES
from authorizerd.daemon.process.utc_time import format_utc

DISTRIBUTION: Final = "authorizerd"
CLOCK_START_S: Final = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""This version was released later, so a clock that shows an earlier time was never set."""
CLOCK_SAMPLE_S: Final = 0.02
CLOCK_STEP_S: Final = 0.005
PYTHON_LEAST: Final = (3, 11)

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?!.*\bextra\b)")


def examine_clock() -> Iterator[Finding]:
    """Examine the clock, whose time is written to audit lines and checkpoints."""
    wall_s, steady_s = time.time(), time.monotonic()
    time.sleep(CLOCK_SAMPLE_S)
    step_s = (time.time() - wall_s) - (time.monotonic() - steady_s)
    yield judge_clock(wall_s, step_s)


def judge_clock(wall_s: float, step_s: float) -> Finding:
    """Judge a clock that shows ``wall_s`` and has just gained ``step_s`` on the monotonic clock."""
    shown = format_utc(wall_s)
    advice = "let chrony or systemd-timesyncd set the clock"
    if wall_s < CLOCK_START_S:
        return error("clock", f"{shown} is in the past: the clock was never set", advice)
    if abs(step_s) > CLOCK_STEP_S:
        moved = f"{step_s * 1000:+.0f} ms in {CLOCK_SAMPLE_S * 1000:.0f} ms"
        return warning("clock", f"{shown}, and it was just set: {moved}", advice)
    return ok("clock", shown)


def examine_limits(configuration: Configuration) -> Iterator[Finding]:
    """Check whether the limit on open files is high enough for all connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_wanted(configuration)
    yield judge_limit(sum(wanted.values()) + OTHER_FILES, most)


def judge_limit(wanted: int, most: int) -> Finding:
    """Judge the hard limit; the daemon raises the soft one by itself."""
    limit = "any number of" if most == resource.RLIM_INFINITY else f"{most}"
    text = f"{limit} files may be open, and max.connections needs {wanted}"
    if most == resource.RLIM_INFINITY or most >= wanted:
        return ok("limits", text)
    return warning("limits", text, "raise the hard limit (LimitNOFILE), or lower max.connections")


def examine_versions(installed: Callable[[str], str] = version) -> Iterator[Finding]:
    python = platform.python_version()
    if sys.version_info < PYTHON_LEAST:
        yield error("versions", f"Python {python} is too old", "install Python 3.11 or newer")
    found = [f"Python {python}"]
    for name in list_requirements(requires(DISTRIBUTION) or []):
        try:
            found.append(f"{name} {installed(name)}")
        except PackageNotFoundError:
            advice = f"pip install --force-reinstall {DISTRIBUTION}"
            yield error("versions", f"{name} is not installed", advice)
    yield ok("versions", ", ".join(found))


def list_requirements(requirements: Iterable[str]) -> list[str]:
    """Return the distributions in ``requirements``, except those needed only by an extra."""
    matches = map(_REQUIREMENT.match, requirements)
    return [match[1] for match in matches if match is not None]


FREE_BYTES_LEAST: Final = 16 * 1024 * 1024
FREE_BYTES_ENOUGH: Final = 256 * 1024 * 1024
FREE_FILES_ENOUGH: Final = 1000
SYNCS: Final = 5
SYNC_BYTES: Final = 4096
SYNC_SLOW_MS: Final = 50.0
PROBE_PREFIX: Final = ".authorizerd-doctor-"

_CHECK: Final = "disk"
_MIB: Final = 1024 * 1024


def examine_disk(log_dir: Path, *, is_copy: bool = False) -> Iterator[Finding]:
    """Examine the disk of ``log_dir``; yield nothing if the directory is missing.

    Args:
        is_copy: True if it has the copy of a followed cluster, without which the daemon could
            continue.
    """
    if not os.path.isdir(log_dir):
        return  # another check reports it
    try:
        status = os.statvfs(log_dir)
        if status.f_flag & os.ST_RDONLY:
            return  # another check reports it
        yield judge_free_space(log_dir, status.f_bavail * status.f_frsize, is_copy=is_copy)
        if status.f_files:  # some file systems have no limit
            yield judge_free_files(log_dir, status.f_favail)
        if not is_copy:  # no change waits for a copy's disk
            yield judge_syncs(log_dir, measure_syncs_ms(log_dir))
    except OSError as fault:
        text = f"{log_dir}: {fault.strerror or fault}"
        yield error(_CHECK, text, "check the disk, and the permissions of the daemon's user")


def judge_free_space(log_dir: Path, free_bytes: int, *, is_copy: bool = False) -> Finding:
    """Judge the free space: the daemon ends if it cannot write its own log."""
    text = f"{log_dir}: {free_bytes // _MIB} MiB are free"
    advice = "free disk space: the daemon ends when it cannot write its log"
    if is_copy:
        advice = "free disk space: without its copy, a restart needs the cluster to decide"
    if free_bytes < FREE_BYTES_LEAST:
        return (warning if is_copy else error)(_CHECK, text, advice)
    return ok(_CHECK, text) if free_bytes >= FREE_BYTES_ENOUGH else warning(_CHECK, text, advice)


def judge_free_files(log_dir: Path, free_files: int) -> Finding:
    """Judge the free inodes: each checkpoint and each segment is a new file."""
    text = f"{log_dir}: {free_files} inodes are free"
    if free_files < FREE_FILES_ENOUGH:
        return warning(_CHECK, text, "remove unneeded files: each file needs an inode")
    return ok(_CHECK, text)


def judge_syncs(log_dir: Path, times_ms: list[float]) -> Finding:
    """Judge the sync time: a change is acknowledged only after its sync."""
    median_ms, most_ms = statistics.median(times_ms), max(times_ms)
    text = f"{log_dir}: a sync takes {median_ms:.1f} ms (median), {most_ms:.1f} ms at most"
    if median_ms > SYNC_SLOW_MS:
        return warning(_CHECK, text, "put the log on a faster disk: every change waits for a sync")
    return ok(_CHECK, text)


def measure_syncs_ms(log_dir: Path) -> list[float]:
    """Return the durations of a few synced appends to a new file; blocks."""
    times_ms = []
    # Unbuffered: otherwise the sync would find nothing to write.
    with NamedTemporaryFile(prefix=PROBE_PREFIX, dir=log_dir, buffering=0) as file:
        for _ in range(SYNCS):
            started = time.perf_counter()
            file.write(bytes(SYNC_BYTES))
            # The daemon syncs its log with the same system call.
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - started) * 1000)
    return times_ms
