from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.ordering import Stretch, Walk, lay_out


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
    positions = [list(walk(times, cap)) for times in parts]
    layout = lay_out(reversed(list(stretches_of(parts, positions))), cap)
    found = [
        (place.number + number, place.elapsed_ms + elapsed)
        for place in layout.places
        for number, elapsed in positions[place.part]
    ]
    assert found == expected
    assert layout.events == len(expected)
    assert layout.period_ms > elapsed_ms


def walk(times: list[int], cap: int | None) -> Iterator[tuple[int, int]]:
    """Yield the positions of a part's times, in batches of two, as Arrow does with larger ones."""
    walking = Walk(cap)
    for begin in range(0, len(times) + 1, 2):
        batch = walking.step(pa.array(times[begin : begin + 2], pa.int64()))
        yield from zip(*(column.to_pylist() for column in batch), strict=True)


def stretches_of(
    parts: list[list[int]], positions: list[list[tuple[int, int]]]
) -> Iterator[Stretch]:
    for part, (times, found) in enumerate(zip(parts, positions, strict=True)):
        if times:
            yield Stretch(part, len(times), times[0], times[-1], found[-1][1])


def test_next_round_begins_a_mean_gap_after_the_last_event() -> None:
    assert lay_out([Stretch(0, 3, 0, 200, 200)], None).period_ms == 300
