"""How lanes are driven, what they measure, and the stage on Spark that runs them."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.driving import Arrival, agree_on_start, drive
from authorizerd.replay.load.lanes.histogram import (
    RELATIVE_ERROR,
    Histogram,
    bucket_of,
    last_of,
    merge_all,
)
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.target_server import TargetServer
from tests.ops.replay.load.lanes.virtual_target import frames_each
from tests.support.fixture_types import MonkeyPatch

LANE = LaneDigest(lane=4, digest="", frames=200, questions=200)


def plan_for(address: str, token: str | None = None) -> LoadPlan:
    return LoadPlan(events="", out="", target=address, run_id="1", token=token, start_margin_s=0.05)


def alone(text: str) -> list[str]:
    return [text]


def test_start_is_a_margin_after_the_last_arrival() -> None:
    assert agree_on_start([Arrival(0, 10.0), Arrival(1, 12.5, 9), Arrival(2, 11.0)], 3.0) == 15.5


@pytest.mark.parametrize(("arrivals", "said"), [
    ([Arrival(0, 10.0, 9), Arrival(1, 12.5, 9, "no target")], "lane 1: no target"),
    ([Arrival(0, 10.0), Arrival(1, 12.5)], "no question is due"),
])  # fmt: skip
def test_lanes_that_cannot_send_do_not_start(arrivals: list[Arrival], said: str) -> None:
    with pytest.raises(LoadError, match=said):
        agree_on_start(arrivals, 3.0)


def test_lane_sends_all_frames_over_a_socket() -> None:
    with TargetServer() as server:
        result = drive(plan_for(server.address), LANE, iter(frames_each(100, 200)), alone)
        assert server.frames == 200
    assert (result.planned, result.sent, result.answered, result.ended) == (LANE, 200, 200, None)
    assert result.start_skew_ms >= 0
    assert result.refused is None
    assert gc.isenabled()


def test_second_attempt_sends_nothing() -> None:
    gathered: list[str] = []

    def gather(text: str) -> list[str]:
        gathered.append(text)
        return [text]

    with TargetServer() as server:
        result = drive(
            plan_for(server.address), LANE, iter(frames_each(0, 5)), gather, refused="attempt 2"
        )
        assert (server.hellos, server.frames) == (0, 0)
    assert result.refused == "lane 4: attempt 2"
    assert msgspec.json.decode(gathered[0], type=Arrival).refused == "attempt 2"


def test_no_lane_sends_if_one_is_rejected() -> None:
    texts: dict[int, str] = {}
    barrier = threading.Barrier(2, timeout=30)
    results: dict[int, LaneResult] = {}

    def gather_as(lane: int) -> Callable[[str], list[str]]:
        def gather(text: str) -> list[str]:
            texts[lane] = text
            barrier.wait()
            return list(texts.values())

        return gather

    with TargetServer(token="id.secret") as server:

        def run(lane: int, token: str | None) -> None:
            frames = iter(frames_each(0, 5))
            plan = plan_for(server.address, token)
            planned = msgspec.structs.replace(LANE, lane=lane)
            results[lane] = drive(plan, planned, frames, gather_as(lane))

        threads = [
            threading.Thread(target=run, args=(0, "id.secret")),
            threading.Thread(target=run, args=(1, None)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (server.hellos, server.frames) == (2, 0)
    reason = (
        f"lane 1: target {server.address}: it rejects the token (58 SASL_AUTHENTICATION_FAILED)"
    )
    assert [results[lane].refused for lane in (0, 1)] == [reason, reason]


DURATIONS = st.integers(0, 2**45) | st.integers(0, 600)
PERCENTS = st.sampled_from([0.1, 50.0, 90.0, 99.0, 99.9, 100.0])


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def nearest_rank(values: list[int], percent: float) -> int:
    """Return the exact percentile: the smallest value that ``percent`` do not exceed."""
    ordered = sorted(values)
    return next(
        value
        for rank, value in enumerate(ordered, 1)
        if rank * 1000 >= round(percent * 10) * len(ordered)
    )


@given(DURATIONS)
def test_bucket_contains_exactly_its_durations(value: int) -> None:
    bucket = bucket_of(value)
    last = last_of(bucket)
    assert value <= last < value * (1 + RELATIVE_ERROR) + 1
    assert bucket_of(last) == bucket
    assert bucket_of(last + 1) == bucket + 1


@given(st.lists(DURATIONS, min_size=1), PERCENTS)
def test_percentile_is_exact_or_slightly_above(values: list[int], percent: float) -> None:
    exact = nearest_rank(values, percent)
    found = histogram_of(values).percentile_ns(percent)
    assert found is not None
    assert exact <= found <= exact * (1 + RELATIVE_ERROR)


@given(st.lists(DURATIONS), st.lists(DURATIONS))
def test_merged_histograms_equal_one_of_all_samples(some: list[int], others: list[int]) -> None:
    one = histogram_of(some + others)
    both = merge_all([histogram_of(some), histogram_of(others)])
    assert (both.counts, both.max_ns, both.samples) == (one.counts, one.max_ns, one.samples)


@given(st.lists(DURATIONS))
def test_counts_and_maximum_restore_the_histogram(values: list[int]) -> None:
    one = histogram_of(values)
    again = Histogram(dict(sorted(one.counts.items())), one.max_ns)
    assert (again.counts, again.percentile_ns(99)) == (one.counts, one.percentile_ns(99))


def test_count_adds_that_many_samples() -> None:
    histogram = Histogram()
    assert histogram.percentile_ns(99) is None
    histogram.record(100, 98)
    histogram.record(200, 2)
    assert histogram.samples == 100
    assert (histogram.percentile_ns(98), histogram.percentile_ns(99)) == (100, 200)


def test_relative_error_is_the_documented_one() -> None:
    assert RELATIVE_ERROR == 1 / 128


def test_negative_duration_is_in_the_first_bucket() -> None:
    histogram = Histogram()
    histogram.record(-5)
    assert histogram.counts == {0: 1}
    assert histogram.percentile_ns(100) == 0


GOOD = LoadPlan(events="in", out="out", target="h:1", run_id="1")


TASK = "spark.task.maxFailures"
STAGE = "spark.stage.maxConsecutiveAttempts"
SPECULATION = "spark.speculation"


@pytest.mark.parametrize(("master", "settings", "complaint"), [
    ("local", {}, None),
    ("local[2]", {}, None),
    ("local[2,1]", {}, None),
    ("local[*]", {TASK: "4", SPECULATION: "false"}, None),
    ("local[2, 4]", {TASK: "1"}, f"{TASK} is 4: set it to 1"),
    ("local-cluster[2,1,1024]", {TASK: "1"}, f"{STAGE} is not set"),
    ("yarn", {TASK: "1", STAGE: "1", SPECULATION: "false"}, None),
    ("yarn", {STAGE: "1"}, f"{TASK} is not set, which means 4"),
    ("yarn", {TASK: "1"}, f"{STAGE} is not set, which means 4"),
    ("spark://h:7077", {TASK: "2", STAGE: "1"}, f"{TASK} is 2"),
    ("yarn", {TASK: "1", STAGE: "1", SPECULATION: "true"}, "spark.speculation is true"),
])  # fmt: skip
def test_settings_that_allow_a_second_attempt_are_rejected(
    master: str, settings: dict[str, str], complaint: str | None
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.lanes.stage import attempts_refusal

    refusal = attempts_refusal((settings | {"spark.master": master}).get)
    assert (refusal is None) is (complaint is None)
    assert complaint is None or complaint in str(refusal)


def test_files_that_spark_has_brought_come_first(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Absolute paths, and paths of files that Spark has not copied, stay unchanged."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.lanes.stage import locate_files

    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").touch()
    monkeypatch.setattr(pyspark.SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    plan = LoadPlan(
        events="in", out="out", target="tls://h:1", run_id="1",
        cafile="tls/ca.pem", cert="tls/client.pem", key="/etc/hosts",
    )  # fmt: skip
    located = locate_files(plan)
    assert located.cafile == f"{tmp_path}/tls/ca.pem"
    assert (located.cert, located.key) == ("tls/client.pem", "/etc/hosts")
    assert locate_files(GOOD) == GOOD
