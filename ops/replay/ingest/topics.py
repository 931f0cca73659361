"""Read the records of Kafka topics that a table does not have yet, on Spark."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.records import (
    NewRecords,
    Offsets,
    check_continues,
    find_recorded,
)
from authorizerd.replay.ingest.rows import parse_lines
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.spark.topics import find_ends, read_records
from authorizerd.replay.topics import Topic


def find_records(
    spark: SparkSession, topics: Iterable[Topic], recorded: Offsets
) -> list[NewRecords]:
    """Return the new records of each topic; blocks.

    Raises:
        JobError: a topic cannot be read, or is not the topic that was read before.
    """
    found = []
    known = dict(recorded)
    for topic in topics:
        name = find_recorded(topic, known)
        begins, ends = known.get(name, {}), find_ends(spark, topic)
        check_continues(topic, begins, ends)
        known[name] = ends
        found.append(NewRecords(topic, name, begins, ends))
    return found


def read_new_rows(spark: SparkSession, new: NewRecords, layout: LineLayout, salt: int) -> DataFrame:
    """Return the rows of new records, as ``read_rows`` does.

    ``file`` is the address of the topic and the partition; ``sequence`` is the offset.
    """
    records = read_records(spark, new.topic, new.begins, new.ends)
    rows = parse_lines(records.withColumnRenamed("value", "line"), layout, salt)
    file = sql.concat_ws("/", sql.lit(new.name), "partition")
    return rows.withColumn("file", file).withColumnRenamed("offset", "sequence").drop("partition")
