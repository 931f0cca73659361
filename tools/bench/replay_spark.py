"""Replay's jobs in a new Spark session, timed one by one: one process for each measurement.

    python -m tools.bench.replay_spark jobs DIRECTORY LOG…
    python -m tools.bench.replay_spark ingest DIRECTORY LOG…
    python -m tools.bench.replay_spark load DIRECTORY LOG TARGET PROCESS_ID RATE…

The session's start, about ten seconds for any job, is timed separately. ``jobs`` is an ingest, cold
and warm, and what-ifs of the set ``kind`` without the ACLs of every tenth user.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.ingest import job as ingest
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.load import job as load
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.plans import IngestPlan, LoadPlan, WhatIfPlan
from authorizerd.replay.spark.session import session_builder
from authorizerd.replay.whatif import job as whatif
from authorizerd.replay.whatif.report import decode_whatif
from tools.bench.figures import MeasurementError, Row
from tools.bench.sets import kind
from tools.processes import cpu_seconds, sampling, sum_increases, tree_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
TABLE: Final = "events"
_TENTH: Final = 10
_CLOSED_ROUNDS: Final = 10
_CONFIGURATION: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # ``replay load`` requires both: a task that runs twice would send its load twice.
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    # The event log has the figures of each task, even without Spark's web pages.
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


class JobTime(msgspec.Struct, frozen=True):
    """Wall time of a job, and the CPU time of all its processes."""

    seconds: float
    cpu: float


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """One session. ``times`` are of its start, of ingests, and of what-ifs: cold, same ACLs, warm.

    ``newly_denied`` counts events; ``changed_by_same_acls`` must be 0. ``peak_bytes`` is the peak
    memory of all processes together; ``spilled_bytes`` is what tasks wrote to disk for lack of
    memory.
    """

    times: list[JobTime]
    lines: int
    tuples: int
    peak_bytes: int
    shuffle_bytes: int
    spilled_bytes: int
    table_bytes: int
    changed_by_same_acls: int = 0
    newly_denied: int = 0


def candidate_acls() -> list[Acl]:
    """Return the ACLs of the set ``kind`` without those of every tenth user."""
    return [acl for acl in kind().acls() if int(acl.principal[len("User:u") :]) % _TENTH]


@contextmanager
def _timing(times: list[JobTime]) -> Iterator[None]:
    """Append the block's times; redirect its output to standard error."""
    begun = time.perf_counter()
    # Standard output must contain only the report.
    with redirect_stdout(sys.stderr), sampling(partial(cpu_seconds, os.getpid())) as samples:
        yield
    times.append(JobTime(time.perf_counter() - begun, sum_increases(samples)))


@contextmanager
def _session(directory: Path, times: list[JobTime]) -> Iterator[SparkSession]:
    """Run a session on this machine's cores, with its files below ``directory``."""
    # By default, Spark's workers would run the ``python3`` of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    history = directory / "history"
    shutil.rmtree(history, ignore_errors=True)
    history.mkdir()
    places = {
        "spark.local.dir": str(directory / "spark"), "spark.eventLog.dir": history.as_uri(),
    }  # fmt: skip
    with _timing(times):
        builder = session_builder("bench").master(f"local[{CORES}]")
        for key, value in {**_CONFIGURATION, **places}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _ingest(spark: SparkSession, logs: Sequence[str], table: Path, times: list[JobTime]) -> None:
    with _timing(times):
        code = ingest.run(spark, IngestPlan(inputs=tuple(logs), out=str(table), overwrite=True))
    if code:
        raise MeasurementError(f"the ingest of {logs[0]} ended with {code}")


