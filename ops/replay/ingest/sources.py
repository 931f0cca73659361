"""Files as rows: lines of logs, and events that an earlier ingest wrote.

**Invariant:** within a file rows keep their order, since Spark reads what it has split in the order
of the file and what follows here moves no row; so a row's number in the run gives the recorded
order.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StringType, TimestampType

from authorizerd.replay.ingest.inputs import Inputs, literal_glob
from authorizerd.replay.ingest.lines import EVENT_COLUMNS, parse_archives, parse_lines
from authorizerd.replay.ingest.parse.event import UNKNOWN_LEVEL, Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.spark.errors import JobError

ROW_COLUMNS: Final = ("line", "file", "reason", "day", *EVENT_COLUMNS)
_REQUIRED: Final = ("at", "allowed", "principal", "operation", "resource_type", "resource_name")
_DEFAULTS: Final = {"pattern_type": "LITERAL", "level": UNKNOWN_LEVEL}
_TYPES: Final = {"at": TimestampType, "allowed": BooleanType}


def read_rows(
    spark: SparkSession, inputs: Inputs, line_format: LineFormat, time_zone: str
) -> DataFrame:
    """Return ``ROW_COLUMNS`` and ``sequence`` of all files, of which there is one at least.

    ``reason`` is null for an event and empty for a blank line; ``line`` is null for an event.

    Raises:
        JobError: a Parquet file has not the columns of events.
    """
    parts = []
    if inputs.plain:
        parts.append(parse_lines(_lines(spark, inputs.plain), line_format, time_zone))
    if inputs.packed:
        parts.append(parse_archives(_archives(spark, inputs.packed), line_format, time_zone))
    if inputs.parquet:
        parts.append(_parquet(spark, inputs.parquet))
    rows = reduce(DataFrame.unionByName, parts)
    return rows.select("*", sql.monotonically_increasing_id().alias("sequence"))


def _lines(spark: SparkSession, uris: tuple[str, ...]) -> DataFrame:
    # Only \n ends a line: Hadoop's default would take a \r within a name for an end as well.
    lines = spark.read.text([literal_glob(uri) for uri in uris], lineSep="\n")
    return lines.select(
        sql.col("value").alias("line"), sql.col("_metadata.file_path").alias("file")
    )


def _archives(spark: SparkSession, uris: tuple[str, ...]) -> DataFrame:
    whole = spark.read.format("binaryFile").load([literal_glob(uri) for uri in uris])
    return whole.select("content", sql.col("_metadata.file_path").alias("file"))


def _parquet(spark: SparkSession, uris: tuple[str, ...]) -> DataFrame:
    """Return the events of Parquet files with columns of an ingest's names."""
    # Or the columns that the first file lacks would be lost of all.
    merging = spark.read.option("mergeSchema", "true")
    rows = merging.parquet(*(literal_glob(uri) for uri in uris))
    _check_columns(uris, rows)
    if "sequence" in rows.columns:  # an ingest's files do not lie in the recorded order
        rows = rows.orderBy("sequence")
    is_missing = reduce(Column.__or__, (sql.col(name).isNull() for name in _REQUIRED))
    file = sql.col("_metadata.file_path")
    if "file" in rows.columns:
        file = sql.coalesce(sql.col("file").cast("string"), file)
    return rows.select(
        sql.when(is_missing, sql.to_json(sql.struct("*"))).alias("line"),
        file.alias("file"),
        sql.when(is_missing, Reason.MISSING_VALUE).alias("reason"),
        sql.col("at").cast("date").alias("day"),
        *(_column(rows, name).alias(name) for name in EVENT_COLUMNS),
    )


def _check_columns(uris: tuple[str, ...], rows: DataFrame) -> None:
    where = uris[0] if len(uris) == 1 else f"{uris[0]} and {len(uris) - 1} more"
    for name in _REQUIRED:
        if name not in rows.columns:
            raise JobError(f"{where}: no column {name}, which every event has")
        wanted = _TYPES.get(name, StringType)()
        if rows.schema[name].dataType != wanted:
            found = rows.schema[name].dataType.simpleString()
            raise JobError(f"{where}: column {name} is {found}, not {wanted.simpleString()}")


def _column(rows: DataFrame, name: str) -> Column:
    kind = "int" if name == "reference_count" else "string"
    default = sql.lit(_DEFAULTS.get(name))
    if name not in rows.columns:
        return default.cast(kind)
    if name in _TYPES:
        return sql.col(name)
    value = sql.col(name).try_cast(kind)
    return sql.coalesce(value, default) if name in _DEFAULTS else value
