"""What grows with the number of ACLs, from 20,000 to 5 million, compared with StandardAuthorizer.

Each size is another ``crowd``. The daemon starts from its log and from its checkpoint, and Kafka's
authorizer from the same checkpoint. No file of a log is in the page cache before a start.

    python -m tools.bench.scale log|checkpoint ACLS DIRECTORY      (writes the file of a size)
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.model import Question
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.kafka_rig.rig import VERSION
from tests.support.daemon_process import wait_until
from tools.bench.creations import create_plan, describe_plan
from tools.bench.decisions import WORKERS
from tools.bench.event_loop import LIMIT_MS, read_loop_report, watched_daemon
from tools.bench.figures import MIB, Metric, Row, percentile_rows, rows, rows_of
from tools.bench.in_memory import InMemory, measure_set, metrics_of
from tools.bench.run import Run, write_checkpoint, write_log
from tools.bench.searches import (
    DECISION,
    EXPLAIN,
    RATE,
    WHAT_CAN,
    WHO_CAN,
    Endpoint,
    measure_beside,
    rows_of_asker,
    trust,
)
from tools.bench.sender import Plan, send
from tools.bench.sets import GREATEST, crowd
from tools.daemon_process import DaemonProcess, ready_daemon
from tools.processes import (
    Command,
    capture_output,
    children_of,
    cpu_seconds,
    read_memory,
    sampling,
    status_bytes,
    tree_bytes,
)

ACLS: Final = (20_000, 100_000, 505_000, 1_000_000, 5_000_000)
BESIDE: Final = (505_000, 5_000_000)
"""The sizes at which decisions are also measured during each long-running question."""

_READY_SECONDS: Final = 900.0
_CHECKPOINT_SECONDS: Final = 300.0
_BYTES_PER_ACL_MIN: Final = 50
_FIRST: Final = count(0, 5000)
"""The number of each load's first question."""


class Start(msgspec.Struct, frozen=True):
    """A start until the daemon is ready, and its memory at that point, without its workers."""

    seconds: float
    cpu_seconds: float
    memory_bytes: float
    peak_bytes: int
    pss_bytes: int


_BOTH: Final[tuple[Metric[Any], ...]] = (
    ("start from a checkpoint", "s", lambda it: it.seconds),
    ("start from a checkpoint, CPU", "s", lambda it: it.cpu_seconds),
    ("memory, resident (peer: heap)", "MiB", lambda it: it.memory_bytes / MIB),
)
_IN_MEMORY: Final[tuple[Metric[InMemory], ...]] = (
    *islice(metrics_of("decision in memory", lambda it: it.call_us), 2),
    *metrics_of("update in memory", lambda it: it.update_us),
)


def measure_scale(run: Run) -> Iterator[Row]:
    """Measure each size."""
    for acls in run.pick(ACLS, (2000,)):
        place = run.new_place("scale")
        write_set(acls, place, "log", "checkpoint")
        try:
            yield from _measure_size(run, f"{acls:,} ACLs", acls, place)
        finally:
            shutil.rmtree(place)


def _measure_size(run: Run, what: str, acls: int, place: Path) -> Iterator[Row]:
    folder, checkpoint, seconds = place / "daemon", place / "checkpoint", run.pick(3.0, 0.2)
    asked = crowd(acls, run.pick(10_000, 1000))
    ours, theirs = measure_set(run, asked, checkpoint, place, seconds=0)
    # The log read at the start is always long enough to trigger a checkpoint.
    due = {"metadata.log.max.record.bytes.between.snapshots": str(acls * _BYTES_PER_ACL_MIN)}
    with started(folder, place / "log", due) as (daemon, from_log):
        yield from _measure_checkpoint(run, what, acls, daemon, place / "log")
        yield from _measure_daemon(run, what, acls, daemon, seconds)
        if acls in run.pick(BESIDE, (2000,)):
            names = ("who can", "what can", "as of", "history", "a listing of all ACLs")
            yield from measure_beside(run, f"{what}, HTTP", daemon, _questions(acls), names)
        begun = time.perf_counter()
    yield from rows(what, ("stop", "s", time.perf_counter() - begun))
    with started(folder, checkpoint, {}) as (_, from_checkpoint):
        pass
    with started(folder, checkpoint, {"authorizerd.workers": str(WORKERS)}) as (daemon, workers):
        each = children_of(daemon.process_id)
        worker_pss = max(read_memory(worker).pss_bytes for worker in each)
        worker_resident = max(status_bytes(worker, "VmRSS") for worker in each)
        times = send(decide_plan(daemon, acls, seconds)).times_ms
        yield from percentile_rows(what, times, of=f"decision over HTTP, {WORKERS} workers")
    peer = f"Kafka {VERSION}"
    yield from rows_of(what, _BOTH, from_checkpoint, peer, theirs)
    yield from rows(
        what,
        ("peak memory of a start from a checkpoint", "MiB", from_checkpoint.peak_bytes / MIB),
        ("start from a log", "s", from_log.seconds),
        ("start from a log, CPU", "s", from_log.cpu_seconds),
        ("peak memory of a start from a log", "MiB", from_log.peak_bytes / MIB),
        (f"start with {WORKERS} workers", "s", workers.seconds),
        (f"start with {WORKERS} workers, CPU", "s", workers.cpu_seconds),
        ("memory of the daemon with workers, PSS", "MiB", workers.pss_bytes / MIB),
        ("memory of each worker, PSS", "MiB", worker_pss / MIB),
        ("memory of each worker, resident", "MiB", worker_resident / MIB),
        ("load in memory, CPU", "s", ours.cpu_seconds),
    )
    yield from rows_of(what, _IN_MEMORY, ours, peer, theirs)
    yield from _measure_loop(run, what, acls, place)


