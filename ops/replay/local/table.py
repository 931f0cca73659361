"""Evaluate the output of an ingest with pyarrow, in this process.

**Invariant:** the tuples are those that Spark reads from the same table: only live runs count. A
table that has lost files is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
from pyarrow import parquet

from authorizerd.replay.errors import NeedsSparkError, TrafficError
from authorizerd.replay.ingest.commit import (
    Commit,
    Run,
    TableError,
    check_complete,
    read_newest,
)
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.ingest.schemas import TUPLES
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.engine import LocalEngine
from authorizerd.replay.local.sums import merge_parts, sum_file
from authorizerd.replay.recorded.arrow import BatchRows, make_batch, read_rows
from authorizerd.replay.recorded.parquet_files import open_parquet
from authorizerd.replay.recorded.rows import Find, LocalRows, Row, Rows, by_frequency
from authorizerd.replay.recorded.tuples import RecordedTuple
from authorizerd.replay.text import format_time

R = TypeVar("R", bound=Row)

TUPLES_MAX: Final = 2_000_000
WINDOW_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Maximum size of the Parquet files in a window: about a hundred million events."""


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
                return BatchRows(self._tuples.to_batches(), RecordedTuple)
            files = self._find_events(format_time(since_ms)[:10])
            parts = []
            for file in files:
                with _naming(file):
                    parts.append(sum_file(file, since_ms))
            return BatchRows(merge_parts(parts).to_batches(), RecordedTuple)
        except TableError as error:
            raise TrafficError(f"--events: {error}") from error

    def store(
        self, tuples: Rows[RecordedTuple], find: Find[RecordedTuple, R], kind: type[R], name: str, /
    ) -> LocalRows[R]:
        """Write the rows that ``find`` yields for the tuples as one Parquet file, and return them.

        Raises:
            TrafficError: the file cannot be written.
        """
        assert isinstance(tuples, LocalRows), "they are of this engine"
        rows = sorted(tuples.find(find), key=lambda row: (row[0], by_frequency(row)))
        folder = self._out / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            aside = folder / "_part-0.being-written"
            parquet.write_table(pa.Table.from_batches([make_batch(rows, kind)]), aside)
            aside.replace(folder / "part-0.parquet")
        except OSError as error:
            raise TrafficError(f"--out: {error.filename or folder}: {error.strerror}") from error
        return LocalRows(rows)

    @cached_property
    def _tuples(self) -> pa.Table:
        """Return the tuples of all events.

        Raises:
            TableError: some are missing.
        """
        return read_tuples(self._folder, self._commit)

    def _find_events(self, first_day: str) -> list[Path]:
        """Return the event files from a day on.

        Raises:
            NeedsSparkError: they are too large for one process.
            TableError: files of a run are missing.
        """
        found = []
        for run in self._commit.runs:
            if run.may_contain(first_day):
                files = find_events(self._folder, run)
                found += [file for file in files if file.parent.name >= f"day={first_day}"]
        size = sum(file.stat().st_size for file in found)
        if size > WINDOW_BYTES_MAX:
            raise NeedsSparkError(
                f"the events of the window have {size:,} bytes, more than {WINDOW_BYTES_MAX:,}"
            )
        return found


def list_tuples(tuples: pa.Table) -> list[RecordedTuple]:
    """Return the rows of a table of tuples."""
    with collector_off():
        return [row for batch in tuples.to_batches() for row in read_rows(batch, RecordedTuple)]


def list_events(folder: Path, run: Run) -> list[Path]:
    """Return the event files of a live run that have not expired."""
    files = sorted(folder.glob(run.events_glob))
    return [file for file in files if file.parent.name >= f"day={run.first_day}"]


def find_events(folder: Path, run: Run) -> list[Path]:
    """Return the event files of a live run of the table in ``folder``.

    Raises:
        TableError: some are missing.
    """
    files = list_events(folder, run)
    # Read only the footers of the files: the commit counts the events of a run, not of a day.
    rows = 0
    for file in files:
        with _naming(file):
            rows += parquet.read_metadata(file).num_rows
    place = str(folder / run.events_glob)
    check_complete(place, "events", expected=run.ingested.events, found=rows)
    return files


def read_tuples(folder: Path, commit: Commit) -> pa.Table:
    """Return the tuples of the table in ``folder`` as of a commit.

    Raises:
        TableError: some are missing.
    """
    place = commit.tuples_glob or "tuples/*.parquet"
    tables = [TUPLES.empty_table()]
    for file in sorted(folder.glob(place)):
        with _naming(file):
            tables.append(open_parquet(file).read(TUPLES.names).cast(TUPLES))
    tuples = pa.concat_tables(tables)
    expected = commit.ingested.tuples
    check_complete(str(folder / place), "tuples", expected=expected, found=len(tuples))
    return tuples


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Turn errors into a TrafficError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise TrafficError(f"--events: {file}: {error}") from error
