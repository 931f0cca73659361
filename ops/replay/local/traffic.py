"""Recorded traffic: the distinct tuples of audit logs, and the figures of reading them.

**Invariant:** tuples and figures are those that ``replay ingest`` writes for the same files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.files import LogFile, LogReader, find_files
from authorizerd.replay.local.tallies import Summand, Tallies, Tally
from authorizerd.replay.recorded.tuples import Figures, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time

BAD_RATIO_MAX: Final = 0.01


class Traffic(msgspec.Struct, frozen=True):
    """The traffic that was read: the figures of an ingest, the tuples, and the files.

    ``damaged`` are the paths of archives that could not be read to their ends. ``is_sampled`` is
    True if lines say that only a sample of the decisions was logged.
    """

    ingested: Ingested
    tuples: Sequence[RecordedTuple]
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
        tuples = merge_tuples(
            (
                counted[:6],
                counted.allowed,
                Figures(tally.lines, tally.first_ms, tally.last_ms, counted.rule),
            )
            for counted, tally in tallies
            if isinstance(counted, Summand) and tally.lines
        )
    ingested = sum_lines(
        tallies,
        tuples=len(tuples),
        inputs=tuple(paths),
        time_zone=time_zone,
        bad_ratio_max=bad_ratio_max,
    )
    return Traffic(ingested, tuples, tuple(files), tuple(damaged), tallies.is_sampled)


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
