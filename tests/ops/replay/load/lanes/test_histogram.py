from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.lanes.histogram import (
    RELATIVE_ERROR,
    Histogram,
    bucket_of,
    last_of,
    merge_all,
)

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
    histogram.record(100, 98)
    histogram.record(200, 2)
    assert histogram.samples == 100
    assert (histogram.percentile_ns(98), histogram.percentile_ns(99)) == (100, 200)


def test_relative_error_is_the_documented_one() -> None:
    assert RELATIVE_ERROR == 1 / 128


def test_no_samples_have_no_percentile() -> None:
    assert Histogram().percentile_ns(99) is None


def test_negative_duration_is_in_the_first_bucket() -> None:
    histogram = Histogram()
    histogram.record(-5)
    assert histogram.counts == {0: 1}
    assert histogram.percentile_ns(100) == 0
