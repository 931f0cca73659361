"""The job of ``authorizerd verify`` on Spark: count lines in tasks, and judge requests in tasks.

**Invariant:** the result is that of one process. The driver gets only figures of blocks, the clocks
of brokers, and sums, which list a bounded number of differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.inputs import sort_inputs
from authorizerd.replay.ingest.packed import packed_files, packed_rows
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError, read_log
from authorizerd.replay.ingest.rows import cut_lines, read_lines
from authorizerd.replay.ingest.schemas import describe_columns
from authorizerd.replay.ingest.topics import find_records
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import IngestPlan, VerifyPlan
from authorizerd.replay.recorded.arrow import make_batch, schema_of
from authorizerd.replay.recorded.spark import SparkRows
from authorizerd.replay.spark.description import describe
from authorizerd.replay.spark.topics import read_records
from authorizerd.replay.text import write_file
from authorizerd.replay.topics import BEFORE_OFFSET
from authorizerd.replay.verify.causes import Delay
from authorizerd.replay.verify.judging import Judge, unpack_judge
from authorizerd.replay.verify.parts import (
    FIGURES,
    RESULT,
    Clock,
    JudgedParts,
    JudgedRow,
    LineRow,
    Packed,
    count_lines,
    find_begins,
    find_clock_rows,
    judge_parts,
    merge_rows,
    unpack_figures,
    unpack_sums,
)

if TYPE_CHECKING:
    import pyarrow as pa


def run(spark: SparkSession, plan: VerifyPlan) -> int:
    """Write the result, ``JudgedParts`` in JSON, to the driver's machine.

    Raises:
        JobError: an input does not exist or cannot be read.
    """
    judge = unpack_judge(plan.judge)
    lines = reduce(DataFrame.unionByName, _find_lines(spark, plan.logs))
    count = partial(count_lines, judge=judge, layout=plan.logs.layout)
    counted = SparkRows(lines, LineRow).map(count, Packed).persist()
    try:
        result = _judge(spark, counted, judge)
    finally:
        counted.unpersist()
    Path(plan.out).mkdir(exist_ok=True)
    write_file(Path(plan.out, RESULT), msgspec.json.encode(result).decode())
    return EXIT_DONE


def _find_lines(spark: SparkSession, logs: IngestPlan) -> Iterator[DataFrame]:
    """Yield the rows of ``LineRow``."""
    # Workers import this module, and that one needs a session.
    from authorizerd.replay.ingest.runs import find_inputs

    inputs = sort_inputs(find_inputs(spark, logs.inputs))
    if inputs.parquet:
        raise JobError(f"{inputs.parquet[0]}: expected an audit log, found Parquet")
    if inputs.plain:
        block = sql.col("_metadata.file_block_start").alias("block")
        number = sql.lit(None).cast("long").alias("number")
        yield cut_lines(read_lines(spark, inputs.plain, block, number))
    for new in find_records(spark, logs.topics, {}):
        records = read_records(spark, new.topic, new.begins, new.ends)
        name = sql.concat(sql.lit(f"{new.topic.name}/"), "partition", sql.lit(BEFORE_OFFSET))
        block = sql.lit(0).cast("long").alias("block")
        line, number = sql.col("value").alias("line"), sql.col("offset").alias("number")
        yield cut_lines(records.select(line, name.alias("file"), block, number))
    if inputs.packed:
        archives = packed_rows(spark, inputs.packed)
        yield archives.mapInArrow(_unpack, describe_columns(schema_of(LineRow)))


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for file, packed in packed_files(batches):
        try:
            for block in read_log(file, packed):
                lines = bytes(block).split(b"\n")
                yield make_batch([LineRow(line, file, 0, None) for line in lines], LineRow)
        except DamagedArchiveError:
            yield make_batch([LineRow(None, file, 0, None)], LineRow)


def _judge(spark: SparkSession, counted: DataFrame, judge: Judge) -> JudgedParts:
    figures_only = SparkRows(counted.where(sql.col("bucket") == FIGURES), Packed)
    with describe(spark, "count lines"):
        figures = unpack_figures(figures_only.fetch())
    # All cases of a bucket in one task, one after the other.
    events = counted.where(sql.col("bucket") != FIGURES).repartition("bucket")
    cases = SparkRows(events.sortWithinPartitions("bucket"), Packed)
    work = partial(judge_parts, judge=judge, begins=find_begins(figures))
    judged = cases.map(partial(work, clocks={}), JudgedRow).persist()
    delays = SparkRows(judged.where("log IS NOT NULL").repartition("log"), Delay)
    with describe(spark, "judge requests"):
        clocks = dict(SparkRows(delays.map(find_clock_rows, Clock), Clock).fetch())
    if clocks:
        judged.unpersist()
        judged = cases.map(partial(work, clocks=clocks), JudgedRow)
    sums = SparkRows(judged.where("sums IS NOT NULL").repartition(1), JudgedRow)
    with describe(spark, "sum up"):
        (merged,) = SparkRows(sums.map(merge_rows, JudgedRow), JudgedRow).fetch()
    judged.unpersist()
    return JudgedParts(figures, unpack_sums(merged))