def write_set(acls: int, place: Path, *kinds: str) -> None:
    """Write a size's files, each in a process of its own: millions of ACLs take gigabytes."""

    def write(kind: str) -> None:
        command: Command = [sys.executable, "-m", "tools.bench.scale", kind, str(acls), place]
        capture_output(command, timeout_seconds=_READY_SECONDS)

    with ThreadPoolExecutor(len(kinds)) as threads:
        list(threads.map(write, kinds))


def decide_plan(daemon: DaemonProcess, acls: int, seconds: float) -> Plan:
    """Return decisions at a fixed rate, with questions that no earlier load has asked."""
    host, requests = daemon.decision_http, DECISION.requests(daemon, [*crowd(acls).questions()])
    return Plan(address=host, requests=requests, rate=RATE, seconds=seconds, first=next(_FIRST))


def _questions(acls: int) -> list[Question]:
    """Return questions about topics for which the principal has a rule of its own."""
    return [*crowd(acls, 10_000).questions()][5::10]


@contextmanager
def started(
    directory: Path, log_dir: Path, more: Mapping[str, str]
) -> Iterator[tuple[DaemonProcess, Start]]:
    """Run a daemon on files that are not in the page cache, until the block ends."""
    settings, token = trust(directory)
    for path in log_dir.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)  # only clean pages can be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    begun = time.perf_counter()
    settings = {**settings, **more}
    with ready_daemon(
        directory, log_dir, settings, timeout_seconds=_READY_SECONDS, token=token
    ) as daemon:
        seconds, own = time.perf_counter() - begun, daemon.process_id
        memory, peak = status_bytes(own, "VmRSS"), status_bytes(own, "VmHWM")
        start = Start(seconds, cpu_seconds(own), memory, peak, read_memory(own).pss_bytes)
        yield daemon, start


def _measure_checkpoint(
    run: Run, what: str, acls: int, daemon: DaemonProcess, log_dir: Path
) -> Iterator[Row]:
    """Wait until the daemon has written a checkpoint of the log; ask it questions meanwhile."""
    directory, seconds = log_dir / METADATA_TOPIC_DIRECTORY, _CHECKPOINT_SECONDS
    wait_until(lambda: any(directory.glob("*.checkpoint*")), "a checkpoint begins", seconds, 0.01)
    begun = time.time()
    # A load of 1,000 requests, which support a 99th percentile.
    during = send(decide_plan(daemon, acls, run.pick(2.5, 0.1)))
    is_during = not any(directory.glob("*.checkpoint"))
    wait_until(lambda: any(directory.glob("*.checkpoint")), "a checkpoint", seconds, 0.01)
    (path,) = directory.glob("*.checkpoint")
    # The time of its renaming, which may be before the first check.
    if (taken := path.stat().st_ctime - begun) > 0:
        yield from rows(what, ("checkpoint", "s", taken))
    if is_during:
        of = "decision over HTTP during a checkpoint"
        yield from percentile_rows(what, during.times_ms, of=of)


def _measure_daemon(
    run: Run, what: str, acls: int, daemon: DaemonProcess, seconds: float
) -> Iterator[Row]:
    """Yield decisions, acknowledged updates and searches of one daemon."""
    report, of = send(decide_plan(daemon, acls, seconds)), "decision over HTTP"
    yield from percentile_rows(what, report.times_ms, of=of)
    yield from rows(what, (f"{of}, the sender's own lag, p99", "ms", report.lag_p99_ms))
    updates = send(create_plan(daemon.kafka, "update", run.pick(5.5, 0.2), rate=200.0))
    yield from percentile_rows(what, updates.times_ms, of="acknowledged update")
    for name, plan in _searches(daemon, acls, seconds).items():
        yield from rows_of_asker(what, send(plan), name)


