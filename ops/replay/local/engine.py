"""Evaluate recorded traffic in this process.

**Invariant:** the files that both engines write are equal, byte for byte.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.report import Ingested, summary_line, why_not_accepted
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.traffic import Traffic, read_traffic
from authorizerd.replay.messages import MESSAGE
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.recorded.rows import Find, LocalRows, Row
from authorizerd.replay.recorded.tuples import RecordedTuple

R = TypeVar("R", bound=Row)


class LocalEngine:
    """The directory of a command's results."""

    def __init__(self, out: str) -> None:
        self._out = Path(out)

    def write_text(self, name: str, text: str, /) -> None:
        """Write a file, so that no reader sees a part of it, and create its directories.

        Raises:
            TrafficError: it cannot be written.
        """
        aside = self._out / f"_{name}.being-written"
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            aside.write_text(text, encoding="utf-8")
            aside.replace(self._out / name)
        except OSError as error:
            raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


class LogEngine(LocalEngine):
    """Audit logs, which are read when the engine is made. Prints the line of an ingest.

    Raises:
        NeedsSparkError: they are too much for one process.
        TrafficError: a log cannot be read, or too many lines were set aside.
    """

    def __init__(self, logs: IngestPlan, out: str) -> None:
        super().__init__(out)
        self._logs = logs
        self._traffic = self._read()
        for line in (*self._traffic.left_out, summary_line(self.ingested)):
            print(line, flush=True)
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

    def store(self, find: Find[RecordedTuple, R], kind: type[R], name: str, /) -> LocalRows[R]:
        """Return the rows unwritten: the base install, without pyarrow, reads logs too."""
        return LocalRows(list(find(self.tuples())))

    def _read(self, since_ms: int = -sys.maxsize) -> Traffic:
        return read_traffic(
            self._logs.inputs,
            line_format=msgspec.convert(self._logs.format, LineFormat),
            time_zone=self._logs.time_zone,
            bad_ratio_max=self._logs.bad_ratio_max,
            since_ms=since_ms,
        )
