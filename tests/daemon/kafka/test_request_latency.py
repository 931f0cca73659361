"""Histograms of how long requests take."""

from __future__ import annotations

import pytest

from authorizerd.daemon.kafka.request_latency import BOUNDS_S, Histogram, RequestTimes


@pytest.mark.parametrize(
    ("seconds", "bound"), [(0.0, "0.0001"), (0.001, "0.001"), (0.0011, "0.0025"), (31.0, "+Inf")]
)
def test_time_is_counted_in_each_bucket_whose_bound_is_not_below_it(
    seconds: float, bound: str
) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    names = [*map(str, BOUNDS_S), "+Inf"]
    first = names.index(bound)
    assert histogram.buckets() == [
        (name, int(number >= first)) for number, name in enumerate(names)
    ]
    assert histogram.sum_s == seconds


def test_local_and_remote_times_are_counted_apart() -> None:
    times = RequestTimes()
    times.observe("CreateAcls", local_s=0.5, remote_s=20.0)
    times.observe("CreateAcls", local_s=0.25, remote_s=0.0)
    times.observe("Metadata", local_s=0.125, remote_s=0.0)
    assert {name: each.sum_s for name, each in times.local.items()} == {
        "CreateAcls": 0.75,
        "Metadata": 0.125,
    }
    assert times.remote["CreateAcls"].sum_s == 20.0
    assert times.remote["CreateAcls"].buckets()[-1] == ("+Inf", 2)