def measure_jobs(directory: Path, *logs: str, is_ingest: bool = False) -> Jobs:
    """Ingest ``logs`` twice, then apply fewer, the same, and again fewer ACLs; or only ingest."""
    times: list[JobTime] = []
    table, found = directory / TABLE, []
    with sampling(partial(tree_bytes, os.getpid())) as peaks, _session(directory, times) as spark:
        for _ in range(1 if is_ingest else 2):
            _ingest(spark, logs, table, times)
        fewer, same = candidate_acls(), [*kind().acls()]
        asked = (("cold", fewer), ("same", same), ("warm", fewer))
        for name, acls in () if is_ingest else asked:
            out, dated = directory / name, tuple(map(DatedAcl, acls))
            wanted = AclSet(source=name, acls=dated, digest=digest_of(acls))
            plan = WhatIfPlan(events=str(table), out=str(out), candidate=wanted, overwrite=True)
            with _timing(times):
                whatif.run(spark, plan)
            found.append(decode_whatif((out / "whatif.json").read_text()))
    ingested = decode_ingested((table / "ingest.json").read_text())
    (history,) = (directory / "history").iterdir()
    shuffle_bytes, spilled_bytes = sum_task_metrics(history)
    jobs = Jobs(
        times=times, lines=ingested.events, tuples=ingested.tuples, peak_bytes=max(peaks),
        shuffle_bytes=shuffle_bytes, spilled_bytes=spilled_bytes,
        table_bytes=sum(file.stat().st_size for file in table.rglob("*.parquet")),
    )  # fmt: skip
    if is_ingest:
        return jobs
    denied, unchanged, _ = found
    changed = unchanged.newly_denied.events + unchanged.newly_allowed.events
    newly_denied = denied.newly_denied.events
    return msgspec.structs.replace(jobs, changed_by_same_acls=changed, newly_denied=newly_denied)


def sum_task_metrics(history: Path) -> tuple[int, int]:
    """Return the bytes that tasks wrote for shuffles, and the bytes that they spilled to disk.

    Source: Spark 4 JsonProtocol, SparkListenerTaskEnd.
    """
    shuffle_bytes = spilled_bytes = 0
    with history.open() as lines:
        for line in lines:
            metrics = json.loads(line).get("Task Metrics")
            if metrics is not None:
                shuffle_bytes += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                spilled_bytes += metrics["Disk Bytes Spilled"]
    return shuffle_bytes, spilled_bytes


def measure_load(
    directory: Path, log: str, target: str, process_id: str, *rates: str
) -> Iterator[Row]:
    """Ingest ``log``, then send its questions to ``target``: closed loop (0), or at each rate."""
    table = directory / TABLE
    with _session(directory, []) as spark:
        _ingest(spark, (log,), table, [])
        for rate in map(int, rates):
            out = directory / f"load-{rate}"
            plan = LoadPlan(
                events=str(table), out=str(out), target=target, run_id=f"bench-{rate}",
                mode="open" if rate else "closed", rate=rate or None, lanes=CORES, batch=64,
                depth=8, loop=0 if rate else _CLOSED_ROUNDS, warm_up_s=1.0, duration_s=4.0,
                max_send_lag_ms=1000.0, overwrite=True,
            )  # fmt: skip
            before, times = cpu_seconds(int(process_id)), list[JobTime]()
            with _timing(times):
                load.run(spark, plan)
            used = cpu_seconds(int(process_id)) - before
            report = msgspec.json.decode((out / "load.json").read_bytes(), type=LoadReport)
            pace = f"{rate:,} per second" if rate else "closed"
            what = f"replay load, {CORES} tasks, {pace}"
            yield from _load_rows(what, report, used, times[0].cpu)


def _load_rows(what: str, report: LoadReport, used: float, spark_used: float) -> Iterator[Row]:
    if report.mismatches or report.errors or report.unanswered:
        raise MeasurementError(
            f"{report.mismatches} answers differ, {report.unanswered} never came: {report.errors}"
        )
    if report.latency is None:
        raise MeasurementError(f"nothing was measured: {report.invalid_reasons}")
    corrected, lag = report.latency.corrected.p99_ms, report.latency.send_lag.p99_ms
    for metric, unit, ours in (
        ("decisions", "/s", report.served_per_s),
        ("p99, corrected", "ms", corrected),
        *([] if "closed" in what else [("send lag, p99", "ms", lag)]),
        ("the daemon's CPU for a decision", "µs", used / report.sent * 1e6),
        ("Spark's CPU for a decision, planning included", "µs", spark_used / report.sent * 1e6),
    ):
        if ours is None:
            raise MeasurementError(f"{what}: {metric} was not measured")
        yield Row(what=what, metric=metric, unit=unit, ours=ours)


if __name__ == "__main__":
    _MEASURES: dict[str, Callable[..., object]] = {
        "jobs": measure_jobs,
        "ingest": partial(measure_jobs, is_ingest=True),
        "load": lambda *words: [*measure_load(*words)],
    }
    measured = _MEASURES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
