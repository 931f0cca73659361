"""Lines of files to rows, in the Python of Spark's tasks: what repeats in a batch is read once.

**Invariant:** a row says what ``parse.line.parse_line`` does. Rows keep the order of lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.parse.archives import unpack_lines
from authorizerd.replay.ingest.parse.columns import SCHEMA, EventReader, set_aside
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import zone_of
from authorizerd.replay.spark.arrow_map import map_in_arrow

ROWS: Final = (
    "line binary, reason string, day date, at timestamp, allowed boolean, principal string, "
    "host string, operation string, resource_type string, resource_name string, "
    "pattern_type string, request string, reference_count int, rule string, level string, "
    "file string"
)

EVENT_COLUMNS: Final = tuple(SCHEMA.names[SCHEMA.get_field_index("at") :])

Batches = Iterator[pyarrow.RecordBatch]


def parse_lines(lines: DataFrame, line_format: LineFormat, time_zone: str) -> DataFrame:
    """Return ``ROWS`` of rows of ``line`` and ``file``; the bytes of a line need not be UTF-8.

    ``reason`` is null for an event and empty for a blank line; ``line`` is null for an event.
    """
    line = sql.col("line").cast("binary")
    # A line too long is set aside whatever follows, so no more of it is kept.
    is_long = sql.octet_length(line) > LINE_BYTES_MAX
    cut = sql.when(is_long, sql.substring(line, 1, LINE_BYTES_MAX + 1)).otherwise(line)
    read = partial(_read_lines, line_format=line_format, time_zone=time_zone)
    return _with_text(map_in_arrow(lines.select(cut.alias("line"), "file"), read, ROWS))


def parse_archives(archives: DataFrame, line_format: LineFormat, time_zone: str) -> DataFrame:
    """Return ``ROWS`` of rows of ``content`` and ``file``."""
    read = partial(_read_archives, line_format=line_format, time_zone=time_zone)
    return _with_text(map_in_arrow(archives.select("content", "file"), read, ROWS))


def _with_text(rows: DataFrame) -> DataFrame:
    return rows.withColumn("line", sql.col("line").cast("string"))


def _read_lines(batches: Batches, line_format: LineFormat, time_zone: str) -> Batches:
    reader = EventReader(zone_of(time_zone), line_format)
    for batch in batches:
        yield reader.read(batch["line"]).append_column("file", batch["file"])


def _read_archives(batches: Batches, line_format: LineFormat, time_zone: str) -> Batches:
    reader = EventReader(zone_of(time_zone), line_format)
    for batch in batches:
        for file, content in zip(batch["file"], batch["content"], strict=True):
            name = file.as_py()
            for lines, fault in unpack_lines(name.lower(), content.as_py()):
                rows = (
                    set_aside(lines[0], fault)
                    if fault
                    else reader.read(pyarrow.array(lines, pyarrow.binary()))
                )
                yield rows.append_column("file", pyarrow.repeat(name, len(rows)))
