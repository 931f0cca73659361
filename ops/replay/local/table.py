"""Evaluate the output of an ingest with pyarrow, in this process.

**Invariant:** the tuples are those that Spark reads from the same table: only live runs count. A
table that has lost files is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero, dataset, parquet

from authorizerd.replay.ingest.commit import TableError, check_complete, read_newest
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.local.traffic import LocalEngine
from authorizerd.replay.recorded.arrow import make_batch, read_rows, schema_of
from authorizerd.replay.recorded.rows import Find, LocalRows, Row, by_frequency
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time

R = TypeVar("R", bound=Row)

TUPLES_MAX: Final = 2_000_000
WINDOW_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Maximum size of the Parquet files in a window: about a hundred million events."""

_KEY: Final = Part._fields[:7]
"""A tuple and its answer."""
_NO_SUMS: Final = schema_of(Part).remove(schema_of(Part).get_field_index("rule")).empty_table()


class TableEngine(LocalEngine):
    """The newest commit of the table in ``folder``, and the directory of a command's results.

    Raises:
        NeedsSparkError: the table has too many tuples for one process.
        TrafficError: it is not a table, or cannot be read.
    """

    def __init__(self, folder: str, out: str) -> None:
        super().__init__(out)
        self._folder = Path(folder)
        try:
            self._commit = read_newest(self._folder)
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
            if since_ms is None:
                return LocalRows(self._tuples)
            files = self._find_events(format_time(since_ms)[:10])
            return LocalRows(_sum_events(files, since_ms))
        except TableError as error:
            raise TrafficError(f"--events: {error}") from error

    def store(self, find: Find[RecordedTuple, R], kind: type[R], name: str, /) -> LocalRows[R]:
        """Write the rows that ``find`` yields for all tuples as one Parquet file, and return them.

        Raises:
            TrafficError: the file cannot be written.
        """
        rows = sorted(find(self.tuples()), key=lambda row: (row[0], by_frequency(row)))
        folder = self._out / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            aside = folder / "_part-0.being-written"
            parquet.write_table(pa.Table.from_batches([make_batch(rows, kind)]), aside)
            aside.replace(folder / "part-0.parquet")
        except OSError as error:
            raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
        return LocalRows(rows)

    @cached_property
    def _tuples(self) -> list[RecordedTuple]:
        """Return the tuples of all events.

        Raises:
            TableError: some are missing.
        """
        place = self._commit.tuples_glob or "tuples/*.parquet"
        tuples: list[RecordedTuple] = []
        for file in sorted(self._folder.glob(place)):
            with _naming(file), collector_off():
                for batch in parquet.ParquetFile(file).iter_batches():
                    tuples += read_rows(batch, RecordedTuple)
        check_complete(
            str(self._folder / place), "tuples", expected=self.ingested.tuples, found=len(tuples)
        )
        return tuples

    def _find_events(self, first_day: str) -> list[Path]:
        """Return the event files from a day on.

        Raises:
            NeedsSparkError: they are too large for one process.
            TableError: files of a run are missing.
        """
        found = []
        for run in self._commit.runs:
            if run.may_contain(first_day):
                files = sorted(self._folder.glob(run.events_glob))
                # Read only the footers of the files: the commit counts the events of a run, not of
                # a day.
                rows = 0
                for file in files:
                    with _naming(file):
                        rows += parquet.read_metadata(file).num_rows
                place = str(self._folder / run.events_glob)
                check_complete(place, "events", expected=run.ingested.events, found=rows)
                found += [file for file in files if file.parent.name >= f"day={first_day}"]
        size = sum(file.stat().st_size for file in found)
        if size > WINDOW_BYTES_MAX:
            raise NeedsSparkError(
                f"the events of the window have {size:,} bytes, more than {WINDOW_BYTES_MAX:,}"
            )
        return found


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Turn errors into a TrafficError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise TrafficError(f"--events: {file}: {error}") from error


def _sum_events(files: Iterable[Path], since_ms: int) -> list[RecordedTuple]:
    """Return the tuples of the events since a time, without rules."""
    sums = pa.concat_tables([_NO_SUMS, *(_sum_file(file, since_ms) for file in files)])
    # Sum again in Arrow, since a tuple occurs in the sums of many files.
    again = [("events", "sum"), ("first_at", "min"), ("last_at", "max")]
    merged = sums.group_by(list(_KEY)).aggregate(again).select([*_KEY, *map("_".join, again)])
    merged = merged.rename_columns(_NO_SUMS.column_names)
    merged = merged.append_column("rule", pa.nulls(len(merged), pa.string()))
    with collector_off():
        rows = (read_rows(batch, Part) for batch in merged.to_batches())
        return merge_tuples(chain.from_iterable(rows))


def _sum_file(file: Path, since_ms: int) -> pa.Table:
    """Return the sums of the events in a file by ``_KEY``; reads batch by batch."""
    with _naming(file):
        events = dataset.dataset(str(file), format="parquet")
        within = pc.field("at") >= pa.scalar(since_ms, pa.timestamp("ms", "UTC"))
        figures = [
            ("at", f"hash_{function}", None, name)
            for function, name in (("count", "events"), ("min", "first_at"), ("max", "last_at"))
        ]
        steps = (
            ("scan", acero.ScanNodeOptions(events, columns=[*_KEY, "at"], filter=within)),
            ("filter", acero.FilterNodeOptions(within)),  # the scan only skips row groups
            ("aggregate", acero.AggregateNodeOptions(figures, keys=list(_KEY))),
        )
        declarations = [acero.Declaration(name, options) for name, options in steps]
        sums = acero.Declaration.from_sequence(declarations).to_table()
        return sums.select(_NO_SUMS.column_names).cast(_NO_SUMS.schema)
