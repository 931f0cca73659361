from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report.axes import Axis, decade_axis, linear_axis, log_axis, time_axis


@pytest.mark.parametrize("make_axis", [log_axis, decade_axis])
@given(values=st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=5))
def test_logarithmic_axis_contains_its_values_in_order(
    make_axis: Callable[..., Axis], values: list[float]
) -> None:
    axis = make_axis(values, start=200, end=10)
    assert axis.first <= min(values) * (1 + 1e-9)
    assert axis.last >= max(values) * (1 - 1e-9)
    places = [axis.place(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert all(10 <= place <= 200 for place in places)
    assert 2 <= len(axis.ticks) <= 20


def test_equal_ratios_are_equal_distances() -> None:
    axis = log_axis([1, 1000], start=0, end=300)
    assert [axis.place(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])


def test_decade_axis_has_whole_powers_of_ten() -> None:
    assert decade_axis([20, 500], start=0, end=1).ticks == (10, 100, 1000)
    assert decade_axis([10], start=0, end=1).ticks == (10, 100)


@given(st.floats(0, 1e12))
def test_linear_axis_begins_at_0(highest: float) -> None:
    axis = linear_axis(highest, start=100, end=0)
    assert axis.ticks[0] == axis.first == 0
    assert axis.last >= highest * (1 - 1e-9)
    assert len(axis.ticks) <= 12


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_time_axis_has_exact_ends_and_ticks_at_whole_seconds(first: int, seconds: int) -> None:
    axis = time_axis(first, first + seconds, start=0, end=700)
    assert (axis.place(first), axis.place(first + seconds)) == (0, 700)
    assert 1 <= len(axis.ticks) <= 12
    assert all(first <= tick <= first + seconds and tick == int(tick) for tick in axis.ticks)


@pytest.mark.parametrize("values", [[], [0, -1]])
def test_log_axis_places_values_below_its_first_at_its_start(values: list[float]) -> None:
    assert log_axis(values, start=0, end=9).place(-5) == 0
