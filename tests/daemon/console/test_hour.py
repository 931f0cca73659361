"""The pictures of the last hour have the numbers of its table, and both those of the counters."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.console.hour import Row, format_bound, show_hour
from authorizerd.daemon.console.svg import PLOT_HEIGHT
from authorizerd.daemon.kafka.request_latency import BOUNDS_S
from authorizerd.daemon.telemetry.activity import SPAN_MS, SPANS_MAX, Activity, Totals
from tests.daemon.console.page_check import check_page

END_MS = 1_900_000_000_000
NO_REQUESTS = (0,) * (len(BOUNDS_S) + 1)


async def show(readings: list[tuple[int, int, int] | None]) -> tuple[str, str | None, list[Row]]:
    """Return the pictures and the rows, after spans with these numbers; None without a reading.

    Each reading has the allowed and denied decisions, and the bucket of ten requests; -1 for none.
    """
    activity = Activity()
    begin_ms = END_MS - len(readings) * SPAN_MS
    allowed, denied, requests = 0, 0, [*NO_REQUESTS]
    activity.add(begin_ms, Totals(0, 0, NO_REQUESTS))
    for number, reading in enumerate(readings, 1):
        if reading is not None:
            allowed, denied = allowed + reading[0], denied + reading[1]
            if reading[2] >= 0:
                requests[reading[2]] += 10
            activity.add(begin_ms + number * SPAN_MS, Totals(allowed, denied, tuple(requests)))
    shown = await show_hour(activity, END_MS)
    return shown["decisions_picture"], shown["latency_picture"], shown["hour"]


def heights(picture: str, kind: str) -> dict[int, float]:
    (path,) = re.findall(f'<path class="{kind}" d="([^"]*)"', picture)
    found = re.findall(r"M(\d+)\.\d,[\d.]+v(-?[\d.]+)h", path)
    return {int(x): abs(float(height)) for x, height in found}


@given(
    st.lists(
        st.none()
        | st.tuples(
            st.integers(0, 10) | st.integers(0, 10**15),
            st.integers(0, 10),
            st.integers(-1, len(BOUNDS_S)),
        ),
        max_size=40,
    )
)
async def test_pictures_have_the_numbers_of_the_table(
    readings: list[tuple[int, int, int] | None],
) -> None:
    decisions, latency, rows = await show(readings)
    check_page(decisions)
    known = [row.span for row in reversed(rows) if row.span is not None]
    expected = [
        reading
        for before, reading in zip([(0, 0, 0), *readings], readings, strict=False)
        if reading is not None and before is not None
    ]
    assert [(span.allowed, span.denied) for span in known] == [each[:2] for each in expected]
    assert [span.requests for span in known] == [10 * (each[2] >= 0) for each in expected]
    most = [max((each[side] for each in expected), default=0) for side in (0, 1)]
    scale = PLOT_HEIGHT / (sum(most) or 1)
    for side, kind in enumerate(("mark-1", "mark-2")):
        numbers = [each[side] for each in expected if each[side]]
        drawn = [*heights(decisions, kind).values()]
        assert drawn == pytest.approx([max(each * scale, 1) for each in numbers], abs=0.01)
    assert (latency is None) == all(each[2] < 0 for each in expected)
    if latency is not None:
        check_page(latency)
        points = re.findall(r"[ML](\d+)\.5,", latency.split('class="line-1"')[1].split("/>")[0])
        assert len(points) >= sum(each[2] >= 0 for each in expected)


async def test_spans_without_data_are_one_row() -> None:
    _, _, rows = await show([(1, 0, -1), None, None, (2, 0, -1), (3, 0, 0)])
    assert [row.span and row.span.allowed for row in rows] == [3, None, 1, None]
    assert [row.span and row.span.p99_s for row in rows] == [BOUNDS_S[0], None, None, None]
    seconds = [(row.begin, row.end) for row in rows]
    assert all(after[1] == before[0] for before, after in pairwise(seconds))


async def test_daemon_that_has_just_started_has_no_data() -> None:
    decisions, latency, rows = await show([])
    assert [row.span for row in rows] == [None]
    assert f'class="absent" x="0" width="{SPANS_MAX}"' in decisions
    assert latency is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "no requests"),
        (0.0001, "at most 0.1 ms"),
        (1.0, "at most 1,000 ms"),
        (float("inf"), "above 30,000 ms"),
    ],
)
def test_bound_is_shown_as_a_bound(seconds: float | None, text: str) -> None:
    assert format_bound(seconds) == text
