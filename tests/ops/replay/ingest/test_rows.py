from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Event, Reason
from authorizerd.replay.ingest.parse.line import parse_line
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.plans import LineLayout

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
