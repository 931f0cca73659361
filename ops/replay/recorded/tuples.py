"""A distinct recorded request with the figures of its events, and the sources of such tuples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.recorded.rows import Rows


class Figures(NamedTuple):
    """The events of a tuple with one answer; without events, only 0 and None.

    Times are in milliseconds since 1970. The rule is that of the last event; of several that are
    equally late, it is the last one in text order.
    """

    events: int
    first_ms: int
    last_ms: int
    rule: str | None


class RecordedTuple(NamedTuple):
    """A distinct request, with the figures of its allowed and of its denied events.

    An answer without events has 0 of them, and neither times nor a rule.
    """

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed_events: int
    allowed_first_ms: int | None
    allowed_last_ms: int | None
    allowed_rule: str | None
    denied_events: int
    denied_first_ms: int | None
    denied_last_ms: int | None
    denied_rule: str | None

    @property
    def allowed(self) -> Figures | None:
        return Figures._make(self[6:10]) if self[6] else None

    @property
    def denied(self) -> Figures | None:
        return Figures._make(self[10:]) if self[10] else None

    @property
    def events(self) -> int:
        return self.allowed_events + self.denied_events

    @property
    def all_events(self) -> Figures:
        """Return the figures of all events; the rule is only that of the allowed ones."""
        allowed, denied = self.allowed, self.denied
        if allowed is None or denied is None:
            some = allowed or denied
            assert some is not None, "a tuple has events"
            return some
        return Figures(
            allowed.events + denied.events,
            min(allowed.first_ms, denied.first_ms),
            max(allowed.last_ms, denied.last_ms),
            allowed.rule,
        )


class Source(Protocol):
    """Recorded traffic: the output of an ingest, or audit logs."""

    @property
    def ingested(self) -> Ingested:
        """The figures of all lines."""
        ...

    def tuples(self, since_ms: int | None = None, /) -> Rows[RecordedTuple]:
        """Return the distinct tuples of all events, or of those since a time."""
        ...


NO_EVENTS: Final[tuple[int, None, None, None]] = (0, None, None, None)


def merge_tuples(
    parts: Iterable[tuple[tuple[str | None, ...], bool, Figures]],
) -> list[RecordedTuple]:
    """Return the distinct tuples of parts, in the order in which they first occur.

    A part has the first six fields of a tuple, an answer, and figures of it.
    """
    found: dict[tuple[str | None, ...], list[Figures | None]] = {}
    for key, is_allowed, figures in parts:
        both = found.setdefault(key, [None, None])
        place = 0 if is_allowed else 1
        both[place] = _sum(both[place], figures)
    return [
        RecordedTuple._make((*key, *(allowed or NO_EVENTS), *(denied or NO_EVENTS)))
        for key, (allowed, denied) in found.items()
    ]


def _sum(one: Figures | None, other: Figures) -> Figures:
    if one is None:
        return other
    last = max(one, other, key=lambda each: (each.last_ms, each.rule is not None, each.rule or ""))
    return Figures(
        one.events + other.events, min(one.first_ms, other.first_ms), last.last_ms, last.rule
    )
