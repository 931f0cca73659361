"""Read logs and write a run in the tasks themselves, if they can reach the driver's files.

Without this, every line goes from Spark to Python, and every event back, which takes most of the
time of an ingest. On other file systems, which only Spark can reach, that is the only way.

**Invariant:** the run equals what Spark would write. A task that runs again replaces its files.
Rows of a file keep the order of its lines: later parts of a file go to later tasks. Memory is
bounded: a task keeps ``FILES_MAX`` files open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession

from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.parse.columns import BLANK, SCHEMA, EventReader
from authorizerd.replay.ingest.parse.logs import read_log, read_part
from authorizerd.replay.ingest.schemas import EVENT_COLUMNS, SUMS_SCHEMA
from authorizerd.replay.ingest.sums import TextSums
from authorizerd.replay.plans import LineLayout

TASK_BYTES_MIN: Final = 32 * 1024 * 1024
TASK_BYTES_MAX: Final = 512 * 1024 * 1024
TASKS_A_CORE: Final = 4
"""Tasks of equal size, so that all cores are busy until the end."""
FILES_MAX: Final = 8
ROWS_MAX: Final = 1_000_000
"""About the maximum number of rows in a file, so that other programs can read files in parallel."""

_ROW_GROUP_ROWS: Final = 500_000
_SEQUENCE_BITS: Final = 33  # as in Spark's monotonically_increasing_id
_SCHEME: Final = "file:"
_QUOTED: Final = re.compile(r"[^/A-Za-z0-9_.!~*'():@&=+$,;\u0080-\U0010ffff-]")
_PACKED: Final = 10
"""Estimated ratio of an archive's content to its compressed size."""
_ADDED: Final = [pyarrow.field("file", pyarrow.string()), ("sequence", pyarrow.int64())]
_UNREAD: Final = [("line", pyarrow.string()), ("reason", pyarrow.string())]
# As in the files of Spark, which first writes the lines set aside there as well, so that a table
# has one schema.
_EVENTS: Final = pyarrow.schema([*map(SCHEMA.field, EVENT_COLUMNS), *_ADDED, *_UNREAD])
_SET_ASIDE: Final = pyarrow.schema([*_UNREAD, *_ADDED])


class Part(NamedTuple):
    """A range of bytes of a plain file, or all bytes of an archive."""

    path: Path
    begin: int
    end: int
    is_packed: bool = False


class Places(NamedTuple):
    """The directories of a run."""

    events: Path
    aside: Path


def are_here(inputs: Inputs) -> bool:
    """Return True if all files are logs in the driver's file system."""
    logs = (*inputs.plain, *inputs.packed)
    return not inputs.parquet and all(uri.startswith(_SCHEME) for uri in logs)


