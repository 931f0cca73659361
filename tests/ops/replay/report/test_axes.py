"""Every value has its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.report.axes import Axis, linear_axis, log_axis, time_axis

VALUES = st.floats(1e-6, 1e12)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_a_log_axis_holds_its_values(values: list[float]) -> None:
    """In their order, and within its ends; it has a tick at least."""
    axis = log_axis(values, start=200, end=10)
    assert axis.first <= min(values) * (1 + 1e-9)
    assert axis.last >= max(values) * (1 - 1e-9)
    places = [axis.place(value) for value in sorted(values)]
    assert places == sorted(places, reverse=True)
    assert all(10 <= place <= 200 for place in places)
    assert 2 <= len(axis.ticks) <= 20


def test_equal_ratios_are_equal_distances() -> None:
    """From 1 to 10 it is as far as from 10 to 100."""
    axis = log_axis([1, 1000], start=0, end=300)
    assert [axis.place(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])


@given(st.floats(0, 1e12))
def test_a_linear_axis_begins_at_0(highest: float) -> None:
    """A rate that is drawn from elsewhere looks other than it was."""
    axis = linear_axis(highest, start=100, end=0)
    assert axis.ticks[0] == axis.first == 0
    assert axis.last >= highest * (1 - 1e-9)
    assert len(axis.ticks) <= 12


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_an_axis_of_time_ends_where_it_ends(first: int, seconds: int) -> None:
    """Its ticks are whole seconds, within it."""
    axis = time_axis(first, first + seconds, start=0, end=700)
    assert (axis.place(first), axis.place(first + seconds)) == (0, 700)
    assert 1 <= len(axis.ticks) <= 12
    assert all(first <= tick <= first + seconds and tick == int(tick) for tick in axis.ticks)


@pytest.mark.parametrize("axis", [log_axis([], start=0, end=9), log_axis([0, -1], start=0, end=9)])
def test_an_axis_of_nothing_is_one_still(axis: Axis) -> None:
    """What is below its first value is put there."""
    assert axis.place(-5) == 0
