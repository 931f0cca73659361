"""Read the output of an ingest with pyarrow, in this process, and write changes like Spark.

**Invariant:** the tuples are those that Spark reads in the same table: only live runs count. A
table that has lost files is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero, dataset, parquet

from authorizerd.replay.ingest.commit import Run, TableError, check_complete
from authorizerd.replay.ingest.commit_files import read_newest
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.recorded.arrow import make_batch, read_rows, schema_of
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.text import format_time
from authorizerd.replay.whatif.changes import Change
from authorizerd.replay.whatif.evaluation import by_frequency

TUPLES_MAX: Final = 2_000_000
WINDOW_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The Parquet files of a window that one process sums up: about a hundred million events."""

_BATCH_ROWS: Final = 10_000
_KEY: Final = RecordedTuple._fields[:6]


class TableSource:
    """The newest commit of the table in ``folder``.

    Raises:
        NeedsSparkError: the table has too many tuples for one process.
        TrafficError: it is not a table, or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._commit = read_newest(folder)
        except TableError as error:
            raise TrafficError(f"--events: {error}") from error
        if self.ingested.tuples > TUPLES_MAX:
            raise NeedsSparkError(
                f"the events have {self.ingested.tuples:,} distinct requests, more than "
                f"{TUPLES_MAX:,}"
            )

    @property
    def ingested(self) -> Ingested:
        return self._commit.ingested

    def tuples(self, since_ms: int | None = None, /) -> LocalRows[RecordedTuple]:
        """Return the tuples of all events, or of those since a time.

        Raises:
            NeedsSparkError: the window has too many events for one process.
            TrafficError: a file cannot be read.
        """
        try:
            return self._all() if since_ms is None else self._since(since_ms)
        except TableError as error:
            raise TrafficError(f"--events: {error}") from error
        except (OSError, pa.ArrowException) as error:
            raise TrafficError(f"--events: {self._folder}: {error}") from error

    def write_changes(self, changes: list[Change], folder: Path, /) -> None:
        """Write the changes as one Parquet file, in the order and with the columns of Spark's.

        Raises:
            TrafficError: the file cannot be written.
        """
        ordered = sorted(changes, key=lambda one: (one.change, by_frequency(one)))
        try:
            folder.mkdir(parents=True)
            aside = folder / "_part-0.being-written"
            parquet.write_table(pa.Table.from_batches([make_batch(ordered, Change)]), aside)
            aside.replace(folder / "part-0.parquet")
        except OSError as error:
            raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error

    def _all(self) -> LocalRows[RecordedTuple]:
        glob = self._commit.tuples_glob
        files = [] if glob is None else sorted(self._folder.glob(glob))
        columns = schema_of(RecordedTuple).names
        tables = [parquet.read_table(file, columns=columns, partitioning=None) for file in files]
        check_complete(
            str(self._folder / (glob or "tuples")),
            "tuples",
            expected=self.ingested.tuples,
            found=sum(table.num_rows for table in tables),
        )
        return LocalRows(_ArrowTuples(tables))

    def _since(self, since_ms: int) -> LocalRows[RecordedTuple]:
        first = format_time(since_ms)[:10]
        files = sorted(path for run in self._commit.runs for path in self._files_of(run, first))
        size = sum(path.stat().st_size for path in files)
        if size > WINDOW_BYTES_MAX:
            raise NeedsSparkError(
                f"the events of the window have {size:,} bytes, more than {WINDOW_BYTES_MAX:,}"
            )
        return LocalRows(_ArrowTuples([_sum_events(files, since_ms)] if files else []))

    def _files_of(self, run: Run, first_day: str) -> list[Path]:
        """Return the event files of a run, from a day on.

        Raises:
            TableError: files of the run are missing.
        """
        if not run.may_contain(first_day):
            return []
        files = list(self._folder.glob(run.events_glob))
        # Only the ends of the files: the commit counts the events of a run, not those of its days.
        found = sum(parquet.read_metadata(path).num_rows for path in files)
        place = str(self._folder / run.events_glob)
        check_complete(place, "events", expected=run.ingested.events, found=found)
        return [path for path in files if path.parent.name >= f"day={first_day}"]


class _ArrowTuples:
    """Tuples that become rows only while they are iterated over, since Arrow's take less memory."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self._tables = tables

    def __iter__(self) -> Iterator[RecordedTuple]:
        for table in self._tables:
            for batch in table.to_batches(_BATCH_ROWS):
                yield from read_rows(batch, RecordedTuple)


def _sum_events(files: list[Path], since_ms: int) -> pa.Table:
    """Return the tuples of the events since a time, without rules; reads batch by batch."""
    events = dataset.dataset([str(path) for path in files], format="parquet")
    at, is_allowed = pc.field("at"), pc.field("allowed")
    never = pa.scalar(None, events.schema.field("at").type)
    times = {
        "allowed": pc.if_else(is_allowed, at, never),
        "denied": pc.if_else(is_allowed, never, at),
    }
    within = at >= pa.scalar(since_ms, pa.timestamp("ms", "UTC"))
    figures = [
        (f"{answer}_at", f"hash_{function}", None, f"{answer}_{name}")
        for answer in times
        for function, name in (("count", "events"), ("min", "first_at"), ("max", "last_at"))
    ]
    steps = (
        ("scan", acero.ScanNodeOptions(events, columns=[*_KEY, "allowed", "at"], filter=within)),
        # The scan only skips parts of files.
        ("filter", acero.FilterNodeOptions(within)),
        (
            "project",
            acero.ProjectNodeOptions(
                [*map(pc.field, _KEY), *times.values()],
                [*_KEY, *(f"{answer}_at" for answer in times)],
            ),
        ),
        ("aggregate", acero.AggregateNodeOptions(figures, keys=list(_KEY))),
    )
    sums = acero.Declaration.from_sequence(
        [acero.Declaration(name, options) for name, options in steps]
    ).to_table()
    for answer in times:
        sums = sums.append_column(f"{answer}_rule", pa.nulls(len(sums), pa.string()))
    return sums
