"""The content of ``ingest.json``: the figures of one ingest.

**Invariant:** ``lines == blank_lines + events + set_aside``, so every line is accounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one ingest.

    ``accepted`` is False if more than ``bad_ratio_max`` of the lines were set aside: later jobs
    reject such events. Times are ISO 8601 in UTC, or None without events.
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

    def __post_init__(self) -> None:
        """Check the invariant.

        Raises:
            ValueError: the counts of lines or events do not add up.
        """
        if self.lines != self.blank_lines + self.events + self.set_aside:
            raise ValueError(
                f"{self.lines} lines were read, but {self.blank_lines} blank lines, {self.events} "
                f"events and {self.set_aside} lines set aside were counted"
            )
        if self.events != self.allowed_events + self.denied_events:
            raise ValueError("the counts of allowed and denied events do not add up to all events")


def add_up(figures: Sequence[Ingested], tuples: int) -> Ingested:
    """Return the totals of several ingests, which have ``tuples`` distinct tuples together."""
    first = [each.first_at for each in figures if each.first_at is not None]
    last = [each.last_at for each in figures if each.last_at is not None]
    reasons, levels = Counter[str](), Counter[str]()
    for each in figures:
        reasons.update(each.reasons)
        levels.update(each.levels)
    return Ingested(
        accepted=all(each.accepted for each in figures),
        lines=sum(each.lines for each in figures),
        blank_lines=sum(each.blank_lines for each in figures),
        events=sum(each.events for each in figures),
        set_aside=sum(each.set_aside for each in figures),
        reasons=by_frequency(reasons),
        allowed_events=sum(each.allowed_events for each in figures),
        denied_events=sum(each.denied_events for each in figures),
        tuples=tuples,
        first_at=min(first, default=None),
        last_at=max(last, default=None),
        time_zone=", ".join(dict.fromkeys(each.time_zone for each in figures)),
        inputs=tuple(dict.fromkeys(text for each in figures for text in each.inputs)),
        levels=by_frequency(levels),
    )


def by_frequency(counts: Counter[str]) -> dict[str, int]:
    """Return the counts, highest first, and equal ones in the order of their names."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def summary_line(ingested: Ingested) -> str:
    """Return the line that the console shows after an ingest."""
    return (
        f"{ingested.events} events ({ingested.allowed_events} allowed, {ingested.denied_events} "
        f"denied) and {ingested.tuples} tuples of {ingested.lines} lines; "
        f"{_set_aside(ingested)}"
    )


def added_line(ingested: Ingested) -> str:
    """Return the line that the console shows about the run that an ingest added."""
    return f"added {ingested.events} events of {ingested.lines} lines; {_set_aside(ingested)}"


def why_not_accepted(ingested: Ingested, bad_ratio_max: float) -> str:
    """Return why an ingest is not accepted."""
    return (
        f"not accepted: {_set_aside(ingested)} of {ingested.lines} lines, more than "
        f"--max-bad-ratio {bad_ratio_max:g} allows"
    )


def _set_aside(ingested: Ingested) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in ingested.reasons.items())
    return f"{ingested.set_aside} set aside" + (f" ({reasons})" if reasons else "")


_decoder: Final = msgspec.json.Decoder(Ingested)


def decode_ingested(text: str) -> Ingested:
    """Return the figures in ``text``, the content of an ``ingest.json``.

    Raises:
        msgspec.DecodeError: the text is not an ``ingest.json``, or its figures do not add up.
    """
    return _decoder.decode(text)
