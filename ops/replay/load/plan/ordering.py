"""Find the position of each event in the whole record, although Spark reads it in parts.

**Invariant:** an event's number and elapsed time are those of one pass over all events, however the
record is divided. A gap above the maximum counts as the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec


class Stretch(msgspec.Struct, frozen=True):
    """The length of one part: its events, and its time with gaps capped."""

    part: int
    events: int
    first_ms: int
    last_ms: int
    elapsed_ms: int


class Walk:
    """Computes the positions of one part's events, in order."""

    def __init__(self, place: Place, gap_max_ms: int | None) -> None:
        self._number = place.number
        self._elapsed_ms = place.elapsed_ms
        self._at_ms = place.first_ms
        self._gap_max_ms = gap_max_ms

    def step(self, at_ms: int) -> tuple[int, int]:
        """Return number and elapsed milliseconds of the next event."""
        self._elapsed_ms += cap_gap(at_ms - self._at_ms, self._gap_max_ms)
        self._at_ms = at_ms
        self._number += 1
        return self._number - 1, self._elapsed_ms


class Place(msgspec.Struct, frozen=True):
    """The beginning of a part: the number, elapsed time and time of its first event."""

    number: int
    elapsed_ms: int
    first_ms: int

    def walk(self, gap_max_ms: int | None) -> Walk:
        return Walk(self, gap_max_ms)


class Layout(msgspec.Struct, frozen=True):
    """The beginning of each part. A round lasts ``period_ms``: the record plus a mean gap."""

    places: dict[int, Place]
    events: int
    period_ms: float


def cap_gap(gap_ms: int, gap_max_ms: int | None) -> int:
    return gap_ms if gap_max_ms is None else min(gap_ms, gap_max_ms)


def measure_stretches(rows: Iterable[tuple[int, int]], gap_max_ms: int | None) -> Iterator[Stretch]:
    """Yield the stretches of sorted rows of (part, at_ms); the rows of a part are adjacent."""
    current: Stretch | None = None
    events = elapsed_ms = last_ms = 0
    for part, at_ms in rows:
        if current is None or part != current.part:
            if current is not None:
                yield Stretch(current.part, events, current.first_ms, last_ms, elapsed_ms)
            current = Stretch(part, 0, at_ms, at_ms, 0)
            events = elapsed_ms = 0
            last_ms = at_ms
        events += 1
        elapsed_ms += cap_gap(at_ms - last_ms, gap_max_ms)
        last_ms = at_ms
    if current is not None:
        yield Stretch(current.part, events, current.first_ms, last_ms, elapsed_ms)


def lay_out(found: Iterable[Stretch], gap_max_ms: int | None) -> Layout:
    """Return the beginning of each part, in the order of the parts' numbers."""
    begins: dict[int, Place] = {}
    number = elapsed_ms = 0
    before: Stretch | None = None
    for stretch in sorted(found, key=lambda each: each.part):
        if before is not None:
            elapsed_ms += before.elapsed_ms + cap_gap(stretch.first_ms - before.last_ms, gap_max_ms)
        begins[stretch.part] = Place(number, elapsed_ms, stretch.first_ms)
        number += stretch.events
        before = stretch
    total_ms = elapsed_ms + (0 if before is None else before.elapsed_ms)
    return Layout(begins, number, total_ms + max(1.0, total_ms / max(1, number - 1)))
