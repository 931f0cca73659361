"""Recorded traffic: the distinct tuples of audit logs, and the figures of reading them.

**Invariant:** tuples and figures are those that ``replay ingest`` writes for the same files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.model import Question
from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.asking import question_of
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.files import LogFile, LogReader, find_files
from authorizerd.replay.local.tallies import Summand, Tallies, Tally
from authorizerd.replay.text import format_time

BAD_RATIO_MAX: Final = 0.01


class Figures(NamedTuple):
    """The events of a tuple with one answer.

    Times are in milliseconds since 1970. The rule is that of the last event; of several that are
    equally late, it is the last one in text order.
    """

    events: int
    first_ms: int
    last_ms: int
    rule: str | None


class TrafficTuple(NamedTuple):
    """A distinct request, and the figures of its allowed and its denied events."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed: Figures | None
    denied: Figures | None

    @property
    def all_events(self) -> Figures:
        """Return the figures of all events; the rule is only that of the allowed ones."""
        if self.allowed is None or self.denied is None:
            some = self.allowed or self.denied
            assert some is not None, "a tuple has events"
            return some
        return Figures(
            self.allowed.events + self.denied.events,
            min(self.allowed.first_ms, self.denied.first_ms),
            max(self.allowed.last_ms, self.denied.last_ms),
            self.allowed.rule,
        )

    @property
    def question(self) -> Question:
        """Return the question for ACLs, which must be able to decide the tuple."""
        return question_of(
            self.principal, self.host, self.operation, self.resource_type, self.resource_name
        )


class Traffic(msgspec.Struct, frozen=True):
    """The traffic that was read: the figures of an ingest, the tuples, and the files.

    ``damaged`` are the paths of archives that could not be read to their ends. ``is_sampled`` is
    True if lines say that only a sample of the decisions was logged.
    """

    ingested: Ingested
    tuples: Sequence[TrafficTuple]
    files: tuple[LogFile, ...]
    damaged: tuple[str, ...]
    is_sampled: bool


def read_traffic(
    paths: Sequence[str],
    *,
    line_format: LineFormat = "auto",
    time_zone: str = "UTC",
    bad_ratio_max: float = BAD_RATIO_MAX,
    since_ms: int = -sys.maxsize,
) -> Traffic:
    """Return the traffic in files, and in all files below directories. Blocks.

    Args:
        time_zone: of times that name none, as ``find_zone``.
        since_ms: do not count earlier events, in milliseconds since 1970.
        bad_ratio_max: the greatest share of lines set aside with which the traffic is accepted.

    Raises:
        TrafficError: a file cannot be read, there is too much traffic for one process, or
            ``time_zone`` is not a time zone.
    """
    try:
        tallies = Tallies(find_zone(time_zone), line_format, since_ms=since_ms)
    except ValueError as error:
        raise TrafficError(str(error)) from error
    files: list[LogFile] = []
    damaged: list[str] = []
    with collector_off():
        for path in find_files(paths):
            reader = LogReader(path)
            for lines, fault in reader.lines():
                if fault is None:
                    tallies.add(lines)
                else:
                    tallies.set_aside(fault)
                    damaged.append(str(path))
            files.append(reader.file)
        tuples = merge_tuples(tallies)
    ingested = sum_lines(
        tallies,
        tuples=len(tuples),
        inputs=tuple(paths),
        time_zone=time_zone,
        bad_ratio_max=bad_ratio_max,
    )
    return Traffic(ingested, tuples, tuple(files), tuple(damaged), tallies.is_sampled)


def merge_tuples(tallies: Iterable[tuple[object, Tally]]) -> tuple[TrafficTuple, ...]:
    """Return the distinct tuples, in the order in which they first occurred."""
    found: dict[tuple[str | None, ...], list[Figures | None]] = {}
    for counted, tally in tallies:
        if isinstance(counted, Summand) and tally.lines:
            both = found.setdefault(counted[:6], [None, None])
            figures = Figures(tally.lines, tally.first_ms, tally.last_ms, counted.rule)
            place = 0 if counted.allowed else 1
            both[place] = _sum(both[place], figures)
    return tuple(TrafficTuple(*key, *both) for key, both in found.items())  # type: ignore[arg-type] # the fields of a Summand, in order


def _sum(one: Figures | None, other: Figures) -> Figures:
    if one is None:
        return other
    last = max(one, other, key=lambda each: (each.last_ms, each.rule is not None, each.rule or ""))
    return Figures(
        one.events + other.events,
        min(one.first_ms, other.first_ms),
        last.last_ms,
        last.rule,
    )


def sum_lines(
    tallies: Iterable[tuple[object, Tally]],
    *,
    tuples: int,
    inputs: tuple[str, ...],
    time_zone: str,
    bad_ratio_max: float,
) -> Ingested:
    """Return the figures of all lines, as ``ingest.json`` has them."""
    lines, blank_lines, verdicts = 0, 0, Counter[bool]()
    reasons, levels = Counter[str](), Counter[str]()
    first_ms: list[int] = []
    last_ms: list[int] = []
    for counted, tally in tallies:
        lines += tally.lines
        if not tally.lines:
            continue
        if isinstance(counted, Summand):
            verdicts[counted.allowed] += tally.lines
            levels[counted.level] += tally.lines
            first_ms[:] = [min(tally.first_ms, *first_ms)] if first_ms else [tally.first_ms]
            last_ms[:] = [max(tally.last_ms, *last_ms)] if last_ms else [tally.last_ms]
        elif isinstance(counted, Reason):
            reasons[counted.value] += tally.lines
        else:
            blank_lines += tally.lines
    set_aside = reasons.total()
    return Ingested(
        accepted=set_aside <= bad_ratio_max * lines,
        lines=lines,
        blank_lines=blank_lines,
        events=verdicts.total(),
        set_aside=set_aside,
        reasons=_by_frequency(reasons),
        allowed_events=verdicts[True],
        denied_events=verdicts[False],
        tuples=tuples,
        first_at=format_time(first_ms[0]) if first_ms else None,
        last_at=format_time(last_ms[0]) if last_ms else None,
        time_zone=time_zone,
        inputs=inputs,
        levels=_by_frequency(levels),
    )


def _by_frequency(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
