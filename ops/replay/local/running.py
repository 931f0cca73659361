"""Run ``replay whatif`` and ``replay usage`` in this process.

**Invariant:** the files that both engines write are equal, byte for byte. A summary exists only
next to the results that it describes: it is removed first, and written last.
"""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.report import Ingested, summary_line, why_not_accepted
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.inputs import find_logs
from authorizerd.replay.local.traffic import Traffic, read_traffic
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, MESSAGE
from authorizerd.replay.plans import IngestPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.recorded.tuples import RecordedTuple, Source
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.evaluation import evaluate
from authorizerd.replay.usage.summary import summary
from authorizerd.replay.whatif.changes import Change
from authorizerd.replay.whatif.evaluation import change_finder, make_report
from authorizerd.replay.whatif.report import summary_lines


class LocalSource(Source, Protocol):
    """Recorded traffic whose tuples are in this process."""

    def tuples(self, since_ms: int | None = None, /) -> LocalRows[RecordedTuple]: ...

    def write_changes(self, changes: list[Change], folder: Path, /) -> None:
        """Write all changes, if pyarrow is there to do so."""
        ...


def run_whatif(plan: WhatIfPlan, open_source: Callable[[], LocalSource]) -> int:
    """Write ``whatif.json``; return 3 if anything is newly denied, else 0. Blocks.

    Raises:
        NeedsSparkError: the traffic is too much for one process.
        TrafficError: it cannot be read or is not accepted, or a result cannot be written.
    """
    out = Path(plan.out)
    # Changes of an earlier run would contradict this result.
    remove_earlier(out / "whatif.json", out / "changes")
    source = open_source()
    changes = list(change_finder(plan)(source.tuples()))
    source.write_changes(changes, out / "changes")
    report = make_report(plan, source, LocalRows(changes))
    write_result(out / "whatif.json", encode_json(report))
    print_lines(summary_lines(report))
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE


def run_usage(plan: UsagePlan, open_source: Callable[[], Source]) -> int:
    """Write ``commands.sh`` and ``usage.json``, and return the exit code. Blocks.

    Raises:
        NeedsSparkError: the traffic is too much for one process.
        TrafficError: it cannot be read, is not accepted or supports no claim, or a result cannot
            be written.
    """
    out = Path(plan.out)
    remove_earlier(out / "usage.json", out / "commands.sh")
    try:
        report, commands = evaluate(plan, open_source())
    except UsageError as error:
        raise TrafficError(str(error)) from error
    write_result(out / "commands.sh", commands)
    write_result(out / "usage.json", encode_json(report))
    print_lines(summary(report))
    return EXIT_DONE


class LogSource:
    """Audit logs, which are read when the source is made. Prints the line of an ingest.

    Raises:
        NeedsSparkError: they are too much for one process.
        TrafficError: a log cannot be read, or too many lines were set aside.
    """

    def __init__(self, logs: IngestPlan) -> None:
        self._logs = logs
        self._traffic = self._read()
        print_lines([*self._traffic.left_out, summary_line(self.ingested)])
        for path in self._traffic.damaged:
            damage = "the archive is damaged, so events are missing: fetch or pack it again"
            print(f"{MESSAGE}{path}: {damage}", file=sys.stderr, flush=True)
        if not self.ingested.accepted:
            raise TrafficError(why_not_accepted(self.ingested, logs.bad_ratio_max))

    @property
    def ingested(self) -> Ingested:
        return self._traffic.ingested

    def tuples(self, since_ms: int | None = None, /) -> LocalRows[RecordedTuple]:
        """Return the tuples of all events, or of those since a time.

        The logs are then read a second time: only the first time shows where a window begins, and
        keeping the time of each event would take far more memory.

        Raises:
            TrafficError: the logs cannot be read twice, or have changed meanwhile.
        """
        if since_ms is None:
            return LocalRows(self._traffic.tuples)
        for file in self._traffic.files:
            if not stat.S_ISREG(Path(file.path).stat().st_mode):
                raise TrafficError(
                    f"{file.path}: --lookback reads the logs twice, which a pipe does not allow: "
                    "write its lines to a file"
                )
        within = self._read(since_ms)
        if within.files != self._traffic.files:
            raise TrafficError(
                "the logs were written while they were read, and --lookback reads them twice: copy "
                "them first"
            )
        return LocalRows(within.tuples)

    def write_changes(self, changes: list[Change], folder: Path, /) -> None:
        """Write nothing: the base install, without pyarrow, reads logs too."""

    def _read(self, since_ms: int = -sys.maxsize) -> Traffic:
        logs = self._logs
        return read_traffic(
            [str(path) for path in find_logs(logs.inputs)],
            line_format=msgspec.convert(logs.format, LineFormat),
            time_zone=logs.time_zone,
            bad_ratio_max=logs.bad_ratio_max,
            since_ms=since_ms,
        )


def print_lines(lines: Iterable[str]) -> None:
    """Print each line at once."""
    for line in lines:
        print(line, flush=True)


def remove_earlier(*earlier: Path) -> None:
    """Remove files and directories of an earlier run, if they exist.

    Raises:
        TrafficError: one cannot be removed.
    """
    try:
        for path in earlier:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def write_result(path: Path, text: str) -> None:
    """Write a file, so that no reader sees a part of it, and create its directories.

    Raises:
        TrafficError: it cannot be written.
    """
    aside = path.with_name(f"_{path.name}.being-written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
