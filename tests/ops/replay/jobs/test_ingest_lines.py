from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.replay.events.event import LINE_BYTES_MAX, Event, Reason
from ops.replay.events.line import LineFormat, parse_line
from ops.replay.events.times import zone_of
from tests.ops.replay.events.hostile_lines import bytes_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Parsed = Event | Reason | None

# Were any step to go back over these, it would take minutes.
LONG_NAMES = tuple(
    b"[2026-11-21 16:26:26,966] INFO Principal = User:a is Denied operation = READ from host = h "
    b"on resource = Topic:LITERAL:" + name * 3_000
    for name in (
        b" is Denied operation = a from host = b on resource = c:",
        b" for request = a with resourceRefCount = ",
        b" for request = a with resourceRefCount = 1 based on rule ",
        b" (kafka.authorizer.logger) [a",
        b"uthorizer (uthorizer",
        b"2026-11-21 16:26:26,966 Principal = ",
    )
)


def parse_by_spark(
    spark: SparkSession, lines: list[bytes], line_format: LineFormat, time_zone: str
) -> list[Parsed]:
    from pyspark.sql import functions as sql

    from ops.replay.jobs.ingest_lines import EVENT_COLUMNS, parse_lines

    rows = spark.createDataFrame(list(enumerate(lines)), "number int, bytes binary").select(
        "number",
        sql.col("bytes").cast("string").alias("line"),
        sql.lit(None).cast("string").alias("fault"),
    )
    parsed = parse_lines(rows, line_format, time_zone).orderBy("number")
    fields = (sql.unix_millis("at").alias("at_ms"), *EVENT_COLUMNS[1:])
    return [
        Event(**{field: row[field] for field in ("at_ms", *EVENT_COLUMNS[1:])})
        if row["reason"] is None
        else (Reason(row["reason"]) if row["reason"] else None)
        for row in parsed.select("reason", *fields).collect()
    ]


@pytest.fixture(scope="module")
def hostile_lines() -> list[bytes]:
    """Lines of hypothesis's making; they are judged all at once, since a job costs seconds."""
    lines: list[bytes] = [b"a" * LINE_BYTES_MAX, b"a" * (LINE_BYTES_MAX + 1), *LONG_NAMES]

    @settings(max_examples=250, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(bytes_lines, min_size=8, max_size=8))
    def collect(some: list[bytes]) -> None:
        lines.extend(some)

    collect()
    return lines


@pytest.mark.parametrize(
    ("line_format", "time_zone"),
    [("auto", "Europe/Berlin"), ("kafka", "+05:30"), ("json", "UTC")],
)
def test_spark_reads_each_line_as_the_parser_does(
    spark: SparkSession, hostile_lines: list[bytes], line_format: LineFormat, time_zone: str
) -> None:
    """The road that is fast and the one that can be read are one definition."""
    zone = zone_of(time_zone)
    expected = [parse_line(line, zone, line_format) for line in hostile_lines]
    parsed = parse_by_spark(spark, hostile_lines, line_format, time_zone)
    different = [
        (line[:300], one, other)
        for line, one, other in zip(hostile_lines, parsed, expected, strict=True)
        if one != other
    ]
    assert not different, (len(different), different[:5])
    kinds = Counter(Event if isinstance(each, Event) else each for each in expected)
    assert kinds[Event] > 20
    assert len(kinds) > 5
