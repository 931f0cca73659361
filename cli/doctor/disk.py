"""Check the log's disk: its free space, and how long a sync takes.

**Invariant:** the file written for the measurement is removed, even if the check fails.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from authorizerd.cli.doctor.finding import Finding, error, ok, warning

FREE_BYTES_LEAST: Final = 16 * 1024 * 1024
FREE_BYTES_ENOUGH: Final = 256 * 1024 * 1024
FREE_FILES_ENOUGH: Final = 1000
SYNCS: Final = 5
SYNC_BYTES: Final = 4096
SYNC_SLOW_MS: Final = 50.0
PROBE_PREFIX: Final = ".authorizerd-doctor-"

_CHECK: Final = "disk"
_MIB: Final = 1024 * 1024


def disk_findings(log_dir: Path) -> Iterator[Finding]:
    """Yield the findings about the disk of ``log_dir``; nothing if the directory is missing."""
    if not os.path.isdir(log_dir):
        return  # another check reports it
    try:
        status = os.statvfs(log_dir)
        yield room_finding(log_dir, status.f_bavail * status.f_frsize)
        if status.f_files:  # some file systems have no limit
            yield files_finding(log_dir, status.f_favail)
        yield sync_finding(log_dir, sync_times_ms(log_dir))
    except OSError as fault:
        text = f"{log_dir}: {fault.strerror or fault}"
        yield error(_CHECK, text, "see to the disk, and to the rights of the daemon's user")


def room_finding(log_dir: Path, free_bytes: int) -> Finding:
    """Report the free space: a log that cannot be written ends the daemon."""
    text = f"{log_dir}: {free_bytes // _MIB} MiB are free"
    advice = "make room: a log that cannot be written ends the daemon"
    if free_bytes < FREE_BYTES_LEAST:
        return error(_CHECK, text, advice)
    return ok(_CHECK, text) if free_bytes >= FREE_BYTES_ENOUGH else warning(_CHECK, text, advice)


def files_finding(log_dir: Path, free_files: int) -> Finding:
    """Report the free inodes: each checkpoint and each segment is a new file."""
    text = f"{log_dir}: {free_files} more files can be made"
    if free_files < FREE_FILES_ENOUGH:
        return warning(_CHECK, text, "remove unneeded files: inodes run out")
    return ok(_CHECK, text)


def sync_finding(log_dir: Path, times_ms: list[float]) -> Finding:
    """Report the sync time, the minimum for a change, which is acknowledged after its sync."""
    median_ms, most_ms = statistics.median(times_ms), max(times_ms)
    text = f"{log_dir}: a sync takes {median_ms:.1f} ms, at most {most_ms:.1f} ms"
    if median_ms > SYNC_SLOW_MS:
        return warning(_CHECK, text, "expect slow changes: put the log on a faster disk")
    return ok(_CHECK, text)


def sync_times_ms(log_dir: Path) -> list[float]:
    """Return how long a few synced appends to a new file took; blocks.

    Raises:
        OSError: the directory cannot be written.
    """
    times_ms = []
    with NamedTemporaryFile(prefix=PROBE_PREFIX, dir=log_dir, buffering=0) as file:
        for _ in range(SYNCS):
            started = time.perf_counter()
            file.write(bytes(SYNC_BYTES))
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - started) * 1000)
    return times_ms
