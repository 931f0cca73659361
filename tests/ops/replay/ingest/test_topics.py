from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from msgspec.structs import replace

from authorizerd.replay.ingest.commit import NO_ROWS, Content, read_newest
from authorizerd.replay.ingest.topics import (
    NewRecords,
    check_continues,
    find_recorded,
    leave_out_topics,
)
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.topics import Topic, parse_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUDIT = parse_topic("kafka://a:1,b:2/audit", {})
OTHER_ADDRESS = parse_topic("kafka://b:2,c:3/audit", {})
LINE = (
    b"[2026-11-21 16:30:00,000] DEBUG Principal = User:a is Allowed operation = READ from host = "
    b"10.0.0.1 on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based "
    b"on rule DefaultAllow (kafka.authorizer.logger)"
)


@pytest.mark.parametrize("recorded", [
    "kafka://a:1,b:2/audit", "kafka://b:2,a:1/audit", "kafka://b:2/audit", "kafka://b:2,c:3/audit",
])  # fmt: skip
def test_addresses_with_a_common_server_name_one_topic(recorded: str) -> None:
    assert find_recorded(AUDIT, ["kafka://a:1/other", recorded]) == recorded


def test_new_topic_is_named_by_its_address() -> None:
    assert find_recorded(AUDIT, ["kafka://a:1/audit-2"]) == "kafka://a:1,b:2/audit"


@pytest.mark.parametrize("recorded", ["kafka://a:2/audit", "kafka://c:1,d:2/audit"])
def test_topic_of_the_same_name_elsewhere_is_rejected(recorded: str) -> None:
    with pytest.raises(JobError, match=f"the table has records of {recorded}, which may be"):
        find_recorded(AUDIT, [recorded])


@pytest.mark.parametrize(("begins", "ends"), [
    ({0: 5}, {0: 4}), ({0: 5, 1: 1}, {0: 9}), ({0: 1, 1: 1}, {1: 0, 0: 1}),
])  # fmt: skip
def test_topic_that_was_created_again_is_rejected(
    begins: dict[int, int], ends: dict[int, int]
) -> None:
    with pytest.raises(JobError, match="the topic was created again"):
        check_continues(AUDIT, begins, ends)


@pytest.mark.parametrize(("begins", "ends", "is_recorded"), [
    ({0: 5}, {0: 5}, True), ({0: 5}, {0: 6}, False),
    ({0: 5}, {0: 5, 1: 0}, False),  # a partition was added
    ({}, {0: 0}, False),  # an empty topic becomes an empty table
])  # fmt: skip
def test_topic_without_further_records_is_recorded(
    begins: dict[int, int], ends: dict[int, int], is_recorded: bool
) -> None:
    check_continues(AUDIT, begins, ends)
    assert NewRecords(AUDIT, AUDIT.uri, begins, ends).is_recorded == is_recorded


def test_contents_of_topics_are_not_compared() -> None:
    files = ["file:/logs/a.log", f"{AUDIT.uri}/0", f"{AUDIT.uri}/12", f"{AUDIT.uri}-2/0"]
    contents = [
        Content(file=file, rows=1, digest=NO_ROWS, first=1, last=1, ends_unreadable=False, run="1")
        for file in files
    ]
    kept = leave_out_topics(contents, [NewRecords(AUDIT, AUDIT.uri, {}, {0: 1})])
    assert [content.file for content in kept] == [files[0], files[3]]
    assert leave_out_topics(contents, []) == tuple(contents)


class FakeTopic:
    """The records of a partition, in place of those that Spark's connector reads."""

    def __init__(self) -> None:
        self.lines: list[bytes | None] = []

    def find_ends(self, _spark: SparkSession, _topic: Topic) -> dict[int, int]:
        return {0: len(self.lines)}

    def read_records(
        self, spark: SparkSession, _topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> DataFrame:
        offsets = range(begins.get(0, 0), ends[0])
        records = [(self.lines[offset], 0, offset) for offset in offsets]
        return spark.createDataFrame(records, "value binary, partition int, offset long")


def test_each_record_is_added_once_even_if_its_line_is_not_new(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from authorizerd.replay.ingest import topics
    from authorizerd.replay.ingest.job import run

    kafka = FakeTopic()
    monkeypatch.setattr(topics, "find_ends", kafka.find_ends)
    monkeypatch.setattr(topics, "read_records", kafka.read_records)
    # The address may change, as long as one server stays.
    plan = IngestPlan(inputs=(), topics=(AUDIT, OTHER_ADDRESS), out=str(tmp_path), bad_ratio_max=1)
    lines = [LINE, LINE.replace(b":00,", b":01,"), None, b"no audit line"]
    for times in (1, 2):
        kafka.lines += lines
        assert run(spark, plan) == 0
        commit = read_newest(tmp_path)
        assert commit.offsets == {AUDIT.uri: {0: 4 * times}}
        figures = commit.ingested
        assert (figures.events, figures.blank_lines, figures.set_aside) == (2 * times, times, times)
    assert commit.ingested.inputs == (AUDIT.uri, OTHER_ADDRESS.uri)
    files = [f"{tmp_path}/{run.events_glob}" for run in commit.runs]
    places = duckdb.sql(f"SELECT file, sequence FROM read_parquet({files}) ORDER BY sequence")
    assert places is not None
    assert places.fetchall() == [(f"{AUDIT.uri}/0", offset) for offset in (0, 1, 4, 5)]
    capsys.readouterr()
    assert run(spark, plan) == 0
    assert capsys.readouterr().out == "nothing new: the table has all of the 2 inputs already\n"
    assert run(spark, replace(plan, topics=(AUDIT,))) == 0
    assert capsys.readouterr().out == "nothing new: the table has the input already\n"
    assert read_newest(tmp_path) == commit
