"""Read files as rows: lines of logs, and events that an earlier ingest wrote.

**Invariant:** a row holds what ``parse.line.parse_line`` reads from its line. Rows of a file keep
the order of its lines: Spark reads the splits of a file in order, and no step here moves a row. A
row's number in the run therefore gives the recorded order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from typing import Final

import pyarrow
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StringType, TimestampType

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, UNKNOWN_LEVEL, Reason
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.inputs import Inputs
from authorizerd.replay.ingest.packed import packed_files, packed_rows
from authorizerd.replay.ingest.parse.columns import SCHEMA, get_reader, hash_events
from authorizerd.replay.ingest.parse.hashes import RowHashes
from authorizerd.replay.ingest.parse.logs import read_log
from authorizerd.replay.ingest.schemas import EVENT_COLUMNS, ROWS_SCHEMA, describe_columns
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.spark.listing import escape_glob, file_of_row

_REQUIRED: Final = ("at", "allowed", "principal", "operation", "resource_type", "resource_name")
_DEFAULTS: Final = {"pattern_type": "LITERAL", "level": UNKNOWN_LEVEL}
_TYPES: Final = {"at": TimestampType, "allowed": BooleanType}

Batches = Iterator[pyarrow.RecordBatch]


def read_rows(spark: SparkSession, inputs: Inputs, layout: LineLayout, salt: int) -> DataFrame:
    """Return the rows of all files, at least one, with ``file`` and ``sequence``.

    ``reason`` is null for an event and empty for a blank line; ``line`` is null for an event.
    ``salt`` is the key of the rows' hashes.

    Raises:
        JobError: a Parquet file lacks columns of events.
    """
    parts = []
    if inputs.plain:
        parts.append(parse_lines(read_lines(spark, inputs.plain), layout, salt))
    if inputs.packed:
        parts.append(parse_archives(packed_rows(spark, inputs.packed), layout, salt))
    if inputs.parquet:
        parts.append(_parquet(spark, inputs.parquet, salt))
    rows = reduce(DataFrame.unionByName, parts)
    return rows.select("*", sql.monotonically_increasing_id().alias("sequence"))


def parse_lines(lines: DataFrame, layout: LineLayout, salt: int = 0) -> DataFrame:
    """Return the columns of ``SCHEMA`` for rows of ``line``, and the other columns unchanged.

    Lines need not be valid UTF-8.
    """
    others = [field for field in lines.schema.fields if field.name != "line"]
    more = (f"{other.name} {other.dataType.simpleString()}" for other in others)
    schema = ", ".join([ROWS_SCHEMA, *more])
    read = partial(_read_lines, layout=layout, salt=salt)
    return _with_text(cut_lines(lines).mapInArrow(read, schema))


def cut_lines(lines: DataFrame) -> DataFrame:
    """Return the rows with ``line`` as bytes; one that is too long is set aside, and is cut."""
    line = sql.coalesce(sql.col("line").cast("binary"), sql.lit(b""))
    is_long = sql.octet_length(line) > LINE_BYTES_MAX
    cut = sql.when(is_long, sql.substring(line, 1, LINE_BYTES_MAX + 1)).otherwise(line)
    return lines.withColumn("line", cut)


def parse_archives(archives: DataFrame, layout: LineLayout, salt: int) -> DataFrame:
    """Return the columns of ``SCHEMA`` and ``file`` for the rows of ``packed_rows``."""
    read = partial(_read_archives, layout=layout, salt=salt)
    return _with_text(archives.mapInArrow(read, f"{ROWS_SCHEMA}, file string"))


def read_lines(spark: SparkSession, uris: tuple[str, ...], *more: Column) -> DataFrame:
    """Return ``line`` and ``file`` of the lines in plain logs, and other columns."""
    # Hadoop's default also ends a line at \r, which a name may contain.
    lines = spark.read.text([escape_glob(uri) for uri in uris], lineSep="\n")
    return lines.select(sql.col("value").alias("line"), file_of_row(), *more)


def _with_text(rows: DataFrame) -> DataFrame:
    return rows.withColumn("line", sql.col("line").cast("string"))


def _read_lines(batches: Batches, layout: LineLayout, salt: int) -> Batches:
    reader = get_reader(layout, salt)
    for batch in batches:
        rows = reader.read(batch["line"])
        for name in batch.schema.names:
            if name != "line":
                rows = rows.append_column(name, batch[name])
        yield rows


def _read_archives(batches: Batches, layout: LineLayout, salt: int) -> Batches:
    reader = get_reader(layout, salt)
    for file, packed in packed_files(batches):
        for rows in reader.read_blocks(read_log(file, packed)):
            yield rows.append_column("file", pyarrow.repeat(file, len(rows)))


def _parquet(spark: SparkSession, uris: tuple[str, ...], salt: int) -> DataFrame:
    """Return the events of Parquet files that have the column names of an ingest."""
    # Without mergeSchema, a column that the first file lacks is lost in all files.
    merging = spark.read.option("mergeSchema", "true")
    rows = merging.parquet(*(escape_glob(uri) for uri in uris))
    _check_columns(uris, rows)
    if "sequence" in rows.columns:  # an ingest's files do not keep the recorded order
        run = sql.regexp_extract("_metadata.file_path", "/run=([^/]+)/", 1)
        rows = rows.orderBy(run, "sequence")
    is_missing = reduce(Column.__or__, (sql.col(name).isNull() for name in _REQUIRED))
    file = file_of_row()
    if "file" in rows.columns:
        file = sql.coalesce(sql.col("file").cast("string"), file)
    columns = rows.select(
        sql.when(is_missing, sql.to_json(sql.struct("*"))).alias("line"),
        file.alias("file"),
        sql.when(is_missing, Reason.MISSING_VALUE).alias("reason"),
        sql.col("at").cast("date").alias("day"),
        *(_column(rows, name).alias(name) for name in EVENT_COLUMNS if name != "hash"),
    )
    schema = f"{describe_columns(SCHEMA)}, file string".replace("line binary", "line string")
    return columns.mapInArrow(partial(_hash_rows, salt=salt), schema)


def _hash_rows(batches: Batches, salt: int) -> Batches:
    """Add the hashes of rows that another program, or another table, has."""
    hashes = RowHashes(salt)
    for batch in batches:
        hashed = batch.append_column("hash", hash_events(batch, hashes))
        yield hashed.select([*SCHEMA.names, "file"])


def _check_columns(uris: tuple[str, ...], rows: DataFrame) -> None:
    where = uris[0] if len(uris) == 1 else f"{uris[0]} and {len(uris) - 1} more"
    for name in _REQUIRED:
        if name not in rows.columns:
            raise JobError(f"{where}: column {name} is missing; every event needs it")
        wanted = _TYPES.get(name, StringType)()
        if rows.schema[name].dataType != wanted:
            found = rows.schema[name].dataType.simpleString()
            raise JobError(
                f"{where}: column {name}: expected type {wanted.simpleString()}, found {found}"
            )


def _column(rows: DataFrame, name: str) -> Column:
    kind = "int" if name == "reference_count" else "string"
    default = sql.lit(_DEFAULTS.get(name))
    if name not in rows.columns:
        return default.cast(kind)
    if name in _TYPES:
        return sql.col(name)
    # A value that cannot be cast becomes null instead of ending the job.
    value = sql.col(name).try_cast(kind)
    return sql.coalesce(value, default) if name in _DEFAULTS else value
