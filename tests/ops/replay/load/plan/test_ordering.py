from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.ordering import lay_out, measure_stretches


@given(
    st.lists(st.lists(st.integers(0, 500), max_size=6), max_size=5), st.none() | st.integers(1, 100)
)
def test_parts_give_the_positions_of_one_pass(gaps: list[list[int]], cap: int | None) -> None:
    rows: list[tuple[int, int]] = []
    expected: list[tuple[int, int]] = []
    at_ms, elapsed_ms = 1000, 0
    for part, part_gaps in enumerate(gaps):
        for gap in part_gaps:
            if rows:
                at_ms += gap
                elapsed_ms += gap if cap is None else min(gap, cap)
            expected.append((len(rows), elapsed_ms))
            rows.append((part, at_ms))
    layout = lay_out(reversed(list(measure_stretches(rows, cap))), cap)
    walks = {part: place.walk(cap) for part, place in layout.places.items()}
    assert [walks[part].step(at) for part, at in rows] == expected
    assert layout.events == len(rows)
    assert layout.period_ms > elapsed_ms


def test_next_round_begins_a_mean_gap_after_the_last_event() -> None:
    layout = lay_out(measure_stretches([(0, 0), (0, 100), (0, 200)], None), None)
    assert layout.period_ms == 300
