"""Recorded traffic: the distinct tuples of audit logs, and the figures of reading them.

**Invariant:** tuples and figures are those that ``replay ingest`` writes for the same files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from authorizerd.acl.plan.traffic import TrafficFile
from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.ingest.report import Ingested, by_frequency
from authorizerd.replay.judging.index import collector_off
from authorizerd.replay.local.copies import find_copies
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.files import LogReader, find_logs
from authorizerd.replay.local.tallies import Summand, Tallies, Tally
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time

BAD_RATIO_MAX: Final = 0.01


class Traffic(msgspec.Struct, frozen=True):
    """The traffic that was read: the figures of an ingest, the tuples, and the files.

    ``left_out`` describes the files that were not read, since others have their lines. ``damaged``
    are the paths of archives that could not be read to their ends. ``is_sampled`` is True if lines
    say that only a sample of the decisions was logged.
    """

    ingested: Ingested
    tuples: Sequence[RecordedTuple]
    files: tuple[TrafficFile, ...]
    left_out: tuple[str, ...]
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
    """Return the traffic in the files that ``find_logs`` finds. Blocks.

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
    files: list[TrafficFile] = []
    damaged: list[str] = []
    found = find_logs(paths)
    copies = find_copies(found)
    with collector_off():
        for path in (path for path in found if path not in copies):
            reader = LogReader(path)
            for lines, fault in reader.lines():
                if fault is None:
                    tallies.add(lines)
                else:
                    tallies.set_aside(fault)
                    damaged.append(str(path))
            files.append(reader.file)
        tuples = merge_tuples(
            Part(*counted[:8], tally.lines, tally.first_ms, tally.last_ms)
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
    left_out = tuple(f"left out {path}: {other} has its lines" for path, other in copies.items())
    return Traffic(ingested, tuples, tuple(files), left_out, tuple(damaged), tallies.is_sampled)


def sum_lines(
    tallies: Iterable[tuple[object, Tally]],
    *,
    tuples: int,
    inputs: tuple[str, ...],
    time_zone: str,
    bad_ratio_max: float,
) -> Ingested:
    """Return the figures of all lines, as ``ingest.json`` has them."""
    counts = [(counted, tally) for counted, tally in tallies if tally.lines]
    lines, reasons, levels = Counter[str](), Counter[str](), Counter[str]()
    for counted, tally in counts:
        if isinstance(counted, Summand):
            lines["allowed" if counted.allowed else "denied"] += tally.lines
            levels[counted.level] += tally.lines
        elif isinstance(counted, Reason):
            reasons[counted.value] += tally.lines
        else:
            lines["blank"] += tally.lines
    events = [tally for counted, tally in counts if isinstance(counted, Summand)]
    set_aside = reasons.total()
    return Ingested(
        accepted=set_aside <= bad_ratio_max * (lines.total() + set_aside),
        lines=lines.total() + set_aside,
        blank_lines=lines["blank"],
        events=lines["allowed"] + lines["denied"],
        set_aside=set_aside,
        reasons=by_frequency(reasons),
        allowed_events=lines["allowed"],
        denied_events=lines["denied"],
        tuples=tuples,
        first_at=format_time(min(each.first_ms for each in events)) if events else None,
        last_at=format_time(max(each.last_ms for each in events)) if events else None,
        time_zone=time_zone,
        inputs=inputs,
        levels=by_frequency(levels),
    )