def plan_tasks(inputs: Inputs, cores: int) -> list[list[Part]]:
    """Return the parts that each task reads; all inputs ``are_here``.

    Fewer tasks are better, because each one produces its own sums for a tuple.

    Raises:
        OSError: a file does not exist.
    """
    # Without its scheme, a URI is a plain path: nothing is encoded.
    plain, packed = (
        [(path, path.stat().st_size) for path in (Path(uri.removeprefix(_SCHEME)) for uri in uris)]
        for uris in (inputs.plain, inputs.packed)
    )
    total = sum(size for _, size in plain) + _PACKED * sum(size for _, size in packed)
    task_bytes = min(max(total // (TASKS_A_CORE * cores), TASK_BYTES_MIN), TASK_BYTES_MAX)
    parts = [
        Part(path, begin, min(begin + task_bytes, size))
        for path, size in plain
        for begin in range(0, size, task_bytes)
    ]
    parts += [Part(path, 0, size, is_packed=True) for path, size in packed]
    tasks: list[list[Part]] = []
    filled = 0
    for part in parts:
        part_bytes = (part.end - part.begin) * (_PACKED if part.is_packed else 1)
        if not tasks or filled + part_bytes > task_bytes:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += part_bytes
    return tasks


def write_run(
    spark: SparkSession,
    tasks: Sequence[Sequence[Part]],
    places: Places,
    layout: LineLayout,
) -> DataFrame:
    """Return the parts of the tuples of ``tasks``; computing them writes the run."""
    for folder in places:
        folder.mkdir(parents=True, exist_ok=True)
    run = partial(_run_tasks, tasks=tasks, places=places, layout=layout)
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(run, SUMS_SCHEMA)


def _run_tasks(
    batches: Iterator[pyarrow.RecordBatch],
    tasks: Sequence[Sequence[Part]],
    places: Places,
    layout: LineLayout,
) -> Iterator[pyarrow.RecordBatch]:
    reader = _reader(layout)
    for batch in batches:
        for number in batch["id"].to_pylist():
            with closing(PartFiles(places, number)) as files:
                yield from write_parts(tasks[number], reader, files)


@lru_cache(1)  # the tasks of a worker process parse a repeated text once
def _reader(layout: LineLayout) -> EventReader:
    return EventReader.of(layout)


def write_parts(
    parts: Iterable[Part], reader: EventReader, files: PartFiles
) -> Iterator[pyarrow.RecordBatch]:
    """Write the rows of ``parts``, and yield the parts of their tuples."""
    sums = TextSums(reader.texts)
    for part in parts:
        # The same form that Spark writes, so that a table always names a file in the same way.
        uri = "file://" + _QUOTED.sub(lambda found: f"%{ord(found[0]):02X}", str(part.path))
        with part.path.open("rb") as file:
            if part.is_packed:
                blocks = read_log(part.path.name, file)
            else:
                blocks = read_part(file, part.begin, part.end)
            for rows in reader.read_blocks(blocks):
                if reader.texts is not sums.texts:
                    yield from sums.take()
                    sums = TextSums(reader.texts)
                sums.add(rows["at"], reader.numbers)
                files.write(rows.append_column("file", pyarrow.repeat(uri, len(rows))))
    yield from sums.take()


class PartFiles:
    """The files of one task: events by day, and the other lines separately."""

    def __init__(self, places: Places, task: int) -> None:
        self._places = places
        self._task = task
        self._open: dict[Path, parquet.ParquetWriter] = {}
        self._rows = Counter[Path]()
        self._files = 0
        self._lines = 0

    def write(self, rows: pyarrow.RecordBatch) -> None:
        """Write rows of ``SCHEMA`` and ``file``."""
        begin = (self._task << _SEQUENCE_BITS) + self._lines
        self._lines += len(rows)
        ones = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), len(rows))
        sequence = compute.cumulative_sum(ones, start=begin - 1)
        rows = rows.append_column("sequence", sequence)
        reason = rows["reason"]
        events = rows
        if reason.null_count < len(rows):
            events, aside = rows.filter(reason.is_null()), rows.filter(reason.is_valid())
            self._append(self._places.aside, _name_reasons(aside.select(_SET_ASIDE.names)))
        days = compute.unique(events["day"]).to_pylist()
        for day in days:
            of_day = events
            if len(days) > 1:  # filtering would copy all rows
                of_day = events.filter(compute.equal(events["day"], day))
            self._append(
                self._places.events / f"day={day}", of_day.select(_EVENTS.names).cast(_EVENTS)
            )

    def close(self) -> None:
        """Complete the files."""
        for folder in list(self._open):
            self._close(folder)

    def _append(self, folder: Path, rows: pyarrow.RecordBatch) -> None:
        if folder not in self._open:
            if len(self._open) >= FILES_MAX:
                self.close()
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self._task:05d}-{self._files:05d}.parquet"
            self._open[folder] = _open_file(folder / name, rows.schema)
            self._files += 1
        self._open[folder].write_batch(rows, _ROW_GROUP_ROWS)
        self._rows[folder] += len(rows)
        if self._rows[folder] >= ROWS_MAX:
            self._close(folder)

    def _close(self, folder: Path) -> None:
        del self._rows[folder]
        self._open.pop(folder).close()


def _open_file(path: Path, schema: pyarrow.Schema) -> parquet.ParquetWriter:
    return parquet.ParquetWriter(
        path,
        schema,
        compression="snappy",
        use_dictionary=[field.name for field in schema if field.type == pyarrow.string()],
        # Rules are long and numerous: with the default size, Parquet would abandon their
        # dictionary.
        dictionary_pagesize_limit=16 * 1024 * 1024,
        write_statistics=["at"] if "at" in schema.names else False,
        store_schema=False,
    )


def _name_reasons(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return rows with text for lines that are not valid UTF-8, and a reason for blank lines."""
    lines = [line.decode(errors="replace") for line in rows["line"].to_pylist()]
    reasons = compute.if_else(compute.equal(rows["reason"], ""), BLANK, rows["reason"])
    columns = [pyarrow.array(lines, pyarrow.string()), reasons, *rows.columns[2:]]
    return pyarrow.record_batch(columns, schema=_SET_ASIDE)
