"""Spans have exactly the decisions between two readings, and nothing else counts as known."""

import math
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.daemon.kafka.request_latency import BOUNDS_S, Histogram, RequestTimes
from authorizerd.daemon.telemetry import activity
from authorizerd.daemon.telemetry.activity import (
    SPAN_MS,
    SPANS_MAX,
    Activity,
    Totals,
    find_quantile,
    list_begins,
    read_totals,
)
from authorizerd.daemon.telemetry.metric_sources import MetricSources

BEGIN_MS = 1_900_000_000_000
NO_REQUESTS = (0,) * (len(BOUNDS_S) + 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2000), st.integers(0, 9), st.integers(0, 9)),
        max_size=30,
    )
)
def test_span_is_known_only_between_two_readings_in_time(
    readings: list[tuple[int, int, int, int]],
) -> None:
    """A reading is missed, or late, if the daemon was paused or its clock was set."""
    found = Activity()
    expected: dict[int, tuple[int, int]] = {}
    end_ms = BEGIN_MS
    before: tuple[int, int, int] | None = None
    allowed = denied = 0
    for spans, late_ms, more, fewer in readings:
        end_ms += spans * SPAN_MS
        allowed, denied = allowed + more, denied + fewer
        found.add(end_ms + late_ms, Totals(allowed, denied, NO_REQUESTS))
        if late_ms > 1000:
            before = None
            continue
        if before is not None and before[0] == end_ms - SPAN_MS:
            expected[before[0]] = (allowed - before[1], denied - before[2])
        before = end_ms, allowed, denied
    listed = found.list_spans(end_ms + 1)
    assert len(listed) == SPANS_MAX
    for begin_ms, span in zip(list_begins(end_ms + 1), listed, strict=True):
        shown = None if span is None else (span.allowed, span.denied)
        assert shown == expected.get(begin_ms)


def test_spans_older_than_an_hour_are_dropped() -> None:
    found = Activity()
    for number in range(SPANS_MAX + 50):
        found.add(BEGIN_MS + number * SPAN_MS, Totals(number, 0, NO_REQUESTS))
    spans = found.list_spans(BEGIN_MS + (SPANS_MAX + 49) * SPAN_MS)
    assert [span and span.allowed for span in spans] == [1] * SPANS_MAX


def test_counter_that_was_reset_counts_as_zero() -> None:
    found = Activity()
    found.add(BEGIN_MS, Totals(9, 9, NO_REQUESTS))
    found.add(BEGIN_MS + SPAN_MS, Totals(0, 12, NO_REQUESTS))
    span = found.list_spans(BEGIN_MS + SPAN_MS)[-1]
    assert span is not None
    assert (span.allowed, span.denied, span.requests, span.p50_s) == (0, 3, 0, None)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_quantile_is_the_bound_above_it(seconds: list[float], quantile: float) -> None:
    histogram = Histogram()
    for each in seconds:
        histogram.observe(each)
    exact = sorted(seconds)[math.ceil(quantile * len(seconds)) - 1]
    expected = next((bound for bound in BOUNDS_S if bound >= exact), math.inf)
    assert find_quantile(histogram.counts, quantile) == expected
    assert find_quantile(NO_REQUESTS, quantile) is None


async def test_counters_are_read_at_the_end_of_each_span(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_ms = BEGIN_MS + 4321 - int(trio.current_time() * 1000)
    monkeypatch.setattr(activity, "now_ms", lambda: begin_ms + int(trio.current_time() * 1000))
    found, numbers = Activity(), iter(range(0, 1000, 5))
    with trio.move_on_after(36):
        await found.run(lambda: Totals(next(numbers), 0, NO_REQUESTS))
    spans = found.list_spans(BEGIN_MS + 40_000)
    assert [span and span.allowed for span in spans[-4:]] == [None, 5, 5, 5]


def test_totals_are_sums_of_all_surfaces_and_apis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scrape adds the workers' decisions, as for /metrics."""
    times = RequestTimes()
    times.observe("CreateAcls", local_s=0.0001, remote_s=9.0)
    times.observe("Fetch", local_s=0.0001, remote_s=0.0)
    times.observe("Fetch", local_s=99.0, remote_s=0.0)
    sources = cast(MetricSources, SimpleNamespace(times=times))
    decisions = {"Kafka": DecisionCounts(3, 2, 9, 9), "AuthZEN": DecisionCounts(10, 20, 9, 9)}
    monkeypatch.setattr(activity, "Scrape", lambda _: SimpleNamespace(decisions=decisions))
    found = read_totals(sources)
    assert (found.allowed, found.denied) == (13, 22)
    assert (found.requests[0], found.requests[-1], sum(found.requests)) == (2, 1, 3)
    assert read_totals(cast(MetricSources, SimpleNamespace(times=RequestTimes()))).requests == (
        NO_REQUESTS
    )
