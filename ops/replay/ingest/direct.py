"""Read logs and write a run in the tasks themselves, where they reach the driver's files.

Without this, every line goes from Spark to Python, and every event back, which takes most of the
time of an ingest. Elsewhere there is no other way, because only Spark reaches the file system.

**Invariant:** the run is what Spark would write. A task that runs again replaces its files. Rows of
a file keep the order of its lines: parts of a file are read in ascending order of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow
from pyspark.sql import DataFrame, SparkSession

from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.line_arrays import read_archive, read_part
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.part_files import PartFiles
from authorizerd.replay.ingest.tuples import SUMS, TextSums

TASK_BYTES_MIN: Final = 32 * 1024 * 1024
TASK_BYTES_MAX: Final = 512 * 1024 * 1024
TASKS_A_CORE: Final = 4
"""Tasks of equal size, so that all cores are busy until the end."""

_SCHEME: Final = "file:"
_QUOTED: Final = re.compile(r"[^/A-Za-z0-9_.!~*'():@&=+$,;\u0080-\U0010ffff-]")
_PACKED: Final = 10
"""About how many times as large the content of an archive is."""


class Part(NamedTuple):
    """Bytes of a plain file; of an archive, all of them."""

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

    Few tasks are better, because each of them sums up the events of a tuple on its own.

    Raises:
        OSError: a file does not exist.
    """
    plain, packed = ([_path_of(uri) for uri in uris] for uris in (inputs.plain, inputs.packed))
    total = sum(_size(path) for path in plain) + _PACKED * sum(_size(path) for path in packed)
    size = min(max(total // (TASKS_A_CORE * cores), TASK_BYTES_MIN), TASK_BYTES_MAX)
    parts = [
        Part(path, begin, min(begin + size, _size(path)))
        for path in plain
        for begin in range(0, _size(path), size)
    ]
    parts += [Part(path, 0, _size(path), is_packed=True) for path in packed]
    return list(_group(parts, size))


def _group(parts: Iterable[Part], size: int) -> Iterator[list[Part]]:
    """Yield consecutive parts that have about ``size`` bytes together, unpacked."""
    group: list[Part] = []
    filled = 0
    for part in parts:
        part_bytes = (part.end - part.begin) * (_PACKED if part.is_packed else 1)
        if group and filled + part_bytes > size:
            yield group
            group, filled = [], 0
        group.append(part)
        filled += part_bytes
    if group:
        yield group


def write_run(
    spark: SparkSession,
    tasks: Sequence[Sequence[Part]],
    places: Places,
    line_format: LineFormat,
    time_zone: str,
) -> DataFrame:
    """Return ``SUMS`` of the events of ``tasks``; computing them writes the run."""
    for folder in places:
        folder.mkdir(parents=True, exist_ok=True)
    run = partial(
        _run_tasks, tasks=tasks, places=places, line_format=line_format, time_zone=time_zone
    )
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(run, SUMS)


def _run_tasks(
    batches: Iterator[pyarrow.RecordBatch],
    tasks: Sequence[Sequence[Part]],
    places: Places,
    line_format: LineFormat,
    time_zone: str,
) -> Iterator[pyarrow.RecordBatch]:
    reader = _reader(line_format, time_zone)
    for batch in batches:
        for number in batch["id"].to_pylist():
            with closing(PartFiles(*places, number)) as files:
                yield from write_parts(tasks[number], reader, files)


@lru_cache(1)  # the tasks of a worker process parse a repeated text once
def _reader(line_format: LineFormat, time_zone: str) -> EventReader:
    return EventReader(find_zone(time_zone), line_format)


def write_parts(
    parts: Iterable[Part], reader: EventReader, files: PartFiles
) -> Iterator[pyarrow.RecordBatch]:
    """Write the rows of ``parts``, and yield ``SUMS`` of their events."""
    sums = TextSums(reader)
    for part in parts:
        file = _uri_of(part.path)
        for lines in _read(part):
            if isinstance(lines, pyarrow.RecordBatch):
                rows = lines
            else:
                if reader.is_full:
                    yield from sums.take()
                rows = reader.read(lines)
                sums.add(rows["at"], reader.numbers)
            files.write(rows.append_column("file", pyarrow.repeat(file, len(rows))))
    yield from sums.take()


def _read(part: Part) -> Iterator[pyarrow.BinaryArray | pyarrow.RecordBatch]:
    """Yield lines, or the row of a line that is set aside unread."""
    with part.path.open("rb") as file:
        if part.is_packed:
            yield from read_archive(part.path.name.lower(), file)
        else:
            yield from read_part(file, part.begin, part.end)


def _uri_of(path: Path) -> str:
    """Return the URI of a file as Spark writes it, so that a table names a file in one way."""
    return "file://" + _QUOTED.sub(lambda found: f"%{ord(found[0]):02X}", str(path))


def _path_of(uri: str) -> Path:
    # Without the scheme, the text is a path as it is.
    return Path(uri.removeprefix(_SCHEME))


def _size(path: Path) -> int:
    return path.stat().st_size
