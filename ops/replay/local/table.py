"""Read the output of an ingest with pyarrow, in this process, and write changes like Spark.

**Invariant:** the tuples are those that Spark reads in the same table: only live runs count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero, dataset, parquet

from authorizerd.replay.ingest.commit import TableError
from authorizerd.replay.ingest.commit_files import read_newest
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.recorded.arrow import make_batch, read_rows
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.recorded.tuples import Figures, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time
from authorizerd.replay.whatif.changes import Change
from authorizerd.replay.whatif.evaluation import by_frequency

TUPLES_MAX: Final = 2_000_000
WINDOW_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The Parquet files of a window that one process sums up: about a hundred million events."""

_BATCH_ROWS: Final = 10_000
_KEY: Final = RecordedTuple._fields[:6]
_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class _Part(NamedTuple):
    """The events of a tuple with one answer."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed: bool
    events: int
    first_ms: int
    last_ms: int


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
        except (OSError, pa.ArrowException) as error:
            raise TrafficError(f"--events: {self._folder}: {error}") from error

    def _all(self) -> LocalRows[RecordedTuple]:
        glob = self._commit.tuples_glob
        files = [] if glob is None else sorted(self._folder.glob(glob))
        columns = [_column_of(name) for name in RecordedTuple._fields]
        tables = [parquet.read_table(file, columns=columns, partitioning=None) for file in files]
        return LocalRows(_ArrowTuples(_with_ms(pa.concat_tables(tables)) if tables else None))

    def _since(self, since_ms: int) -> LocalRows[RecordedTuple]:
        first = f"day={format_time(since_ms)[:10]}"
        found = (path for glob in self._commit.events_globs for path in self._folder.glob(glob))
        files = sorted(path for path in found if path.parent.name >= first)
        size = sum(path.stat().st_size for path in files)
        if size > WINDOW_BYTES_MAX:
            raise NeedsSparkError(
                f"the events of the window have {size:,} bytes, more than {WINDOW_BYTES_MAX:,}"
            )
        if not files:
            return LocalRows([])
        parts = (
            part
            for batch in _with_ms(_sum_events(files, since_ms)).to_batches(_BATCH_ROWS)
            for part in read_rows(batch, _Part)
        )
        return LocalRows(
            merge_tuples(
                (part[:6], part.allowed, Figures(part.events, part.first_ms, part.last_ms, None))
                for part in parts
            )
        )


class _ArrowTuples:
    """Tuples that become rows only while they are iterated over, since Arrow's take less memory."""

    def __init__(self, table: pa.Table | None) -> None:
        self._table = table

    def __iter__(self) -> Iterator[RecordedTuple]:
        for batch in () if self._table is None else self._table.to_batches(_BATCH_ROWS):
            yield from read_rows(batch, RecordedTuple)


def write_changes(changes: list[Change], folder: Path) -> None:
    """Write the changes as one Parquet file, in the order and with the columns of Spark's.

    Raises:
        TrafficError: the file cannot be written.
    """
    ordered = sorted(changes, key=lambda one: (one.change, by_frequency(one)))
    table = pa.Table.from_batches([make_batch(ordered, Change)])
    times = {name: pa.timestamp("ms", "UTC") for name in ("first_ms", "last_ms")}
    for place, name in enumerate(table.column_names):
        if name in times:
            column = table[name].cast(times[name]).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(place, _column_of(name), column)
    try:
        folder.mkdir(parents=True)
        aside = folder / "_part-0.being-written"
        parquet.write_table(table, aside)
        aside.replace(folder / "part-0.parquet")
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def _sum_events(files: list[Path], since_ms: int) -> pa.Table:
    """Return the sums of events by tuple and answer, batch by batch."""
    events = dataset.dataset([str(path) for path in files], format="parquet")
    at = events.schema.field("at").type
    begins = pa.scalar(since_ms * _PER_MS[at.unit]).cast(at)
    within = pc.field("at") >= begins
    keys = [*_KEY, "allowed"]
    steps = (
        ("scan", acero.ScanNodeOptions(events, columns=[*keys, "at"], filter=within)),
        # The scan only skips parts of files.
        ("filter", acero.FilterNodeOptions(within)),
        (
            "aggregate",
            acero.AggregateNodeOptions(
                [
                    ([], "hash_count_all", None, "events"),
                    ("at", "hash_min", None, "first_at"),
                    ("at", "hash_max", None, "last_at"),
                ],
                keys=keys,
            ),
        ),
    )
    declared = [acero.Declaration(name, options) for name, options in steps]
    return acero.Declaration.from_sequence(declared).to_table()


def _with_ms(table: pa.Table) -> pa.Table:
    """Return the table with milliseconds since 1970 in place of timestamps."""
    for place, name in enumerate(table.column_names):
        if name.endswith("_at"):
            floored = pc.floor_temporal(table[name], unit="millisecond")
            ms = floored.cast(pa.timestamp("ms", floored.type.tz)).cast(pa.int64())
            table = table.set_column(place, name.replace("_at", "_ms"), ms)
    return table


def _column_of(name: str) -> str:
    return name.replace("_ms", "_at")
