"""How fast connections are accepted: the bucket, and listeners that share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.net.creation_rate import CreationRate, ListenerRates

BURST_S = 10


def new_rate(per_second: int) -> CreationRate:
    return CreationRate(per_second, BURST_S, now=0.0)


def test_burst_is_accepted_at_once_and_then_the_rate_applies() -> None:
    rate = new_rate(5)
    delays = [rate.reserve(now=0.0) for _ in range(BURST_S * 5 + 3)]
    assert delays[: BURST_S * 5] == [0.0] * (BURST_S * 5)
    assert delays[BURST_S * 5 :] == pytest.approx([0.2, 0.4, 0.6])


def test_unused_part_of_the_rate_is_not_kept_longer_than_the_burst() -> None:
    rate = new_rate(1)
    for _ in range(BURST_S):
        rate.reserve(now=0.0)
    assert [rate.reserve(now=1000.0) > 0 for _ in range(BURST_S + 1)] == [False] * BURST_S + [True]


def test_changed_rate_applies_to_the_next_connection() -> None:
    """A higher rate does not give back the tokens that were taken."""
    rate = new_rate(1)
    for _ in range(BURST_S):
        assert rate.reserve(now=0.0) == 0.0
    rate.change(4, now=0.0)
    assert rate.reserve(now=0.0) == pytest.approx(0.25)
    rate.change(2**31 - 1, now=1.0)
    assert rate.reserve(now=1.001) == 0.0
    rate.change(1, now=2.0)
    assert [rate.reserve(now=2.0) > 0 for _ in range(BURST_S + 1)] == [False] * BURST_S + [True]


@given(
    per_second=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=200),
)
def test_no_window_has_more_connections_than_burst_and_rate_allow(
    per_second: int, gaps: list[float]
) -> None:
    """Connections that wait one after another are served at most at the rate, after the burst."""
    rate, now, served = new_rate(per_second), 0.0, list[float]()
    for gap in gaps:
        now += gap / per_second
        now += rate.reserve(now)  # the next is accepted only after this one is served
        served.append(now)
    for first, start in enumerate(served):
        for count, end in enumerate(served[first:], 1):
            assert count <= per_second * (BURST_S + end - start) + 1e-3


@pytest.mark.parametrize(("own", "shared"), [(2, 1000), (1000, 2)])
def test_the_lower_of_both_limits_counts(own: int, shared: int) -> None:
    rates = ListenerRates(new_rate(own), new_rate(shared))
    for _ in range(2 * BURST_S):
        assert rates.reserve(now=0.0) == 0.0
    assert rates.reserve(now=0.0) == pytest.approx(0.5)


def test_listeners_share_one_limit() -> None:
    """Each listener also has its own limit, which the other's connections do not use up."""
    shared = new_rate(3)
    one, other = (ListenerRates(new_rate(2), shared) for _ in range(2))
    assert [one.reserve(now=0.0) for _ in range(20)] == [0.0] * 20
    assert [other.reserve(now=0.0) for _ in range(10)] == [0.0] * 10
    assert other.reserve(now=0.0) == pytest.approx(1 / 3)  # of the shared limit
    assert one.reserve(now=0.0) == pytest.approx(2 / 3)
