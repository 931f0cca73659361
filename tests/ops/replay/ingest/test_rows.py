"""The rows that Spark's tasks read, and their sums."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow
import pytest

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, Event, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.recorded.arrow import make_batch, read_rows, schema_of
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LINE = (
    b"[2026-11-21 16:26:26,%03d] INFO Principal = User:\xc3\xbc is Denied operation = READ "
    b"from host = h on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1"
)


@pytest.mark.parametrize("field", [None, "event.original"])
def test_spark_passes_unchanged_bytes_to_the_parser(spark: SparkSession, field: str | None) -> None:
    from pyspark.sql import functions as sql

    from authorizerd.replay.ingest.rows import parse_lines
    from authorizerd.replay.ingest.schemas import EVENT_COLUMNS

    lines = [*(LINE % number for number in range(100)), b"", b"\xff" + LINE % 1, b"", b"a\xff"]
    lines += [json.dumps({"event": {"original": (LINE % 2).decode()}}).encode()]
    lines += [b"a" * LINE_BYTES_MAX, b"a" * (LINE_BYTES_MAX + 9)]
    numbered = spark.createDataFrame(list(enumerate(lines)), "number int, bytes binary")
    asked = numbered.select(
        sql.col("bytes").cast("string").alias("line"),
        sql.col("number").cast("string").alias("file"),
    )
    layout = LineLayout(time_zone="+05:30", field=field)
    fields = (sql.unix_millis("at").alias("at_ms"), *EVENT_COLUMNS[1:])
    held = sql.col("line").cast("binary").alias("held")
    rows = parse_lines(asked, layout).select("file", held, "reason", *fields).collect()
    assert [int(row["file"]) for row in rows] == list(range(len(lines)))
    for row, line in zip(rows, lines, strict=True):
        expected = parse_line(line, find_zone("+05:30"), field=field)
        if isinstance(expected, Event):
            assert row["reason"] is row["held"] is None
            assert Event(**{name: row[name] for name in Event.__struct_fields__}) == expected
        else:
            assert row["reason"] == (expected or "")
            assert bytes(row["held"]) == line[: LINE_BYTES_MAX + 1]
    ends: tuple[Reason | None, ...] = (Reason.BAD_JSON, Reason.NO_DECISION)
    if field is not None:
        ends = (None, Reason.NO_LINE_FIELD)
    assert [row["reason"] for row in rows[-3:]] == [*ends, Reason.TOO_LONG]


def random_part(chosen: random.Random, seconds: Sequence[int]) -> Part:
    """Return a part whose names, rules and times often equal those of others."""
    first, last = sorted(chosen.choices(seconds, k=2))
    return Part(
        *(f"User:{chosen.choice('ab')}", chosen.choice(["10.0.0.1", None]), "READ", "TOPIC"),
        *(chosen.choice("xy"), "LITERAL", chosen.random() < 0.5),
        *(chosen.choice([None, *(f"rule {number}" for number in range(40))]), chosen.randint(1, 5)),
        *(first * 1000, last * 1000),
    )


def test_tuples_split_and_summed_with_other_parts_are_those_of_all(spark: SparkSession) -> None:
    from authorizerd.replay.ingest import sums

    chosen = random.Random(20)
    times = range(3), (-62_135_000_000, 253_402_000_000)
    parts = [random_part(chosen, times[number % 2]) for number in range(200)]
    first, second = (
        spark.createDataFrame(pyarrow.Table.from_batches([make_batch(some, Part)]))
        for some in (parts[:120], parts[120:])
    )
    merged = sums.sum_tuples(sums.split_tuples(sums.sum_tuples(first)).unionByName(second))
    batches = merged.select(*schema_of(RecordedTuple).names).toArrow().to_batches()
    found = [row for batch in batches for row in read_rows(batch, RecordedTuple)]
    assert sorted(found, key=str) == sorted(merge_tuples(parts), key=str)
