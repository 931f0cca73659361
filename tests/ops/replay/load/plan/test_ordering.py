from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.ordering import Walk, lay_out, measure_stretch


@given(
    st.lists(st.lists(st.integers(0, 500), max_size=6), max_size=5), st.none() | st.integers(1, 100)
)
def test_parts_give_the_positions_of_one_pass(gaps: list[list[int]], cap: int | None) -> None:
    parts: list[list[int]] = []
    expected: list[tuple[int, int]] = []
    at_ms, elapsed_ms = 1000, 0
    for part_gaps in gaps:
        parts.append([])
        for gap in part_gaps:
            if expected:
                at_ms += gap
                elapsed_ms += gap if cap is None else min(gap, cap)
            expected.append((len(expected), elapsed_ms))
            parts[-1].append(at_ms)
    stretches = [measure_stretch(part, in_batches(times), cap) for part, times in enumerate(parts)]
    layout = lay_out(filter(None, reversed(stretches)), cap)
    found: list[tuple[int, int]] = []
    for part, place in layout.places.items():
        walk = Walk(place, cap)
        for batch in in_batches(parts[part]):
            numbers, elapsed = walk.step(batch)
            found += zip(numbers.to_pylist(), elapsed.to_pylist(), strict=True)
    assert found == expected
    assert layout.events == len(expected)
    assert layout.period_ms > elapsed_ms


def in_batches(times: list[int]) -> Iterator[pa.Int64Array]:
    """Yield a part's times in batches of two, as Arrow does with larger ones."""
    for begin in range(0, len(times), 2):
        yield pa.array(times[begin : begin + 2], pa.int64())


def test_next_round_begins_a_mean_gap_after_the_last_event() -> None:
    stretch = measure_stretch(0, in_batches([0, 100, 200]), None)
    assert stretch is not None
    assert lay_out([stretch], None).period_ms == 300
