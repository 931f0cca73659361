"""Write the rows of a run without Spark: events by day, and the other lines separately.

**Invariant:** rows have the columns, the order and the hashes that Spark would write. Memory is
bounded: a task keeps ``FILES_MAX`` files open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from authorizerd.replay.ingest.grouping import group_rows
from authorizerd.replay.ingest.parse.columns import get_reader
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.schemas import ASIDE, EVENTS
from authorizerd.replay.ingest.summary import BLANK, Group, merge_groups
from authorizerd.replay.local.parts import Part
from authorizerd.replay.local.sums import TextSums, select_parts
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.recorded.parquet_files import create_parquet

FILES_MAX: Final = 8
ROWS_MAX: Final = 1_000_000
"""About the maximum number of rows in a file, so that other programs can read files in parallel."""

_ROW_GROUP_ROWS: Final = 500_000
_SEQUENCE_BITS: Final = 33  # as in Spark's monotonically_increasing_id
# As in the files of Spark, which first writes the lines set aside there as well, so that a table
# has one schema.
WRITTEN: Final = pa.schema([*EVENTS, *map(ASIDE.field, ("line", "reason"))])
"""The columns of a file of events."""


class Places(NamedTuple):
    """The directories of a run."""

    events: Path
    aside: Path


class Work(NamedTuple):
    """The parts that one task reads, and how it writes them; ``salt`` is the key of the hashes."""

    number: int
    parts: Sequence[Part]
    places: Places
    layout: LineLayout
    salt: int


class Done(NamedTuple):
    """What a task wrote: its rows in groups, the parts of their tuples, and its files of events."""

    groups: list[Group]
    tuples: list[pa.Table]
    files: int


def write_parts(work: Work) -> Done:
    """Write the rows of a task."""
    reader = get_reader(work.layout, work.salt)
    sums = TextSums(reader)
    sequence = work.number << _SEQUENCE_BITS
    with closing(RunFiles(work.places, work.number, work.salt)) as files:
        for part in work.parts:
            for rows in reader.read_blocks(part.read_blocks()):
                sums.add(rows["at"], reader.numbers)
                files.write(_name_rows(rows, part.uri, sequence))
                sequence += len(rows)
    return Done(merge_groups(files.groups), list(map(select_parts, sums.take())), files.count)


def _name_rows(rows: pa.RecordBatch, uri: str, sequence: int) -> pa.RecordBatch:
    """Return rows with ``file`` and ``sequence``, with a reason for blank lines, and as text."""
    numbers = pa.array(range(sequence, sequence + len(rows)), pa.int64())
    rows = rows.append_column("file", pa.repeat(uri, len(rows)))
    rows = rows.append_column("sequence", numbers)
    reason = rows["reason"]
    lines = pa.nulls(len(rows), pa.string())
    if reason.null_count < len(rows):
        reason = pc.if_else(pc.equal(reason, ""), BLANK, reason)
        is_aside = reason.is_valid()
        # Some lines are set aside because they are not valid UTF-8.
        texts = [
            line.decode(errors="replace") for line in rows["line"].filter(is_aside).to_pylist()
        ]
        lines = pc.replace_with_mask(lines, is_aside, pa.array(texts, pa.string()))
    for name, column in (("line", lines), ("reason", reason)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows


class RunFiles:
    """The files that one task writes for a run.

    ``groups`` has what was written, of each batch; ``count`` is the number of files of events.
    """

    def __init__(self, places: Places, task: int, salt: int) -> None:
        self._places = places
        self._task = task
        self._hashes = RowHashes(salt)
        self._open: dict[Path, parquet.ParquetWriter] = {}
        self._rows = Counter[Path]()
        self._files = 0
        self.count = 0
        self.groups: list[Group] = []
        for place in places:
            place.mkdir(parents=True, exist_ok=True)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows with the columns of ``WRITTEN`` and ``day``, in the order of ``sequence``."""
        is_event = rows["reason"].is_null()
        if rows["reason"].null_count < len(rows):
            self.write_aside(rows.filter(rows["reason"].is_valid()))
            rows = rows.filter(is_event)
        self.write_events(rows)

    def write_aside(self, rows: pa.RecordBatch) -> None:
        """Write lines that are set aside; they have the columns of ``ASIDE``."""
        self._append(self._places.aside, rows.select(ASIDE.names))
        self.groups += group_rows(rows.select(ASIDE.names), self._hashes)

    def write_events(self, rows: pa.RecordBatch) -> None:
        """Write events; they have the columns of ``WRITTEN`` and ``day``."""
        self.groups += group_rows(rows, self._hashes)
        days = pc.unique(rows["day"]).to_pylist()
        for day in days:
            of_day = rows
            if len(days) > 1:  # filtering would copy all rows
                of_day = rows.filter(pc.equal(rows["day"], day))
            folder = self._places.events / f"day={day}"
            self._append(folder, of_day.select(WRITTEN.names).cast(WRITTEN))

    def close(self) -> None:
        """Complete the files."""
        for folder in list(self._open):
            self._close(folder)

    def _append(self, folder: Path, rows: pa.RecordBatch) -> None:
        if folder not in self._open:
            if len(self._open) >= FILES_MAX:
                self.close()
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self._task:05d}-{self._files:05d}.parquet"
            self._open[folder] = create_parquet(folder / name, rows.schema)
            self._files += 1
            self.count += folder != self._places.aside
        self._open[folder].write_batch(rows, _ROW_GROUP_ROWS)
        self._rows[folder] += len(rows)
        if self._rows[folder] >= ROWS_MAX:
            self._close(folder)

    def _close(self, folder: Path) -> None:
        del self._rows[folder]
        self._open.pop(folder).close()
