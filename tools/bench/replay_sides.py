"""The sides that ingest audit logs and apply fewer ACLs: replay and its peers, as whole commands.

**Invariant:** all sides get the same logs, the same ACLs, and ``CORES`` cores. Their times count
only if their ``Counts`` are equal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.audit.line import AUDITED_RESOURCE_NAMES
from authorizerd.acl.index.bits import ALLOWS, weight
from authorizerd.acl.model import OPERATIONS, Acl, Operation, PatternType
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.submit.prerequisites import find_spark_home
from authorizerd.replay.whatif.report import decode_whatif
from tests.end_to_end.spark_cluster import SparkCluster
from tools.daemon_process import AUTHORIZERD
from tools.processes import Command, cpu_seconds, sampling, sum_increases, time_process

CORES: Final = 2
DUCKDB: Final = f"DuckDB {version('duckdb')}"
TIMEOUT_SECONDS: Final = 1800.0
_SPARK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "2g",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    # The event log has the figures of each task.
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


class Counts(msgspec.Struct, frozen=True):
    """What a side found: lines, distinct requests, and allowed events that would be denied."""

    lines: int
    tuples: int
    newly_denied: int


class JobTime(msgspec.Struct, frozen=True):
    """Wall time of a command, the CPU time of all its processes, and its own peak memory."""

    seconds: float
    cpu: float
    resident_bytes: int


@dataclass(frozen=True)
class Side:
    """A program, its two commands, and the times of its runs so far."""

    name: str
    ingest: Command
    whatif: Command
    count: Callable[[], Counts]
    ingests: list[JobTime] = field(default_factory=list)
    whatifs: list[JobTime] = field(default_factory=list)

    def run(self, log: Path) -> Counts:
        """Run both commands, with their output in ``log``, and return what they found."""
        self.ingests.append(time_job(self.ingest, log))
        self.whatifs.append(time_job(self.whatif, log))
        return self.count()


def time_job(command: Command, log: Path) -> JobTime:
    """Run a command; a what-if may find changes. Programs of this process count as its CPU time."""
    with sampling(partial(cpu_seconds, os.getpid())) as samples:
        times = time_process(command, log, TIMEOUT_SECONDS, (EXIT_DONE, EXIT_DENIED))
    return JobTime(times.seconds, sum_increases(samples), times.resident_bytes)


def write_acls(path: Path, acls: Iterable[Acl]) -> None:
    """Write a line for each operation that each ALLOW allows, as the peers read them."""
    with path.open("w") as file:
        for acl in acls:
            kind, pattern = AUDITED_RESOURCE_NAMES[acl.resource_type], PatternType(acl.pattern_type)
            for operation in OPERATIONS:
                if ALLOWS[operation] & weight(acl):
                    words = (acl.principal, Operation(operation).name, kind, pattern.name)
                    print(*words, acl.resource_name, sep="\t", file=file)


def write_counts(directory: Path, counts: Counts) -> None:
    """Write what a peer found."""
    (directory / "counts.json").write_bytes(msgspec.json.encode(counts))


def make_sides(place: Path, cluster: SparkCluster | None) -> dict[str, tuple[Side, Side]]:
    """Return replay and its peer for each way to read logs; without a cluster, only one way.

    Args:
        place: has the folder ``logs``, and the ACLs in ``acls`` and ``acls.tsv``.
    """
    logs, duckdb = place / "logs", place / "duckdb"
    command: Command = [sys.executable, "-m", "tools.bench.duckdb_peer"]
    sides = {
        "without Spark": (
            _replay(place, "local"),
            Side(
                DUCKDB,
                [*command, "ingest", duckdb, logs],
                [*command, "whatif", duckdb, place / "acls.tsv"],
                partial(_read_counts, duckdb),
            ),
        )
    }
    if cluster is None:
        return sides
    conf = {**_SPARK, "spark.eventLog.dir": (place / "history").as_uri()}
    (place / "history").mkdir()
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    words += ["--master", cluster.master]
    submit: Command = [
        find_spark_home(None, os.environ) / "bin/spark-submit", *words,
        "--conf", f"spark.pyspark.python={cluster.python}",
        "--conf", f"spark.pyspark.driver.python={sys.executable}",
        Path(__file__).with_name("pyspark_peer.py"),
    ]  # fmt: skip
    pyspark = place / "pyspark"
    sides["on a cluster of two workers"] = (
        _replay(place, "cluster", *words, "--python", cluster.python),
        Side(
            "a PySpark job",
            [*submit, "ingest", pyspark, logs],
            [*submit, "whatif", pyspark, place / "acls.tsv"],
            partial(_read_counts, pyspark),
        ),
    )
    return sides


def _replay(place: Path, name: str, *words: str | Path) -> Side:
    folder = place / name
    table, out = folder / "table", folder / "whatif"
    common: Command = [AUTHORIZERD, "replay"]
    engine = [*words, "--engine", "spark"] if words else ["--engine", "local"]
    return Side(
        name,
        [*common, "ingest", "--input", place / "logs", "--out", table, "--overwrite", *words],
        [*common, "whatif", *whatif_words(table, place / "acls", out), *engine],
        partial(_count, table, out),
    )


def whatif_words(table: Path, acls: Path, out: Path) -> Command:
    """Return the options of ``replay whatif``."""
    return ["--events", table, "--acls", acls, "--out", out, "--overwrite"]


def _count(table: Path, out: Path) -> Counts:
    ingested = decode_ingested(read_result(table / "ingest.json"))
    changed = decode_whatif(read_result(out / "whatif.json"))
    return Counts(ingested.events, ingested.tuples, changed.newly_denied.events)


def read_result(path: Path) -> str:
    """Return a text that Spark may have written as a directory with one file."""
    if path.is_dir():
        (path,) = (each for each in path.glob("part-*") if each.stat().st_size)
    return path.read_text()


def _read_counts(directory: Path) -> Counts:
    return msgspec.json.decode((directory / "counts.json").read_bytes(), type=Counts)


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
