"""The job of ``authorizerd verify`` on Spark: count lines in tasks, and judge requests in tasks.

**Invariant:** the result is that of one process. The driver gets only figures of blocks, the clocks
of brokers, and sums, which list a bounded number of differences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.inputs import sort_inputs
from authorizerd.replay.ingest.packed import packed_files, packed_rows
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError, read_log
from authorizerd.replay.ingest.rows import cut_lines, read_lines
from authorizerd.replay.ingest.runs import find_inputs
from authorizerd.replay.ingest.schemas import TUPLE, describe_columns
from authorizerd.replay.ingest.topics import find_records
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import IngestPlan, LineLayout, VerifyPlan
from authorizerd.replay.recorded.arrow import make_batch, read_rows, schema_of
from authorizerd.replay.recorded.rows import Row
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.topics import read_records
from authorizerd.replay.text import write_file
from authorizerd.replay.topics import BEFORE_OFFSET
from authorizerd.replay.verify.causes import Delay, find_clocks
from authorizerd.replay.verify.judging import Judge, unpack_judge
from authorizerd.replay.verify.parts import (
    RESULT,
    CountedPart,
    Figures,
    JudgedParts,
    Lines,
    count_lines,
    find_begins,
    judge_parts,
)
from authorizerd.replay.verify.sums import Sums, merge_sums

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterable[pa.RecordBatch]

_KEY: Final = CountedPart._fields[: CountedPart._fields.index("lines")]
_FILE: Final = re.compile(r"(?s)file:(?://)?(/.*)")
_ROWS_A_BATCH: Final = 10_000


class _Judged(NamedTuple):
    """A ``Delay``, or ``Sums`` in JSON."""

    log: str | None = None
    change: int | None = None
    least: float | None = None
    greatest: float | None = None
    sums: str | None = None


class _Clock(NamedTuple):
    log: str
    delay: int


def run(spark: SparkSession, plan: VerifyPlan) -> int:
    """Write the result, ``JudgedParts`` in JSON, to the driver's machine.

    Raises:
        JobError: an input does not exist or cannot be read.
    """
    judge = unpack_judge(plan.judge)
    counted = _count(spark, plan.logs, judge).persist()
    try:
        result = _judge(counted, judge)
    finally:
        counted.unpersist()
    Path(plan.out).mkdir(exist_ok=True)
    write_file(Path(plan.out, RESULT), msgspec.json.encode(result).decode())
    return EXIT_DONE


def _count(spark: SparkSession, logs: IngestPlan, judge: Judge) -> DataFrame:
    """Return the rows of ``CountedPart``: several of a part that is in several blocks."""
    inputs = sort_inputs(find_inputs(spark, logs.inputs))
    if inputs.parquet:
        raise JobError(f"{inputs.parquet[0]}: expected an audit log, found Parquet")
    lines = []
    if inputs.plain:
        block = sql.col("_metadata.file_block_start").alias("block")
        number = sql.lit(None).cast("long").alias("number")
        lines.append(read_lines(spark, inputs.plain, block, number))
    for new in find_records(spark, logs.topics, {}):
        records = read_records(spark, new.topic, new.begins, new.ends)
        name = sql.concat(sql.lit(f"{new.topic.name}/"), "partition", sql.lit(BEFORE_OFFSET))
        block = sql.lit(0).cast("long").alias("block")
        line, number = sql.col("value").alias("line"), sql.col("offset").alias("number")
        lines.append(records.select(line, name.alias("file"), block, number))
    count = partial(_count_batches, judge=judge, layout=logs.layout)
    parts = [
        _run(cut_lines(each), partial(count, read=read_batches), CountedPart) for each in lines
    ]
    if inputs.packed:
        archives = packed_rows(spark, inputs.packed)
        parts.append(_run(archives, partial(count, read=_read_archives), CountedPart))
    return reduce(DataFrame.unionByName, parts)


def _count_batches(
    batches: Batches,
    judge: Judge,
    layout: LineLayout,
    read: Callable[[Batches], Iterator[Lines]],
) -> Iterator[pa.RecordBatch]:
    for rows in count_lines(read(batches), judge, layout):
        yield make_batch(rows, CountedPart)


def read_batches(batches: Batches) -> Iterator[Lines]:
    """Yield the lines of logs, or records that follow each other: a record's line is its offset."""
    block: Any = None
    before = 0
    for batch in batches:
        lines = batch["line"].to_pylist()
        places = (batch[name].to_pylist() for name in ("file", "block", "number"))
        keys = (
            (file, block, None if number is None else number - row)
            for row, (file, block, number) in enumerate(zip(*places, strict=True))
        )
        begin = 0
        for key, some in groupby(keys):
            end = begin + sum(1 for _ in some)
            if key[2] is not None:
                before = key[2] + begin - 1
            elif key != block:
                block, before = key, 0
            yield Lines(_name_file(key[0]), key[1], before, lines[begin:end])
            begin, before = end, before + end - begin


