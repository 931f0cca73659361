"""What grows with the number of lines: ingest and what-if of logs from 1 to 100 million lines.

    python -m tools.bench.replay_growth [--lines MILLIONS] [--directory DIRECTORY]
    python -m tools.bench.replay_growth measure DIRECTORY LOG…

The first command generates the logs once, ingests them in a new process for each size, and writes
``replay-growth.svg``. The logs are packed: 100 million lines are 37 GB unpacked, and need about
5 GB of disk. Each size reads the first logs. ``measure`` is one ingest, in its own process.

**Invariant:** a figure counts only if every line became an event.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.replay.ingest import job as ingest
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.plans import IngestPlan
from tools.bench.audit_logs import write_audit_logs
from tools.bench.checkpoint import write_checkpoint
from tools.bench.figures import Line, format_table
from tools.bench.plot import Panel, Series, draw_panels
from tools.bench.processes import (
    Command,
    ProcessError,
    capture_json,
    children_of,
    read_memory,
    sampling,
)
from tools.bench.replay_jobs import CORES, JobTime, candidate_acls, session_on, time_job
from tools.bench.replay_whatif import ProcessTime, run_whatif
from tools.bench.sets import number_acls

LINES: Final = (1_000_000, 5_000_000, 20_000_000, 100_000_000)
LINES_EACH: Final = 500_000
PLOT_NAME: Final = "replay-growth.svg"

_TIMEOUT_SECONDS: Final = 1800.0
_MEBIBYTE: Final = 1024 * 1024
_MILLION: Final = 1_000_000


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """One ingest. ``peak_bytes`` is the memory of all its processes at one time.

    ``spilled_bytes`` are what tasks wrote to disk because memory did not suffice.
    """

    lines: int
    session: JobTime
    ingest: JobTime
    peak_bytes: int
    shuffle_bytes: int
    spilled_bytes: int
    table_bytes: int


class Point(msgspec.Struct, frozen=True):
    """The figures of one size."""

    log_bytes: int
    ours: IngestReport
    whatif: ProcessTime


def measure_replay_growth(
    directory: Path, sizes: Sequence[int] = LINES, lines_each: int = LINES_EACH
) -> Iterator[Point]:
    """Yield a point for each size, in ascending order; files are written below ``directory``.

    Raises:
        ProcessError: an ingest failed or lost lines, or a what-if failed.
    """
    place = directory / "replay-growth"
    shutil.rmtree(place, ignore_errors=True)
    logs = write_audit_logs(place / "logs", max(sizes), lines_each, CORES)
    acls = place / "acls"
    write_checkpoint(acls, number_acls(candidate_acls()))
    try:
        for size in sizes:
            read = logs[: -(-size // lines_each)]
            command: Command = [
                sys.executable, "-m", "tools.bench.replay_growth", "measure", place, *read,
            ]  # fmt: skip
            ours = capture_json(command, IngestReport, timeout_seconds=_TIMEOUT_SECONDS)
            if ours.lines != size:
                raise ProcessError(f"of {size} lines {ours.lines} became events")
            whatif, found = run_whatif(place / "table", acls, place)
            if not found.newly_denied.events:
                raise ProcessError("fewer ACLs deny nothing")
            yield Point(sum(log.stat().st_size for log in read), ours, whatif)
    finally:
        shutil.rmtree(place)


def measure_ingest(directory: Path, logs: Sequence[str]) -> IngestReport:
    """Ingest ``logs`` in a new session, with files below ``directory``."""
    table, history = directory / "table", directory / "history"
    for earlier in (table, history):
        shutil.rmtree(earlier, ignore_errors=True)
    history.mkdir()
    settings = {
        # The history has the figures of each task, also without Spark's own pages.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": history.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    times: list[JobTime] = []
    with sampling(partial(tree_bytes, os.getpid())) as peaks:
        with time_job(times):
            spark = session_on(directory, f"local[{CORES}]", settings)
        try:
            plan = IngestPlan(inputs=tuple(logs), out=str(table), overwrite=True)
            with time_job(times):
                code = ingest.run(spark, plan)
        finally:
            spark.stop()
    if code:
        raise SystemExit(f"the ingest ended with {code}")
    (file,) = history.iterdir()
    shuffle_bytes, spilled_bytes = sum_task_metrics(file)
    session, ingested = times
    return IngestReport(
        lines=decode_ingested((table / "ingest.json").read_text()).events,
        session=session,
        ingest=ingested,
        peak_bytes=max(peaks),
        shuffle_bytes=shuffle_bytes,
        spilled_bytes=spilled_bytes,
        table_bytes=sum(file.stat().st_size for file in table.rglob("*.parquet")),
    )


def tree_bytes(process_id: int) -> int:
    """Return the memory of a process and its descendants."""
    try:
        own, children = read_memory(process_id).pss_bytes, children_of(process_id)
    except (OSError, KeyError, IndexError):
        return 0  # the process has ended meanwhile
    return own + sum(map(tree_bytes, children))


def sum_task_metrics(history: Path) -> tuple[int, int]:
    """Return the bytes that tasks wrote for shuffles, and those that they spilled to disk.

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


