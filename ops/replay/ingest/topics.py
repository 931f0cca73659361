"""Read the records of Kafka topics that a table does not have yet.

**Invariant:** each record counts once. A commit has the next offset of each partition. The next
ingest reads from there up to end offsets that it looked up beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import Content
from authorizerd.replay.ingest.rows import parse_lines
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.failures import SPARK_ERRORS
from authorizerd.replay.spark.topics import explain, find_ends, read_records
from authorizerd.replay.topics import Topic, parse_topic

Offsets = Mapping[str, Mapping[int, int]]
"""The next offset of each partition, by topic (``Topic.uri``)."""


class NewRecords(NamedTuple):
    """The records of a topic from ``begins`` up to ``ends``, by partition.

    ``name`` is the address under which the topic was first read.
    """

    topic: Topic
    name: str
    begins: Mapping[int, int]
    ends: dict[int, int]

    @property
    def is_recorded(self) -> bool:
        """True if the table has all records; False for a topic that was never read."""
        return self.begins == self.ends


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
        try:
            ends = find_ends(spark, topic)
        except SPARK_ERRORS as error:
            raise JobError(f"{topic.uri}: {explain(error)}") from error
        begins = known.get(name, {})
        check_continues(topic, begins, ends)
        known[name] = ends
        found.append(NewRecords(topic, name, begins, ends))
    return found


def find_recorded(topic: Topic, recorded: Iterable[str]) -> str:
    """Return the address under which the table recorded the topic, or the topic's own.

    Addresses that have a server in common name the same cluster.

    Raises:
        JobError: the table has a topic of the same name, perhaps from another cluster.
    """
    servers = set(topic.servers.split(","))
    for address in recorded:
        other = parse_topic(address, {})
        if other.name == topic.name:
            if servers.isdisjoint(other.servers.split(",")):
                raise JobError(
                    f"{topic.uri}: the table has records from {address}, which may be the same: "
                    "expected one of its servers in --input. For a topic of another cluster, use "
                    "another --out"
                )
            return address
    return topic.uri


def check_continues(topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Check that the topic still has the partitions and the records that were read.

    Raises:
        JobError: the topic has been recreated.
    """
    for partition, begin in begins.items():
        end = ends.get(partition, 0)
        if end < begin:
            raise JobError(
                f"{topic.uri}: partition {partition} ends at offset {end}, but the table has its "
                f"records up to offset {begin}: the topic was recreated: use another --out, or "
                "start over with --overwrite"
            )


def read_new_rows(spark: SparkSession, new: NewRecords, layout: LineLayout) -> DataFrame:
    """Return the rows of new records, as ``read_rows`` does.

    ``file`` is the address of the topic and the partition; ``sequence`` is the offset.
    """
    records = read_records(spark, new.topic, new.begins, new.ends)
    rows = parse_lines(records.withColumnRenamed("value", "line"), layout)
    file = sql.concat_ws("/", sql.lit(new.name), "partition")
    return rows.withColumn("file", file).withColumnRenamed("offset", "sequence").drop("partition")


def leave_out_topics(
    contents: Iterable[Content], records: Iterable[NewRecords]
) -> tuple[Content, ...]:
    """Return the contents of files only: these may be copies, but records have offsets."""
    topics = tuple(f"{new.name}/" for new in records)
    return tuple(content for content in contents if not content.file.startswith(topics))
