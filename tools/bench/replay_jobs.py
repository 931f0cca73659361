"""Replay's jobs in a new Spark session, timed one by one: one process for each log.

    python -m tools.bench.replay_jobs LOG DIRECTORY

The session's start, about ten seconds for any job, is timed separately. The what-if applies the set
``kind`` without the ACLs of every tenth user.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.ingest import job as ingest
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.spark.session import session_builder
from authorizerd.replay.whatif import job as whatif
from authorizerd.replay.whatif.report import decode_whatif
from tools.bench.processes import cpu_seconds, sampling, sum_increases
from tools.bench.sets import kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
TABLE: Final = "events"
_TENTH: Final = 10


class JobTime(msgspec.Struct, frozen=True):
    """Wall time of a job, and the CPU time of all its processes."""

    seconds: float
    cpu: float


class ReplayReport(msgspec.Struct, frozen=True):
    """``newly_denied`` counts events; ``changed_by_same_acls`` must be 0.

    ``ingest`` and ``cold`` are the first ingest and the first what-if of the session;
    ``warm_ingest`` and ``warm`` are the same ones again.
    """

    session: JobTime
    ingest: JobTime
    warm_ingest: JobTime
    cold: JobTime
    warm: JobTime
    lines: int
    tuples: int
    changed_by_same_acls: int
    newly_denied: int


def candidate_acls() -> list[Acl]:
    """Return the ACLs of the set ``kind`` without those of every tenth user."""
    return [acl for acl in kind().acls() if int(acl.principal[len("User:u") :]) % _TENTH]


def _acl_set(source: str, acls: list[Acl]) -> AclSet:
    return AclSet(source=source, acls=tuple(map(DatedAcl, acls)), digest=digest_of(acls))


@contextmanager
def time_job(times: list[JobTime]) -> Iterator[None]:
    """Append the block's times; redirect its output to standard error."""
    begun = time.perf_counter()
    # Standard output must contain only the report.
    with redirect_stdout(sys.stderr), sampling(partial(cpu_seconds, os.getpid())) as samples:
        yield
    times.append(JobTime(time.perf_counter() - begun, sum_increases(samples)))


def local_session(directory: Path) -> SparkSession:
    """Return a session on this machine's cores, with its files below ``directory``."""
    return session_on(directory, f"local[{CORES}]")


def session_on(
    directory: Path, master: str, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session of a local master, with its files below ``directory``."""
    # By default, Spark's workers would run the ``python3`` of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = session_builder("bench").master(master)
    for key, value in (
        ("spark.ui.enabled", "false"),
        ("spark.driver.memory", "4g"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.local.dir", str(directory / "spark")),
        ("spark.sql.shuffle.partitions", "8"),
        # ``replay load`` requires both: a task that runs twice would send its load twice.
        ("spark.speculation", "false"),
        ("spark.task.maxFailures", "1"),
        *(settings or {}).items(),
    ):
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure_jobs(log: Path, directory: Path) -> ReplayReport:
    """Ingest ``log`` twice, then apply fewer ACLs, the same, and fewer again.

    Files are written below ``directory``, and the table is its ``TABLE``.
    """
    times: list[JobTime] = []
    with time_job(times):
        spark = local_session(directory)
    try:
        events = str(directory / TABLE)
        for _ in ("cold", "warm"):
            with time_job(times):
                code = ingest.run(spark, IngestPlan(inputs=(str(log),), out=events, overwrite=True))
            if code:
                raise SystemExit(f"the ingest of {log} ended with {code}")
        ingested = decode_ingested(Path(events, "ingest.json").read_text())
        found = []
        fewer, same = candidate_acls(), list(kind().acls())
        for name, acls in (("cold", fewer), ("same", same), ("warm", fewer)):
            out = directory / name
            plan = WhatIfPlan(
                events=events, out=str(out), candidate=_acl_set(name, acls), overwrite=True
            )
            with time_job(times):
                whatif.run(spark, plan)
            found.append(decode_whatif((out / "whatif.json").read_text()))
    finally:
        spark.stop()
    denied, unchanged, _ = found
    session, ingested_in, warm_ingest, cold, _, warm = times
    return ReplayReport(
        session=session,
        ingest=ingested_in,
        warm_ingest=warm_ingest,
        cold=cold,
        warm=warm,
        lines=ingested.events,
        tuples=ingested.tuples,
        changed_by_same_acls=unchanged.newly_denied.events + unchanged.newly_allowed.events,
        newly_denied=denied.newly_denied.events,
    )


if __name__ == "__main__":
    report = measure_jobs(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
