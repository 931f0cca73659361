"""Write the rows of a run as Parquet in the task that has parsed them, without Spark.

Rows that return to Spark are written one by one, which takes ten times as much CPU time.

**Invariant:** the files contain the rows that Spark would write. A task that runs again replaces
its files. Memory is bounded: a task keeps ``FILES_MAX`` files open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

from authorizerd.replay.ingest.parse.columns import SCHEMA

FILES_MAX: Final = 8
ROWS_MAX: Final = 1_000_000
"""Maximum number of rows in a file, so that other programs can read files in parallel."""
BLANK: Final = "blank"
"""What ``set_aside`` has in place of a reason for a blank line."""

_ROW_GROUP_ROWS: Final = 500_000
_SEQUENCE_BITS: Final = 33  # as in Spark's monotonically_increasing_id
_ADDED: Final = [pyarrow.field("file", pyarrow.string()), ("sequence", pyarrow.int64())]
_UNREAD: Final = [("line", pyarrow.string()), ("reason", pyarrow.string())]
# As Spark's files, which have the lines set aside first, so that a table has one schema.
_EVENTS: Final = pyarrow.schema([*list(SCHEMA)[SCHEMA.get_field_index("at") :], *_ADDED, *_UNREAD])
_SET_ASIDE: Final = pyarrow.schema([*_UNREAD, *_ADDED])


class PartFiles:
    """The files of one task: events in ``day=YYYY-MM-DD`` below ``events``, others in ``aside``."""

    def __init__(self, events: Path, aside: Path, task: int) -> None:
        self._events = events
        self._aside = aside
        self._task = task
        self._open: dict[Path, _PartFile] = {}
        self._files = 0
        self._lines = 0

    def write(self, rows: pyarrow.RecordBatch) -> None:
        """Write rows of ``SCHEMA`` and ``file``."""
        begin = (self._task << _SEQUENCE_BITS) + self._lines
        sequence = pyarrow.array(range(begin, begin + len(rows)), pyarrow.int64())
        rows = rows.append_column("sequence", sequence)
        self._lines += len(rows)
        reason = rows["reason"]
        events, aside = rows, None
        if reason.null_count < len(rows):
            events, aside = rows.filter(reason.is_null()), rows.filter(reason.is_valid())
        for day in compute.unique(events["day"]).to_pylist():
            of_day = events.filter(compute.equal(events["day"], day))
            self._append(self._events / f"day={day}", of_day.select(_EVENTS.names).cast(_EVENTS))
        if aside is not None:
            self._append(self._aside, _name_reasons(aside.select(_SET_ASIDE.names)))

    def close(self) -> None:
        """Complete the files."""
        while self._open:
            self._open.popitem()[1].close()

    def _append(self, folder: Path, rows: pyarrow.RecordBatch) -> None:
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= FILES_MAX:
                self._open.pop(next(iter(self._open))).close()
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self._task:05d}-{self._files:05d}.parquet"
            file = _PartFile(folder / name, rows.schema)
            self._files += 1
        file.write(rows)
        if file.rows < ROWS_MAX:
            self._open[folder] = file  # now the last one, so the first is the least recent
        else:
            file.close()


class _PartFile:
    """One open file."""

    def __init__(self, path: Path, schema: pyarrow.Schema) -> None:
        texts = [field.name for field in schema if field.type == pyarrow.string()]
        self.rows = 0
        self._writer = parquet.ParquetWriter(
            path,
            schema,
            compression="snappy",
            use_dictionary=texts,
            # Rules are long and numerous: with the default, their dictionary would be abandoned.
            dictionary_pagesize_limit=16 * 1024 * 1024,
            write_statistics=["at"] if "at" in schema.names else False,
            store_schema=False,
        )

    def write(self, rows: pyarrow.RecordBatch) -> None:
        self._writer.write_batch(rows, _ROW_GROUP_ROWS)
        self.rows += len(rows)

    def close(self) -> None:
        self._writer.close()


def _name_reasons(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return rows with text for lines that are not valid UTF-8, and a reason for blank lines."""
    lines = [line.decode(errors="replace") for line in rows["line"].to_pylist()]
    reasons = compute.if_else(compute.equal(rows["reason"], ""), BLANK, rows["reason"])
    columns = [pyarrow.array(lines, pyarrow.string()), reasons, *rows.columns[2:]]
    return pyarrow.record_batch(columns, schema=_SET_ASIDE)