def _searches(daemon: DaemonProcess, acls: int, seconds: float) -> dict[str, Plan]:
    """Return each kind of search, one at a time, once the daemon answers searches."""
    ready = "authorizerd_query_process_ready"
    wait_until(lambda: daemon.metric(ready) == 1, "searches are answered", _READY_SECONDS, 0.1)
    asked, host = _questions(acls), daemon.decision_http
    of_greatest = [replace(question, principal=GREATEST) for question in asked]

    def over_http(endpoint: Endpoint, questions: Sequence[Question] = asked) -> Plan:
        requests = endpoint.requests(daemon, questions)
        return Plan(address=host, requests=requests, connections=1, seconds=seconds)

    principals = [question.principal for question in asked[:100]]
    return {
        "who can": over_http(WHO_CAN),
        "what can": over_http(WHAT_CAN),
        "what can, a fifth of all ACLs": over_http(WHAT_CAN, of_greatest),
        "explain": over_http(EXPLAIN),
        "describeAcls of a principal": describe_plan(daemon.kafka, seconds, principals),
    }


def _measure_loop(run: Run, what: str, acls: int, place: Path) -> Iterator[Row]:
    """Yield the event loop's longest step during a start from a checkpoint and some other work."""
    log_dir, seconds = place / "checkpoint", run.pick(1.5, 0.2)
    settings, token = trust(place)
    with watched_daemon(
        place / "daemon", log_dir, settings, timeout_seconds=_READY_SECONDS, token=token
    ) as daemon:
        send(create_plan(daemon.kafka, "update", seconds, rate=200.0))
        for plan in _searches(daemon, acls, seconds).values():
            send(plan)
    report = read_loop_report(place / "daemon")
    yield from rows(what, ("event loop: stretch, p99.9, CPU", "ms", report["stretch, CPU"].p999))
    metric, longest = "event loop: longest step of one task, CPU", report["step, CPU"].max
    yield Row(what=what, metric=metric, unit="ms", ours=longest, limit=LIMIT_MS)


def measure_connections(run: Run) -> Iterator[Row]:
    """Measure many connections to a daemon with workers."""
    acls, workers, connections = run.pick((1_000_000, 8, 10_000), (2000, 1, 20))
    place, seconds = run.new_place("connections"), run.pick(20.0, 0.2)
    write_set(acls, place, "checkpoint")
    # More than are opened: a process may get more than its share, and probes also need some.
    most = str(2 * connections)
    limits = {
        "authorizerd.workers": str(workers),
        "max.connections": most,
        "max.connections.per.ip": most,
        # The last connections send their first question after many others were opened.
        "authorizerd.login.timeout.ms": "60000",
        "authorizerd.http.header.timeout.ms": "60000",
    }
    with started(place / "daemon", place / "checkpoint", limits) as (daemon, start):
        plan = decide_plan(daemon, acls, seconds)
        plan = replace(plan, connections=connections, rate=run.pick(2000.0, 200.0))
        before, used = _read(daemon.process_id), cpu_seconds(daemon.process_id)
        with sampling(lambda: _read(daemon.process_id)) as samples:
            report = send(plan)
        used = cpu_seconds(daemon.process_id) - used
    added = max(sample[0] for sample in samples) - before[0]
    what = f"{connections:,} connections, {workers} workers, {acls:,} ACLs"
    yield from rows(
        what,
        ("start until all workers listen", "s", start.seconds),
        ("memory of all processes, PSS", "MiB", before[0] / MIB),
        ("memory that a connection adds, PSS", "KiB", added / connections / 1024),
        ("open files of all processes", "", max(sum(sample[1]) for sample in samples)),
        ("most open files of a process", "", max(max(sample[1]) for sample in samples)),
        ("requests", "", report.answered),
        ("the sender's own lag, p99", "ms", report.lag_p99_ms),
        ("CPU for a decision, opening of connections included", "µs", used / report.asked * 1e6),
    )
    yield from percentile_rows(what, report.times_ms, of="decision")
    shutil.rmtree(place)


def _read(process_id: int) -> tuple[int, list[int]]:
    """Return the memory of a daemon and its workers together, and the open files of each."""
    processes = [process_id, *children_of(process_id)]
    return tree_bytes(process_id), [len(os.listdir(f"/proc/{each}/fd")) for each in processes]


if __name__ == "__main__":
    write = {"log": write_log, "checkpoint": write_checkpoint}[sys.argv[1]]
    write(Path(sys.argv[3]) / sys.argv[1], crowd(int(sys.argv[2])).added())
