"""Read a Kafka topic with Spark's connector, between offsets.

**Invariant:** records that Kafka deleted before they were read end the job. They are never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from authorizerd.replay.errors import JobError
from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.topics import Topic

RECORDS_DELETED: Final = (
    "Kafka deleted records before they were read, so the result would have a gap: start over with "
    "--overwrite, and set a retention longer than any pause between two reads"
)

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_BEGINNING: Final = -2
"""In place of an offset: the first record that Kafka still has."""
_RECORDS_A_TASK: Final = 500_000
_DATA_LOSS: Final = "Some data may have been lost"
"""Part of the message of Spark's connector (KafkaSourceProvider)."""


def read_records(
    spark: SparkSession, topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]
) -> DataFrame:
    """Return the records before ``ends``: ``value``, ``partition`` and ``offset``.

    They start at ``begins``, or at the first record of a partition that ``begins`` does not name.

    Raises:
        JobError: Spark has no connector for Kafka.
    """
    starts = {partition: begins.get(partition, _BEGINNING) for partition in ends}
    reader = _configure(spark.read, topic).option("startingOffsets", _encode(topic, starts))
    reader = reader.option("endingOffsets", _encode(topic, ends))
    return _load(spark, reader.option("maxRecordsPerPartition", _RECORDS_A_TASK), topic)


def find_ends(spark: SparkSession, topic: Topic) -> dict[int, int]:
    """Return the offset after the last record of each partition; blocks.

    Raises:
        JobError: the topic cannot be read, or Spark has no connector for Kafka.
    """
    # Only a stream exposes offsets. This one ends at once, without reading records.
    reader = _configure(spark.readStream, topic).option("startingOffsets", "latest")
    stream = _load(spark, reader, topic)
    try:
        query = stream.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
    except SPARK_ERRORS as error:
        raise JobError(f"{topic.uri}: {explain(error)}") from error
    progress: Any = query.lastProgress
    by_topic = progress["sources"][0]["endOffset"]
    if isinstance(by_topic, str):
        by_topic = msgspec.json.decode(by_topic)
    return {int(partition): offset for partition, offset in by_topic[topic.name].items()}


def explain(error: Exception) -> str:
    """Return the cause of a Spark error, and what to do if records were deleted."""
    return RECORDS_DELETED if tells_of_loss(error) else one_line(error)


def tells_of_loss(error: Exception) -> bool:
    """Return True if Kafka deleted records before they were read."""
    return _DATA_LOSS in str(error)


def _configure(reader: Reader, topic: Topic) -> Reader:
    settings = {f"kafka.{key}": value for key, value in topic.settings.items()}
    settings["kafka.bootstrap.servers"] = topic.servers
    reader = reader.format("kafka").option("subscribe", topic.name).options(**settings)
    return reader.option("failOnDataLoss", "true")


def _load(
    spark: SparkSession, reader: DataFrameReader | DataStreamReader, topic: Topic
) -> DataFrame:
    try:
        return reader.load().select("value", "partition", "offset")
    except AnalysisException as error:
        if "kafka" not in str(error):
            raise
        raise JobError(
            f"{topic.uri}: Spark has no connector for Kafka: add --conf spark.jars.packages="
            f"{_CONNECTOR}:{spark.version} or, for jars on this machine, --conf spark.jars=FILE,…"
        ) from error


def _encode(topic: Topic, offsets: Mapping[int, int]) -> str:
    return msgspec.json.encode({topic.name: dict(offsets)}).decode()
