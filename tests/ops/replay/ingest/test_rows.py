from __future__ import annotations

from typing import TYPE_CHECKING

from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Event, Reason
from authorizerd.replay.ingest.parse.line import parse_line
from authorizerd.replay.ingest.parse.times import find_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = (
    b"[2026-11-21 16:26:26,%03d] INFO Principal = User:\xc3\xbc is Denied operation = READ "
    b"from host = h on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1"
)


def test_spark_passes_unchanged_bytes_to_the_parser(spark: SparkSession) -> None:
    from pyspark.sql import functions as sql

    from authorizerd.replay.ingest.rows import parse_lines
    from authorizerd.replay.ingest.schemas import EVENT_COLUMNS

    lines = [*(LINE % number for number in range(100)), b"", b"\xff" + LINE % 1, b"", b"a\xff"]
    lines += [b"a" * LINE_BYTES_MAX, b"a" * (LINE_BYTES_MAX + 9)]
    numbered = spark.createDataFrame(list(enumerate(lines)), "number int, bytes binary")
    asked = numbered.select(
        sql.col("bytes").cast("string").alias("line"),
        sql.col("number").cast("string").alias("file"),
    )
    fields = (sql.unix_millis("at").alias("at_ms"), *EVENT_COLUMNS[1:])
    held = sql.col("line").cast("binary").alias("held")
    rows = parse_lines(asked, "auto", "+05:30").select("file", held, "reason", *fields).collect()
    assert [int(row["file"]) for row in rows] == list(range(len(lines)))
    for row, line in zip(rows, lines, strict=True):
        expected = parse_line(line, find_zone("+05:30"))
        if isinstance(expected, Event):
            assert row["reason"] is row["held"] is None
            assert Event(**{name: row[name] for name in Event.__struct_fields__}) == expected
        else:
            assert row["reason"] == (expected or "")
            assert bytes(row["held"]) == line[: LINE_BYTES_MAX + 1]
    assert [row["reason"] for row in rows[-2:]] == [Reason.NO_DECISION, Reason.TOO_LONG]