def _read_archives(batches: Batches) -> Iterator[Lines]:
    for file, packed in packed_files(batches):
        name, before = _name_file(file), 0
        try:
            for block in read_log(file, packed):
                lines = bytes(block).split(b"\n")
                yield Lines(name, 0, before, lines)
                before += len(lines)
        except DamagedArchiveError:
            yield Lines(name, 0, before, None)


def _name_file(uri: str) -> str:
    """Return the path of a file on this machine, or the URI."""
    found = _FILE.fullmatch(uri)
    return uri if found is None else unquote(found[1])


def _judge(counted: DataFrame, judge: Judge) -> JudgedParts:
    figures_of = {
        "lines": sql.sum("lines"), "first_at": sql.min("first_at"), "last_at": sql.max("last_at"),
    }  # fmt: skip
    added = [column.alias(name) for name, column in figures_of.items()]
    by = Figures._fields[: Figures._fields.index("lines")]
    figures = _fetch(counted.groupBy(*by).agg(*added), Figures)
    events = counted.where("reason IS NULL")
    first = sql.min(sql.struct("block", "line")).alias("first")
    parts = events.groupBy(*_KEY).agg(*added, first).select(*_KEY, *figures_of, "first.*")
    # All cases of a request in one task, one after the other.
    parts = parts.repartition(*TUPLE).sortWithinPartitions(*TUPLE)
    work = partial(_judge_batches, judge=judge, begins=find_begins(figures))
    judged = _run(parts, partial(work, clocks={}), _Judged).persist()
    delays = judged.where("log IS NOT NULL").repartition("log")
    clocks = dict(_fetch(_run(delays, _find_clocks, _Clock), _Clock))
    if clocks:
        judged.unpersist()
        judged = _run(parts, partial(work, clocks=clocks), _Judged)
    sums = judged.where("sums IS NOT NULL").repartition(1)
    merged = _merge(_fetch(_run(sums, _merge_batches, _Judged), _Judged))
    judged.unpersist()
    return JudgedParts(figures, events.select(*TUPLE).distinct().count(), merged)


def _run(
    frame: DataFrame, work: Callable[[Batches], Iterator[pa.RecordBatch]], kind: type[Row]
) -> DataFrame:
    return frame.mapInArrow(work, describe_columns(schema_of(kind)))


def _fetch(frame: DataFrame, kind: type[Row]) -> list[Row]:
    return [row for batch in frame.toArrow().to_batches() for row in read_rows(batch, kind)]


def _read(batches: Batches, kind: type[Row]) -> Iterator[Row]:
    return chain.from_iterable(read_rows(batch, kind) for batch in batches)


def _judge_batches(
    batches: Batches,
    judge: Judge,
    begins: Mapping[tuple[str, int], int],
    clocks: Mapping[str, int],
) -> Iterator[pa.RecordBatch]:
    found = (
        _Judged(*each) if isinstance(each, Delay) else _Judged(sums=_encode(each))
        for each in judge_parts(_read(batches, CountedPart), judge, begins, clocks)
    )
    while rows := list(islice(found, _ROWS_A_BATCH)):
        yield make_batch(rows, _Judged)


def _find_clocks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Find the clocks of some logs, each with all of its delays."""
    delays = (Delay._make(row[:4]) for row in _read(batches, _Judged))
    yield make_batch(list(find_clocks(delays).items()), _Clock)


def _merge_batches(batches: Batches) -> Iterator[pa.RecordBatch]:
    yield make_batch([_Judged(sums=_encode(_merge(_read(batches, _Judged))))], _Judged)


def _merge(rows: Iterable[_Judged]) -> Sums:
    return merge_sums(msgspec.json.decode(row.sums or "", type=Sums) for row in rows)


def _encode(sums: Sums) -> str:
    return msgspec.json.encode(sums).decode()
