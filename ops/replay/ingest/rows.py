"""Read files on Spark as rows of lines.

**Invariant:** a row holds what ``parse.line.parse_line`` reads in its line. Rows of a file keep the
order of its lines: Spark reads the splits of a file in order, and no step here moves a row. A row's
number in the run therefore gives the recorded order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.packed import packed_files, packed_rows
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.logs import read_log
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.schemas import ROWS_SCHEMA
from authorizerd.replay.spark.files import escape_glob

Batches = Iterator[pyarrow.RecordBatch]


def read_rows(
    spark: SparkSession, inputs: Inputs, line_format: LineFormat, time_zone: str
) -> DataFrame:
    """Return the rows of all files, at least one, with ``file`` and ``sequence``.

    ``reason`` is null for an event and empty for a blank line; ``line`` is null for an event.
    """
    parts = []
    if inputs.plain:
        parts.append(parse_lines(_lines(spark, inputs.plain), line_format, time_zone))
    if inputs.packed:
        parts.append(parse_archives(packed_rows(spark, inputs.packed), line_format, time_zone))
    rows = reduce(DataFrame.unionByName, parts)
    return rows.select("*", sql.monotonically_increasing_id().alias("sequence"))


def parse_lines(lines: DataFrame, line_format: LineFormat, time_zone: str) -> DataFrame:
    """Return the columns of ``SCHEMA`` for rows of ``line``, and the other columns as they are.

    Lines need not be valid UTF-8.
    """
    line = sql.coalesce(sql.col("line").cast("binary"), sql.lit(b""))
    # A line that is too long is set aside anyway, so only its beginning is kept.
    is_long = sql.octet_length(line) > LINE_BYTES_MAX
    cut = sql.when(is_long, sql.substring(line, 1, LINE_BYTES_MAX + 1)).otherwise(line)
    others = [field for field in lines.schema.fields if field.name != "line"]
    more = (f"{each.name} {each.dataType.simpleString()}" for each in others)
    schema = ", ".join([ROWS_SCHEMA, *more])
    read = partial(_read_lines, line_format=line_format, time_zone=time_zone)
    return _with_text(lines.withColumn("line", cut).mapInArrow(read, schema))


def parse_archives(archives: DataFrame, line_format: LineFormat, time_zone: str) -> DataFrame:
    """Return the columns of ``SCHEMA`` and ``file`` for the rows of ``packed_rows``."""
    read = partial(_read_archives, line_format=line_format, time_zone=time_zone)
    return _with_text(archives.mapInArrow(read, f"{ROWS_SCHEMA}, file string"))


def _lines(spark: SparkSession, uris: tuple[str, ...]) -> DataFrame:
    # Hadoop's default also ends a line at \r, which a name may contain.
    lines = spark.read.text([escape_glob(uri) for uri in uris], lineSep="\n")
    return lines.select(
        sql.col("value").alias("line"), sql.col("_metadata.file_path").alias("file")
    )


def _with_text(rows: DataFrame) -> DataFrame:
    return rows.withColumn("line", sql.col("line").cast("string"))


def _read_lines(batches: Batches, line_format: LineFormat, time_zone: str) -> Batches:
    reader = EventReader(find_zone(time_zone), line_format)
    for batch in batches:
        rows = reader.read(batch["line"])
        for name in batch.schema.names:
            if name != "line":
                rows = rows.append_column(name, batch[name])
        yield rows


def _read_archives(batches: Batches, line_format: LineFormat, time_zone: str) -> Batches:
    reader = EventReader(find_zone(time_zone), line_format)
    for file, packed in packed_files(batches):
        for rows in reader.read_blocks(read_log(file, packed)):
            yield rows.append_column("file", pyarrow.repeat(file, len(rows)))
