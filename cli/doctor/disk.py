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


def examine_disk(log_dir: Path, *, is_copy: bool = False) -> Iterator[Finding]:
    """Examine the disk of ``log_dir``; yield nothing if the directory is missing.

    Args:
        is_copy: it has the copy of a followed cluster, without which the daemon goes on.
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
        if not is_copy:  # no change waits for it
            yield judge_syncs(log_dir, measure_syncs_ms(log_dir))
    except OSError as fault:
        text = f"{log_dir}: {fault.strerror or fault}"
        yield error(_CHECK, text, "check the disk, and the permissions of the daemon's user")


def judge_free_space(log_dir: Path, free_bytes: int, *, is_copy: bool = False) -> Finding:
    """Judge the free space: the daemon ends when it cannot write its own log."""
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
    """Return how long a few synced appends to a new file took; blocks.

    Raises:
        OSError: the directory cannot be written.
    """
    times_ms = []
    # Unbuffered, or the sync would find nothing to write.
    with NamedTemporaryFile(prefix=PROBE_PREFIX, dir=log_dir, buffering=0) as file:
        for _ in range(SYNCS):
            started = time.perf_counter()
            file.write(bytes(SYNC_BYTES))
            # The daemon syncs its log with the same call.
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - started) * 1000)
    return times_ms