def make_lines(point: Point) -> list[Line]:
    """Return the lines of one size."""
    ours, whatif = point.ours, point.whatif
    where = f"replay, {ours.lines:,} packed lines, {CORES} cores"
    return [
        Line(
            what=f"{where}: ingest, cold",
            unit="lines/s",
            ours=ours.lines / ours.ingest.seconds,
            more_is_better=True,
        ),
        *(
            Line(what=f"{where}: {what}", unit=unit, ours=value)
            for what, unit, value in (
                ("ingest, CPU for a line", "µs", ours.ingest.cpu / ours.lines * 1e6),
                ("ingest, peak memory", "MiB", ours.peak_bytes / _MEBIBYTE),
                ("ingest, shuffled", "MiB", ours.shuffle_bytes / _MEBIBYTE),
                ("ingest, spilled to disk", "MiB", ours.spilled_bytes / _MEBIBYTE),
                ("packed logs", "MiB", point.log_bytes / _MEBIBYTE),
                ("table", "MiB", ours.table_bytes / _MEBIBYTE),
                ("what-if, the whole command", "s", whatif.seconds),
                ("what-if, memory", "MiB", whatif.resident_bytes / _MEBIBYTE),
            )
        ),
    ]


def make_panels(points: Sequence[Point]) -> list[Panel]:
    """Return the panels of the plot, over the number of lines."""

    def series(name: str, values: Sequence[float]) -> Series:
        placed = zip((point.ours.lines for point in points), values, strict=True)
        # An axis is logarithmic, so it has no place for 0.
        return Series(name, [(lines, value) for lines, value in placed if value])

    return [
        Panel(title, "lines", tuple(series(name, values) for name, values in of_panel.items()))
        for title, of_panel in (
            ("wall time, s", {
                "ingest": [point.ours.ingest.seconds for point in points],
                "what-if": [point.whatif.seconds for point in points],
            }),
            ("CPU of the ingest for a line, µs", {
                "ingest": [point.ours.ingest.cpu / point.ours.lines * 1e6 for point in points],
            }),
            ("peak memory, MiB", {
                "ingest": [point.ours.peak_bytes / _MEBIBYTE for point in points],
                "what-if": [point.whatif.resident_bytes / _MEBIBYTE for point in points],
            }),
            ("written to disk, MiB", {
                "table": [point.ours.table_bytes / _MEBIBYTE for point in points],
                "shuffle": [point.ours.shuffle_bytes / _MEBIBYTE for point in points],
            }),
        )
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.replay_growth")
    parser.add_argument(
        "--lines",
        type=lambda text: [int(float(each) * _MILLION) for each in text.split(",")],
        default=LINES,
        metavar="MILLIONS",
        help="sizes in ascending order, in millions of lines, separated by commas",
    )
    parser.add_argument("--directory", type=Path, default=Path(".run"), help="for files")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    points = []
    for point in measure_replay_growth(directory, arguments.lines):
        points.append(point)
        print(format_table(make_lines(point)), flush=True)
        (directory / PLOT_NAME).write_text(draw_panels(make_panels(points)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        report = measure_ingest(Path(sys.argv[2]), sys.argv[3:])
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        main()
