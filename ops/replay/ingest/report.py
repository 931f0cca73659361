"""The content of ``ingest.json``: the figures of one ingest.

**Invariant:** ``lines`` is the sum of ``blank_lines``, ``explanations``, ``events`` and
``set_aside``, so every line is accounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.audit.recorded.event import OF_SAMPLE, Reason
from authorizerd.replay.text import format_count, format_time

NO_LINE_FIELD: Final = "no line has a text in the JSON field that {flag} names"
DAMAGED: Final = "the archive is damaged, so events are missing: fetch or pack it again"


class Log(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest event of a broker's log (``logs.name_log``).

    Args:
        last_at: the time of the event in UTC; None if the log was read, and has none.
        is_read: True if the newest ingest had a file of the log, or read its partition.
    """

    last_at: str | None
    is_read: bool = True


class Ingested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of one ingest.

    ``accepted`` is False if more than ``bad_ratio_max`` of the lines were set aside: later jobs
    reject such events. Times are ISO 8601 in UTC, or None without events. ``damaged`` lists the
    archives that could not be read to their ends. ``explanations`` counts lines of AclAuthorizer
    about decisions that other lines record. ``logs`` has the logs whose newest events are known.
    """

    accepted: bool
    lines: int
    blank_lines: int
    events: int
    set_aside: int
    reasons: dict[str, int]
    allowed_events: int
    denied_events: int
    tuples: int
    first_at: str | None
    last_at: str | None
    time_zone: str
    inputs: tuple[str, ...]
    levels: dict[str, int]
    damaged: tuple[str, ...] = ()
    explanations: int = 0
    logs: dict[str, Log] = {}

    @property
    def is_sampled(self) -> bool:
        """True if only a sample of the decisions was logged in a part of the lines."""
        return any(level.endswith(OF_SAMPLE) for level in self.levels)

    def __post_init__(self) -> None:
        """Check the invariant.

        Raises:
            ValueError: the counts of lines or events do not add up.
        """
        if self.lines != self.blank_lines + self.explanations + self.events + self.set_aside:
            raise ValueError(
                f"{self.lines} lines were read, but {self.blank_lines} blank lines, "
                f"{self.explanations} explanations, {self.events} events and {self.set_aside} "
                "lines set aside were counted"
            )
        if self.events != self.allowed_events + self.denied_events:
            raise ValueError("the counts of allowed and denied events do not add up to all events")


def count_lines(
    *,
    levels: Counter[str],
    reasons: Counter[str],
    blank_lines: int,
    allowed: int,
    first_ms: int | None,
    last_ms: int | None,
    time_zone: str,
    inputs: tuple[str, ...],
    tuples: int = 0,
    damaged: tuple[str, ...] = (),
    bad_ratio_max: float = 1.0,
) -> Ingested:
    """Return the figures of lines.

    Args:
        levels: the number of events by level.
        reasons: the number of lines by reason.
        first_ms: the time of the first event in milliseconds since 1970, None without events.
        bad_ratio_max: an ingest is accepted if at most this share of its lines was set aside.
    """
    bad = Counter({name: count for name, count in reasons.items() if name != Reason.EXPLANATION})
    events, set_aside = levels.total(), bad.total()
    lines = events + blank_lines + reasons.total()
    ingested = Ingested(
        accepted=True,
        lines=lines,
        blank_lines=blank_lines,
        events=events,
        set_aside=set_aside,
        explanations=reasons[Reason.EXPLANATION],
        reasons=by_frequency(bad),
        allowed_events=allowed,
        denied_events=events - allowed,
        first_at=None if first_ms is None else format_time(first_ms),
        last_at=None if last_ms is None else format_time(last_ms),
        levels=by_frequency(levels),
        time_zone=time_zone,
        inputs=inputs,
        tuples=tuples,
        damaged=damaged,
    )
    return replace(ingested, accepted=are_readable(ingested, bad_ratio_max))


def are_readable(ingested: Ingested, bad_ratio_max: float) -> bool:
    """Return True if at most this share of lines is set aside; explanations do not count.

    Whatever the share, ``lacks_field`` must be False.
    """
    # Multiply instead of dividing, because there may be no lines.
    are_few = ingested.set_aside <= bad_ratio_max * (ingested.lines - ingested.explanations)
    return are_few and not lacks_field(ingested)


def lacks_field(ingested: Ingested) -> bool:
    """Return True if no event was read, and lines lack the JSON field that the user named."""
    return not ingested.events and Reason.NO_LINE_FIELD in ingested.reasons


def add_up(figures: Sequence[Ingested], tuples: int) -> Ingested:
    """Return the totals of several ingests, which have ``tuples`` distinct tuples together."""
    first = [figure.first_at for figure in figures if figure.first_at is not None]
    last = [figure.last_at for figure in figures if figure.last_at is not None]
    reasons, levels = Counter[str](), Counter[str]()
    for figure in figures:
        reasons.update(figure.reasons)
        levels.update(figure.levels)
    return Ingested(
        accepted=all(figure.accepted for figure in figures),
        lines=sum(figure.lines for figure in figures),
        blank_lines=sum(figure.blank_lines for figure in figures),
        explanations=sum(figure.explanations for figure in figures),
        events=sum(figure.events for figure in figures),
        set_aside=sum(figure.set_aside for figure in figures),
        allowed_events=sum(figure.allowed_events for figure in figures),
        denied_events=sum(figure.denied_events for figure in figures),
        reasons=by_frequency(reasons),
        tuples=tuples,
        first_at=min(first, default=None),
        last_at=max(last, default=None),
        time_zone=", ".join(dict.fromkeys(figure.time_zone for figure in figures)),
        inputs=tuple(dict.fromkeys(text for figure in figures for text in figure.inputs)),
        levels=by_frequency(levels),
    )


def by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts, highest first, and equal ones by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def summary_line(ingested: Ingested) -> str:
    """Return the line that the console shows after an ingest."""
    return (
        f"{format_count(ingested.events, 'event')} ({ingested.allowed_events:,} allowed, "
        f"{ingested.denied_events:,} denied) and {format_count(ingested.tuples, 'tuple')} of "
        f"{format_count(ingested.lines, 'line')}; "
        f"{_set_aside(ingested)}{_name_damage(ingested)}"
    )


def added_line(ingested: Ingested) -> str:
    """Return the line that the console shows about the run that an ingest added."""
    events, lines = format_count(ingested.events, "event"), format_count(ingested.lines, "line")
    return f"added {events} of {lines}; {_set_aside(ingested)}"


def why_not_accepted(ingested: Ingested, bad_ratio_max: float) -> str:
    """Return why an ingest is not accepted."""
    lines = format_count(ingested.lines, "line")
    if lacks_field(ingested):
        flag = NO_LINE_FIELD.format(flag="--line-field")
        return f"not accepted: {flag}: {_set_aside(ingested)} of {lines}"
    return (
        f"not accepted: {_set_aside(ingested)} of {lines}, more than "
        f"--max-bad-ratio {bad_ratio_max:g} allows"
    )


def _set_aside(ingested: Ingested) -> str:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in ingested.reasons.items())
    aside = f"{ingested.set_aside:,} set aside" + (f" ({reasons})" if reasons else "")
    count = format_count(ingested.explanations, "explanation")
    return f"{aside}, {count} left out" if ingested.explanations else aside


def _name_damage(ingested: Ingested) -> str:
    count = format_count(len(ingested.damaged), "archive")
    return f"; {count} damaged, so events are missing" if ingested.damaged else ""


_decoder: Final = msgspec.json.Decoder(Ingested)


def decode_ingested(text: str) -> Ingested:
    """Return the figures in ``text``, the content of an ``ingest.json``.

    Raises:
        msgspec.DecodeError: the text is not an ``ingest.json``, or its figures do not add up.
    """
    return _decoder.decode(text)
