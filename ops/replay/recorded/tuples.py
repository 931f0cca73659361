"""A distinct recorded request with the figures of its events, and the sources of such tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from authorizerd.replay.ingest.report import DAMAGED, Ingested
from authorizerd.replay.recorded.rows import Find, Row, Rows
from authorizerd.replay.text import parse_time

R = TypeVar("R", bound=Row)

_DAY_MS: Final = 86_400_000


class Figures(NamedTuple):
    """The events of a tuple with one answer; without events, all fields are 0 or None.

    Times are in milliseconds since 1970. The rule is that of the last event; if several events
    share its time, it is the last one in text order.
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
        """Return the figures of all events; the rule is that of the allowed events."""
        allowed, denied = self.allowed, self.denied
        if allowed is None or denied is None:
            figures = allowed or denied
            assert figures is not None, "a tuple has events"
            return figures
        return Figures(
            allowed.events + denied.events,
            min(allowed.first_ms, denied.first_ms),
            max(allowed.last_ms, denied.last_ms),
            allowed.rule,
        )


class Part(NamedTuple):
    """Some of the events of a tuple: those with one answer and one rule."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed: bool
    rule: str | None
    events: int
    first_ms: int
    last_ms: int


class Source(Protocol):
    """Recorded traffic: the output of an ingest, or audit logs."""

    @property
    def ingested(self) -> Ingested:
        """The figures of all lines."""
        ...

    def tuples(self, since_ms: int | None = None, /) -> Rows[RecordedTuple]:
        """Return the distinct tuples of all events, or of those since a time."""
        ...


def find_gaps(source: Source) -> Iterator[str]:
    """Yield why requests may be missing from the record."""
    for uri in source.ingested.damaged:
        path = unquote(uri[7:]) if uri.startswith("file://") else uri  # an ingest names URIs
        yield f"{path}: {DAMAGED}"
    if source.ingested.is_sampled:
        yield "the record is a sample of the allowed requests (authorizerd.audit.sample.allowed)"


class Engine(Source, Protocol):
    """Evaluates recorded traffic and writes the results of a command."""

    def store(
        self, tuples: Rows[RecordedTuple], find: Find[RecordedTuple, R], kind: type[R], name: str, /
    ) -> Rows[R]:
        """Write the rows that ``find`` yields for its tuples as result ``name``, and return them.

        They are ordered by the first field of ``kind``, then by frequency.
        """
        ...

    def write_text(self, name: str, text: str, /) -> None:
        """Write the result ``name``, so that no reader sees a part of it."""
        ...


def find_begin(ingested: Ingested, lookback_days: float | None, since_ms: int | None) -> int | None:
    """Return when a window begins, in milliseconds since 1970; None for all events."""
    if lookback_days is None or ingested.last_at is None:
        return since_ms
    return parse_time(ingested.last_at) - round(lookback_days * _DAY_MS)


NO_EVENTS: Final[tuple[int, None, None, None]] = (0, None, None, None)


def merge_tuples(parts: Iterable[Part]) -> list[RecordedTuple]:
    """Return the distinct tuples of ``parts``, in the order of their first occurrence."""
    found: dict[tuple[str | bool | None, ...], list[Figures | None]] = {}
    for part in parts:
        both = found.setdefault(part[:6], [None, None])
        figures = Figures(part.events, part.first_ms, part.last_ms, part.rule)
        place = 0 if part.allowed else 1
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
