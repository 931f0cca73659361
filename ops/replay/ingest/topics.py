"""Read the records of Kafka topics that a table does not have yet.

**Invariant:** each record counts once. A commit has the next offset of each partition, and the next
ingest reads from there up to offsets that it looked up before.
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

    ``name`` is the address with which the topic was read first.
    """

    topic: Topic
    name: str
    begins: Mapping[int, int]
    ends: dict[int, int]

    @property
    def is_recorded(self) -> bool:
        """True if the table has all records; False for a topic that it has never read."""
        return self.begins == self.ends


def find_records(
    spark: SparkSession, topics: Iterable[Topic], recorded: Offsets
) -> list[NewRecords]:
    """Return the new records of each topic; blocks.

    Raises:
        JobError: a topic cannot be read, or is not the one that was read before.
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
    """Return the address under which a table has the topic, or that of the topic.

    Addresses with a server in common name the same cluster.

    Raises:
        JobError: the table has a topic of this name, perhaps of another cluster.
    """
    servers = set(topic.servers.split(","))
    for address in recorded:
        other = parse_topic(address, {})
        if other.name == topic.name:
            if servers.isdisjoint(other.servers.split(",")):
                raise JobError(
                    f"{topic.uri}: the table has records of {address}, which may be the same ones: "
                    "expected one of its servers in --input. For the topic of another cluster, use "
                    "another --out"
                )
            return address
    return topic.uri


def check_continues(topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Check that the topic still has the partitions that were read, and at least their records.

    Raises:
        JobError: it was created again since.
    """
    for partition, begin in begins.items():
        end = ends.get(partition, 0)
        if end < begin:
            raise JobError(
                f"{topic.uri}: partition {partition} ends at offset {end}, but the table has its "
                f"records up to offset {begin}: the topic was created again: use another --out, or "
                "start again with --overwrite"
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
    """Return the contents of files, which may be copies; offsets tell records apart."""
    topics = tuple(f"{new.name}/" for new in records)
    return tuple(content for content in contents if not content.file.startswith(topics))
