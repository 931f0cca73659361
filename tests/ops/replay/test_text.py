from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.text import format_count, format_time, parse_time


@given(st.integers(-(10**13), 10**14))
def test_times_read_back_to_the_millisecond(ms: int) -> None:
    assert parse_time(format_time(ms)) == ms
    assert parse_time(format_time(ms).removesuffix("Z")) == ms


@pytest.mark.parametrize("ms", [2**62, 2**63 - 1])
def test_time_beyond_the_calendar_is_a_number(ms: int) -> None:
    assert format_time(ms) == f"{ms} ms"


def test_count_has_a_plural() -> None:
    assert [format_count(n, "event") for n in (0, 1, 2_000)] == [
        "0 events",
        "1 event",
        "2,000 events",
    ]
