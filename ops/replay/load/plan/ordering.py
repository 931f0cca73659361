"""Find the position of each event in the whole record, although Spark reads it in parts.

**Invariant:** an event's number and elapsed time are those of one pass over all events, however the
record is divided. A gap longer than the maximum counts as the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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


class Place(NamedTuple):
    """The offsets that a part adds to the numbers and to the elapsed times of its events."""

    part: int
    number: int
    elapsed_ms: int


class Layout(msgspec.Struct, frozen=True):
    """The place of each part. A round lasts ``period_ms``: the record and a mean gap."""

    places: list[Place]
    events: int
    period_ms: float


class Walk:
    """Computes the positions of events within their part, in order."""

    def __init__(self, gap_max_ms: int | None) -> None:
        self._gap_max_ms = gap_max_ms
        self._events = self._elapsed_ms = 0
        self._last_ms: int | None = None

    def step(self, at_ms: pa.Int64Array) -> tuple[pa.Int64Array, pa.Int64Array]:
        """Return the numbers and the elapsed milliseconds of the next events."""
        if not at_ms:
            return at_ms, at_ms
        last_ms = at_ms[0].as_py() if self._last_ms is None else self._last_ms
        before = pa.concat_arrays([pa.array([last_ms], pa.int64()), at_ms[:-1]])
        gaps = pc.subtract(at_ms, before)
        if self._gap_max_ms is not None:
            gaps = pc.min_element_wise(gaps, pa.scalar(self._gap_max_ms, pa.int64()))
        elapsed = pc.cumulative_sum(gaps, start=self._elapsed_ms)
        first, self._events = self._events, self._events + len(at_ms)
        self._elapsed_ms, self._last_ms = elapsed[-1].as_py(), at_ms[-1].as_py()
        return pa.array(range(first, self._events), pa.int64()), elapsed


def lay_out(stretches: Iterable[Stretch], gap_max_ms: int | None) -> Layout:
    """Return the places of the parts, which follow each other in the order of their numbers."""
    places: list[Place] = []
    number = elapsed_ms = 0
    last_ms: int | None = None
    for stretch in sorted(stretches, key=lambda each: each.part):
        gap_ms = 0 if last_ms is None else stretch.first_ms - last_ms
        elapsed_ms += gap_ms if gap_max_ms is None else min(gap_ms, gap_max_ms)
        places.append(Place(stretch.part, number, elapsed_ms))
        number += stretch.events
        elapsed_ms += stretch.elapsed_ms
        last_ms = stretch.last_ms
    return Layout(places, number, elapsed_ms + max(1.0, elapsed_ms / max(1, number - 1)))
