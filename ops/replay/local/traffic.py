"""Recorded traffic: the distinct tuples of audit logs, and the figures of reading them.

**Invariant:** tuples and figures are those that ``replay ingest`` writes for the same files, and
the results of a command are those of Spark, byte for byte.
"""

from __future__ import annotations

import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.management.plan.traffic import TrafficFile
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.logs import merge_logs
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.ingest.report import (
    DAMAGED,
    Ingested,
    Log,
    count_lines,
    summary_line,
    why_not_accepted,
)
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.engine import LocalEngine
from authorizerd.replay.local.files import LogReader, find_copies, find_logs
from authorizerd.replay.local.tallies import Counted, Summand, Tallies, Tally
from authorizerd.replay.messages import MESSAGE
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.recorded.rows import Find, LocalRows, Row, Rows
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples

R = TypeVar("R", bound=Row)


class Traffic(msgspec.Struct, frozen=True):
    """The traffic that was read: the figures of an ingest, the tuples, and the files.

    ``left_out`` describes the files that were not read, since others have their lines.
    """

    ingested: Ingested
    tuples: Sequence[RecordedTuple]
    files: tuple[TrafficFile, ...]
    left_out: tuple[str, ...]


def read_traffic(logs: IngestPlan, since_ms: int = -sys.maxsize) -> Traffic:
    """Return the traffic in the logs that a plan names. Blocks.

    Args:
        since_ms: do not count earlier events, in milliseconds since 1970.

    Raises:
        NeedsSparkError: there is too much traffic for one process.
        TrafficError: a file cannot be read, or ``time_zone`` is not a time zone.
    """
    if find_spec("pyarrow") is not None:
        return _read_in_processes(logs, since_ms)
    with collector_off():
        tallies, read = count_logs(logs, since_ms)
        tuples = merge_tuples(
            Part(*counted[:8], tally.lines, tally.first_ms, tally.last_ms)
            for counted, tally in tallies
            if isinstance(counted, Summand) and tally.lines
        )
    ingested = sum_lines(tallies, logs, len(tuples), read.damaged)
    ingested = msgspec.structs.replace(ingested, logs=name_logs(read.files, tallies.newest))
    return Traffic(ingested, tuples, read.files, read.left_out)


def _read_in_processes(logs: IngestPlan, since_ms: int) -> Traffic:
    from authorizerd.replay.local.counting import read_logs

    found, left_out = leave_out_copies(logs.inputs)
    try:
        read = read_logs(found, logs, None if since_ms == -sys.maxsize else since_ms)
    except ValueError as error:
        raise TrafficError(str(error)) from error
    ingested = sum_lines(read.tallies, logs, len(read.tuples), read.damaged)
    ingested = msgspec.structs.replace(ingested, logs=name_logs(read.files, read.newest))
    return Traffic(ingested, read.tuples, read.files, left_out)


def name_logs(files: Iterable[TrafficFile], newest: Mapping[str, int]) -> dict[str, Log]:
    """Return the logs to which files belong, from the times of their newest events, by path."""
    return merge_logs(
        {}, (), {str(Path(file.path).absolute()): newest.get(file.path) for file in files}
    )


class FilesRead(NamedTuple):
    """The files that were read, those of them that are damaged, and what was left out."""

    files: tuple[TrafficFile, ...]
    damaged: tuple[str, ...]
    left_out: tuple[str, ...]


def count_logs(
    logs: IngestPlan,
    since_ms: int = -sys.maxsize,
    find_breaks: Callable[[Summand], Sequence[int]] | None = None,
) -> tuple[Tallies, FilesRead]:
    """Return the counts of the lines in the logs that a plan names; see ``Tallies``. Blocks.

    Raises as ``read_traffic``.
    """
    try:
        tallies = Tallies.of(logs.layout, find_breaks, since_ms)
    except ValueError as error:
        raise TrafficError(str(error)) from error
    files: list[TrafficFile] = []
    damaged: list[str] = []
    found, left_out = leave_out_copies(logs.inputs)
    for path in found:
        reader = LogReader(path)
        tallies.begin_file(str(path))
        try:
            for lines in reader.lines():
                tallies.add(lines)
        except DamagedArchiveError:
            tallies.set_aside(Reason.BROKEN_ARCHIVE)
            damaged.append(str(path))
        files.append(reader.file)
    return tallies, FilesRead(tuple(files), tuple(damaged), left_out)


def leave_out_copies(inputs: Iterable[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the logs that inputs name, and which others need not be read. Blocks.

    Raises as ``find_logs``.
    """
    found = find_logs(inputs)
    copies = find_copies(found)
    left_out = (f"left out {path}: {other} has its lines" for path, other in copies.items())
    return [path for path in found if path not in copies], tuple(left_out)


def sum_lines(
    tallies: Iterable[tuple[Counted, Tally]],
    logs: IngestPlan,
    tuples: int,
    damaged: Sequence[str] = (),
) -> Ingested:
    """Return the figures of all lines, as ``ingest.json`` has them."""
    lines, reasons, levels = Counter[str](), Counter[str](), Counter[str]()
    times: list[int] = []
    for counted, tally in tallies:
        if isinstance(counted, Summand) and tally.lines:
            lines["allowed" if counted.allowed else "denied"] += tally.lines
            levels[counted.level] += tally.lines
            times += (tally.first_ms, tally.last_ms)
        elif isinstance(counted, Reason):
            reasons[counted.value] += tally.lines
        elif counted is None:
            lines["blank"] += tally.lines
    return count_lines(
        levels=levels,
        reasons=reasons,
        blank_lines=lines["blank"],
        allowed=lines["allowed"],
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
        time_zone=logs.layout.time_zone,
        inputs=logs.sources,
        tuples=tuples,
        damaged=tuple(sorted(damaged)),
        bad_ratio_max=logs.bad_ratio_max,
    )


class LogEngine(LocalEngine):
    """Audit logs, which are read when the engine is made. Prints the line of an ingest.

    Raises:
        NeedsSparkError: they are too much for one process.
        TrafficError: a log cannot be read, or too many lines were set aside.
    """

    def __init__(self, logs: IngestPlan, out: str) -> None:
        super().__init__(out)
        self._logs = logs
        self._traffic = read_traffic(logs)
        for line in (*self._traffic.left_out, summary_line(self.ingested)):
            print(escape_unprintable(line), flush=True)
        for path in self.ingested.damaged:
            said = escape_unprintable(f"{MESSAGE}{path}: {DAMAGED}")
            print(said, file=sys.stderr, flush=True)
        if not self.ingested.accepted:
            raise TrafficError(why_not_accepted(self.ingested, logs.bad_ratio_max))

    @property
    def ingested(self) -> Ingested:
        return self._traffic.ingested

    @property
    def files(self) -> tuple[TrafficFile, ...]:
        return self._traffic.files

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
                    f"{file.path}: a window (--lookback, --since) reads the logs twice, which a "
                    "pipe does not allow: write its lines to a file"
                )
        within = read_traffic(self._logs, since_ms)
        if within.files != self._traffic.files:
            raise TrafficError(
                "the logs were written while they were read, and a window reads them twice: copy "
                "them first"
            )
        return LocalRows(within.tuples)

    def store(
        self, tuples: Rows[RecordedTuple], find: Find[RecordedTuple, R], kind: type[R], name: str, /
    ) -> LocalRows[R]:
        """Return the rows unwritten: the base install, without pyarrow, reads logs too."""
        assert isinstance(tuples, LocalRows), "they are of this engine"
        return LocalRows(list(find(tuples)))
