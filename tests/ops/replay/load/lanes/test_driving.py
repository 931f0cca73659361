"""How lanes are driven, and the histograms of what they measure."""

import gc
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.driving import Arrival, agree_on_start, drive
from authorizerd.replay.load.lanes.tally import (
    RELATIVE_ERROR,
    Histogram,
    bucket_of,
    last_of,
    merge_all,
)
from authorizerd.replay.load.plan.frames import LaneDigest
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.target_server import target_server
from tests.ops.replay.load.lanes.virtual_target import frames_each

LANE = LaneDigest(lane=4, digest="", frames=200, questions=200)


def plan_for(address: str) -> LoadPlan:
    return LoadPlan(events="", out="", target=address, run_id="1", start_margin_s=0.05)


def alone(text: str) -> list[str]:
    return [text]


def test_lanes_start_a_margin_after_the_last_arrival_or_not_at_all() -> None:
    ready = [Arrival(0, 10.0), Arrival(1, 12.5, 9), Arrival(2, 11.0)]
    assert agree_on_start(ready, 3.0) == 15.5
    with pytest.raises(LoadError, match="lane 1: no target"):
        agree_on_start([*ready, Arrival(1, 12.5, 9, "no target")], 3.0)
    with pytest.raises(LoadError, match="no question is due"):
        agree_on_start([Arrival(0, 10.0), Arrival(1, 12.5)], 3.0)


def test_lane_sends_all_frames_over_a_socket() -> None:
    with target_server() as server:
        result = drive(plan_for(server.address), LANE, iter(frames_each(100, 200)), alone)
        assert server.frames == 200
    assert (result.planned, result.sent, result.answered, result.ended) == (LANE, 200, 200, None)
    assert result.start_skew_ms >= 0
    assert result.refused is None
    assert gc.isenabled()


@pytest.mark.parametrize("refused", [None, "attempt 2"])
def test_no_lane_sends_if_one_is_refused(refused: str | None) -> None:
    """Either this lane, or another one."""

    def gather(text: str) -> list[str]:
        assert msgspec.json.decode(text, type=Arrival).refused == refused
        other = Arrival(3, 0.0, 9, None if refused else "no target")
        return [text, msgspec.json.encode(other).decode()]

    with target_server() as server:
        frames = iter(frames_each(0, 5))
        result = drive(plan_for(server.address), LANE, frames, gather, refused=refused)
        assert (server.hellos, server.frames) == (0 if refused else 1, 0)
    assert result.refused == ("lane 4: attempt 2" if refused else "lane 3: no target")


DURATIONS = st.integers(0, 2**45) | st.integers(0, 600)
SAMPLES = st.lists(DURATIONS | st.sampled_from([100, 200]))
PERCENTS = st.sampled_from([0.1, 50.0, 90.0, 99.0, 99.9, 100.0])


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value, count in Counter(values).items():
        histogram.record(value, count)
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


@given(SAMPLES.filter(bool), PERCENTS)
def test_percentile_is_exact_or_slightly_above(values: list[int], percent: float) -> None:
    exact = nearest_rank(values, percent)
    found = histogram_of(values).percentile_ns(percent)
    assert found is not None
    assert exact <= found <= exact * (1 + RELATIVE_ERROR)


@given(SAMPLES, SAMPLES)
def test_merged_histograms_equal_one_of_all_samples(some: list[int], others: list[int]) -> None:
    one = histogram_of(some + others)
    both = merge_all([histogram_of(some), histogram_of(others)])
    assert (both.counts, both.max_ns, both.samples) == (one.counts, one.max_ns, one.samples)


def test_negative_duration_is_in_the_first_bucket() -> None:
    histogram = Histogram()
    assert histogram.percentile_ns(99) is None
    histogram.record(-5)
    assert histogram.counts == {0: 1}
    assert histogram.percentile_ns(100) == 0
    assert RELATIVE_ERROR == 1 / 128, "as documented"
