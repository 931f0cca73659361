"""Recorded rows, read here and by Spark."""

from __future__ import annotations

import gc
import random
import re
import subprocess
from collections import Counter
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.recorded.arrow import make_batch, read_rows, schema_of
from authorizerd.replay.recorded.rows import LocalRows, sum_parts
from authorizerd.replay.recorded.tuples import Figures, Part, RecordedTuple, merge_tuples
from tests.ops.replay.recorded.strategies import figures, keys, tuples
from tests.ops.replay.recorded.sums import LABELS, Sums, find_all, sum_by_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


rows = st.builds(
    Sums, st.integers(-3, 3), st.sampled_from(LABELS), st.booleans(), st.integers(1, 9),
    st.integers(1, 2), st.integers(-9, 9), st.integers(-9, 9),
)  # fmt: skip


@given(st.lists(rows, max_size=30))
def test_sums_are_those_of_a_scan(some: list[Sums]) -> None:
    assert list(LocalRows(some).sum(find_all, Sums)) == sum_by_scan(some)


@given(st.lists(rows, max_size=30), st.integers(1, 4))
def test_sums_of_parts_are_bounded_and_sum_to_the_whole(some: list[Sums], keys_max: int) -> None:
    parts = list(sum_parts(some, Sums, keys_max=keys_max))
    assert all(len(part) <= keys_max for part in parts)
    assert sum_by_scan(row for part in parts for row in part) == sum_by_scan(some)


@given(st.lists(tuples, max_size=9))
def test_rows_survive_a_round_trip_through_arrow(some: list[RecordedTuple]) -> None:
    batch = make_batch(some, RecordedTuple)
    assert batch.schema == schema_of(RecordedTuple)
    assert list(read_rows(batch.select(batch.schema.names[::-1]), RecordedTuple)) == some
    assert list(read_rows(batch.slice(1), RecordedTuple)) == some[1:]


def part_of(key: tuple[str | None, ...], is_allowed: bool, some: Figures) -> Part:
    return Part._make((*key, is_allowed, some.rule, *some[:3]))


@given(st.lists(st.tuples(keys, st.booleans(), figures), max_size=20))
def test_merged_tuples_have_the_figures_of_all_parts(
    parts: list[tuple[tuple[str | None, ...], bool, Figures]],
) -> None:
    counts = Counter[tuple[object, ...]]()
    for key, is_allowed, some in parts:
        counts[key, is_allowed] += some.events
    merged = merge_tuples(starmap(part_of, parts))
    assert [one[:6] for one in merged] == list(dict.fromkeys(key for key, _, _ in parts))
    for one in merged:
        for is_allowed, found in ((True, one.allowed), (False, one.denied)):
            assert (0 if found is None else found.events) == counts[one[:6], is_allowed]
            if found is None:
                continue
            mine = [some for key, answer, some in parts if (key, answer) == (one[:6], is_allowed)]
            assert found.first_ms == min(each.first_ms for each in mine)
            assert found.last_ms == max(each.last_ms for each in mine)
            rules = [each.rule or "" for each in mine if each.last_ms == found.last_ms]
            assert (found.rule or "") == max(rules)


@pytest.mark.parametrize(("allowed", "denied"), [(2, 0), (0, 3), (2, 3)])
def test_figures_of_all_events_are_those_of_both_answers(allowed: int, denied: int) -> None:
    key = ("User:a", None, "READ", "TOPIC", "t", "LITERAL")
    parts = [part_of(key, True, Figures(2, 5, 9, "A")), part_of(key, False, Figures(3, 1, 7, "B"))]
    (one,) = merge_tuples(part for part in parts if part.events in (allowed, denied))
    times = {(2, 0): (5, 9, "A"), (0, 3): (1, 7, "B"), (2, 3): (1, 9, "A")}
    assert one.all_events == (allowed + denied, *times[allowed, denied])
    assert one.events == allowed + denied


def test_spark_returns_the_same_rows_in_the_same_order(spark: SparkSession) -> None:
    from authorizerd.replay.recorded.spark import SparkRows

    drawn = random.Random(5)
    some = [
        Sums(
            drawn.randrange(-2, 3),
            drawn.choice(LABELS),
            drawn.random() < 0.5,
            *(drawn.randrange(-9, 9) for _ in range(4)),
        )
        for _ in range(500)
    ]
    table = pa.Table.from_batches([make_batch(some, Sums)])
    on_spark = SparkRows(spark.createDataFrame(table).repartition(4), Sums)
    assert list(on_spark.sum(find_all, Sums)) == sum_by_scan(some)
    # With times as timestamps, as files have them, and back.
    written = SparkRows(on_spark.map(find_all, Sums), Sums)
    assert list(written.sum(find_all, Sums)) == sum_by_scan(some)


def count_in_jvm(spark: SparkSession, name: str) -> int:
    """Return the number of reachable objects of a class in the driver's JVM."""
    gc.collect()  # Python's proxies keep their objects alive
    jvm: Any = spark._jvm
    jcmd = Path(jvm.System.getProperty("java.home"), "bin", "jcmd")
    if not jcmd.exists():
        pytest.skip("needs jcmd of a JDK")
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    histogram = subprocess.check_output([jcmd, pid, "GC.class_histogram"], text=True)
    found = re.search(rf"([0-9]+) +[0-9]+ +{re.escape(name)}\s", histogram)
    return 0 if found is None else int(found[1])


def test_jvm_keeps_no_jobs_of_earlier_sums(spark: SparkSession) -> None:
    from authorizerd.replay.recorded.spark import SparkRows

    table = pa.Table.from_batches([make_batch([Sums(1, "a", True, 1, 1, 1, 1)], Sums)])
    rows = SparkRows(spark.createDataFrame(table), Sums)
    jobs = "org.apache.spark.scheduler.JobWaiter"
    before = count_in_jvm(spark, jobs)
    for _ in range(8):
        assert list(rows.sum(find_all, Sums))
    # The JVM may still refer to the last jobs, but not to one for each sum.
    assert count_in_jvm(spark, jobs) < before + 8
