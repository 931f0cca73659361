"""Ten thousand connections to a daemon with eight workers: decisions, memory and descriptors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.authzen import SURFACE
from tools.bench.figures import Line
from tools.bench.processes import children_of, cpu_seconds, read_memory, sampling
from tools.bench.scale_daemon import SETTINGS, started
from tools.bench.scale_process import BODIES, CHECKPOINT, write_files
from tools.bench.steady_load import SteadyLoad

_MIB: Final = 1024 * 1024
_SILENT_MS: Final = "60000"
"""How long a new connection may be silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The connections, and how many requests all of them send in each of ``seconds``."""

    acls: int
    workers: int
    connections: int
    requests_per_second: float
    seconds: float


FULL: Final = Extent(
    acls=1_000_000, workers=8, connections=10_000, requests_per_second=2000.0, seconds=20.0
)
QUICK: Final = Extent(acls=2000, workers=1, connections=20, requests_per_second=200.0, seconds=0.2)


class _Processes(msgspec.Struct, frozen=True):
    """The daemon and its workers: what they take together, and the most files of one."""

    pss_bytes: int
    open_files: int
    most_files: int


def measure_many_connections(directory: Path, extent: Extent) -> Iterator[Line]:
    """Yield the lines; files are written below ``directory``.

    Raises:
        ProcessError: the daemon failed, or refused a request or a connection.
    """
    write_files(extent.acls, directory)
    # More than are opened: a process may get more than its part, and probes need some, too.
    most = str(2 * extent.connections)
    settings = {
        **SETTINGS,
        "authorizerd.workers": str(extent.workers),
        "max.connections": most,
        "max.connections.per.ip": most,
        # The last connections ask first after many others were opened.
        "authorizerd.login.timeout.ms": _SILENT_MS,
        "authorizerd.http.header.timeout.ms": _SILENT_MS,
    }
    with started(directory / "daemon", directory / CHECKPOINT, settings) as (daemon, start):
        process_id = daemon.process_id
        load = SteadyLoad(
            host=daemon.decision_http,
            path=SURFACE.one_path,
            bodies=directory / BODIES,
            requests_per_second=extent.requests_per_second,
            seconds=extent.seconds,
            connections=extent.connections,
        )
        before, used = _read(process_id), cpu_seconds(process_id)
        with sampling(lambda: _read(process_id)) as samples:
            report = load.run()
        used = cpu_seconds(process_id) - used
    most_memory = max(sample.pss_bytes for sample in samples)
    where = (
        f"scale, {extent.connections:,} connections, {extent.workers} workers, {extent.acls:,} ACLs"
    )
    for what, unit, ours in (
        ("start until all workers listen", "s", start.seconds),
        ("memory of all processes, PSS", "MiB", before.pss_bytes / _MIB),
        (
            "memory that a connection adds, PSS",
            "KiB",
            (most_memory - before.pss_bytes) / extent.connections / 1024,
        ),
        ("open files of all processes", "", max(sample.open_files for sample in samples)),
        ("most open files of a process", "", max(sample.most_files for sample in samples)),
        ("requests", "", report.requests),
        ("decisions, p50", "ms", report.at(50)),
        ("decisions, p99", "ms", report.at(99)),
        ("the load generator's own delay, p99", "ms", report.lag_p99_ms),
        ("CPU for a decision, opening of connections included", "µs", used / report.requests * 1e6),
    ):
        yield Line(what=f"{where}: {what}", unit=unit, ours=ours)


def _read(process_id: int) -> _Processes:
    processes = [process_id, *children_of(process_id)]
    files = [len(os.listdir(f"/proc/{each}/fd")) for each in processes]
    memory = sum(read_memory(each).pss_bytes for each in processes)
    return _Processes(memory, sum(files), max(files))
