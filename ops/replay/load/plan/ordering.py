"""Find the position of each event in the whole record, although Spark reads it in parts.

**Invariant:** an event's number and elapsed time are those of one pass over all events, however the
record is divided. A gap above the maximum counts as the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc


class Stretch(msgspec.Struct, frozen=True):
    """The length of one part: its events, and its time with gaps capped."""

    part: int
    events: int
    first_ms: int
    last_ms: int
    elapsed_ms: int


class Place(msgspec.Struct, frozen=True):
    """The beginning of a part: the number, elapsed time and time of its first event."""

    number: int
    elapsed_ms: int
    first_ms: int


class Layout(msgspec.Struct, frozen=True):
    """The beginning of each part. A round lasts ``period_ms``: the record plus a mean gap."""

    places: dict[int, Place]
    events: int
    period_ms: float


class Walk:
    """Computes the positions of one part's events, in order."""

    def __init__(self, place: Place, gap_max_ms: int | None) -> None:
        self.number = place.number
        self.elapsed_ms = place.elapsed_ms
        self.at_ms = place.first_ms
        self._gap_max_ms = gap_max_ms

    def step(self, at_ms: pa.Int64Array) -> tuple[pa.Int64Array, pa.Int64Array]:
        """Return the numbers and the elapsed milliseconds of the next events, at least one."""
        before = pa.concat_arrays([pa.array([self.at_ms], pa.int64()), at_ms[:-1]])
        gaps = pc.subtract(at_ms, before)
        if self._gap_max_ms is not None:
            gaps = pc.min_element_wise(gaps, pa.scalar(self._gap_max_ms, pa.int64()))
        elapsed = pc.cumulative_sum(gaps, start=self.elapsed_ms)
        first, self.number = self.number, self.number + len(at_ms)
        self.elapsed_ms, self.at_ms = elapsed[-1].as_py(), at_ms[-1].as_py()
        return pa.array(range(first, self.number), pa.int64()), elapsed


def measure_stretch(
    part: int, times: Iterable[pa.Int64Array], gap_max_ms: int | None
) -> Stretch | None:
    """Return the stretch of a part from its sorted times; None if it has no events."""
    walk: Walk | None = None
    first_ms = 0
    for at_ms in times:
        if walk is None:
            first_ms = at_ms[0].as_py()
            walk = Walk(Place(0, 0, first_ms), gap_max_ms)
        walk.step(at_ms)
    if walk is None:
        return None
    return Stretch(part, walk.number, first_ms, walk.at_ms, walk.elapsed_ms)


def lay_out(found: Iterable[Stretch], gap_max_ms: int | None) -> Layout:
    """Return the beginning of each part, in the order of the parts' numbers."""
    begins: dict[int, Place] = {}
    number = elapsed_ms = 0
    before: Stretch | None = None
    for stretch in sorted(found, key=lambda each: each.part):
        if before is not None:
            gap_ms = stretch.first_ms - before.last_ms
            elapsed_ms += gap_ms if gap_max_ms is None else min(gap_ms, gap_max_ms)
        begins[stretch.part] = Place(number, elapsed_ms, stretch.first_ms)
        number += stretch.events
        elapsed_ms += stretch.elapsed_ms
        before = stretch
    return Layout(begins, number, elapsed_ms + max(1.0, elapsed_ms / max(1, number - 1)))
