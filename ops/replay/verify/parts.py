"""Count and judge recorded decisions in parts, as the tasks of a Spark job do.

**Invariant:** the results are those of one process, however lines are split into blocks, and
requests into parts. Memory is bounded: a task keeps ``KEYS_MAX`` tallies and the lines of one
batch, or ``CASES_MAX`` cases and those of one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.local.tallies import Counted, Part, Summand, Tallies, Tally
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.recorded.rows import KEYS_MAX
from authorizerd.replay.verify.causes import Delay, find_differences
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.sums import Sums, merge_sums, sum_cases

CASES_MAX: Final = 100_000
RESULT: Final = "verify.json"
"""The file of ``JudgedParts`` in JSON."""

_BLANK: Final = ""
_NO_EVENT: Final = (None,) * len(Summand._fields)


class Lines(NamedTuple):
    """Some lines of a block, a part of a file; ``before`` is the number of those before them.

    ``lines`` is None at the damage of an archive.
    """

    file: str
    block: int
    before: int
    lines: list[bytes] | None


class CountedPart(NamedTuple):
    """A tally, or a part of one; ``line`` is the number of the first line in the block.

    ``reason`` is None for an event, whose fields are those of ``Summand``. It is empty for blank
    lines. Lines without an event have no times, and no values for its fields.
    """

    reason: str | None
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed: bool
    rule: str | None
    level: str
    file: str
    place: int
    lines: int
    first_ms: int
    last_ms: int
    block: int
    line: int


class Figures(NamedTuple):
    """The lines of a file with one reason, or the events with one level and answer."""

    file: str
    block: int
    reason: str | None
    level: str | None
    allowed: bool | None
    lines: int
    first_ms: int | None
    last_ms: int | None


class JudgedParts(msgspec.Struct, frozen=True):
    """The result of a job; ``tuples`` is the number of distinct requests."""

    figures: list[Figures]
    tuples: int
    sums: Sums

    def list_tallies(self) -> Iterator[tuple[Counted, Tally]]:
        """Yield what ``sum_lines`` needs of the tallies."""
        for each in self.figures:
            if each.reason is not None:
                yield Reason(each.reason) if each.reason else None, Tally(each.lines)
                continue
            assert each.first_ms is not None, "an event has a time"
            assert each.last_ms is not None, "an event has a time"
            counted = Summand._make(("", None, "", "", "", "", each.allowed, None, each.level))
            yield counted, Tally(each.lines, each.first_ms, each.last_ms)

    @property
    def damaged(self) -> list[str]:
        """The archives that cannot be read to their ends."""
        return sorted(each.file for each in self.figures if each.reason == Reason.BROKEN_ARCHIVE)


def count_lines(
    lines: Iterable[Lines], judge: Judge, layout: LineLayout
) -> Iterator[list[CountedPart]]:
    """Yield the tallies of lines, of which those of a block follow each other in order."""
    zone = find_zone(layout.time_zone)

    def begin() -> Tallies:
        return Tallies(zone, layout.format, layout.field, find_breaks=judge.find_breaks)

    for (file, block), some in groupby(lines, key=lambda each: each[:2]):
        tallies = begin()
        for each in some:
            if tallies.size >= KEYS_MAX or tallies.are_half_full:
                yield list(_list_parts(tallies, file, block))
                tallies = begin()
            tallies.begin_file(file, each.before)
            if each.lines is None:
                tallies.set_aside(Reason.BROKEN_ARCHIVE)
            else:
                tallies.add(each.lines)
        yield list(_list_parts(tallies, file, block))


def _list_parts(tallies: Tallies, file: str, block: int) -> Iterator[CountedPart]:
    for counted, tally in tallies:
        if isinstance(counted, Summand):
            assert isinstance(tally, Part), "tallies of events are split"
            figures = tally.lines, tally.first_ms, tally.last_ms
            yield CountedPart(None, *counted, file, tally.place, *figures, block, tally.line)
        else:
            reason = counted.value if counted else _BLANK
            none = None, None
            yield CountedPart._make((reason, *_NO_EVENT, file, 0, tally.lines, *none, block, 0))


def find_begins(figures: Iterable[Figures]) -> dict[tuple[str, int], int]:
    """Return how many lines a file has before each of its blocks."""
    sizes: dict[tuple[str, int], int] = {}
    for each in figures:
        sizes[each.file, each.block] = sizes.get((each.file, each.block), 0) + each.lines
    begins: dict[tuple[str, int], int] = {}
    file, before = "", 0
    for place in sorted(sizes):
        file, before = place[0], before if place[0] == file else 0
        begins[place] = before
        before += sizes[place]
    return begins


def judge_parts(
    rows: Iterable[CountedPart],
    judge: Judge,
    begins: Mapping[tuple[str, int], int],
    clocks: Mapping[str, int],
) -> Iterator[Delay | Sums]:
    """Yield the delays that ``find_clocks`` needs, and at last the sums.

    Args:
        rows: events; those of a request follow each other.
        begins: how many lines a file has before each of its blocks.
        clocks: what ``find_clocks`` returned for the delays of all parts, or nothing yet.
    """
    sums = Sums()
    delays: list[Delay] = []

    def find(found: list[Delay]) -> Mapping[str, int]:
        delays.extend(found)
        return clocks

    for counted in _split(rows, begins):
        cases = judge.judge(counted)
        differences = find_differences(judge, cases, find)
        sums = merge_sums((sums, sum_cases(judge, cases, differences)))
        yield from delays
        delays.clear()
    yield sums


def _split(
    rows: Iterable[CountedPart], begins: Mapping[tuple[str, int], int]
) -> Iterator[list[tuple[Summand, Part]]]:
    """Yield some cases at a time, all of a request together."""
    counted: list[tuple[Summand, Part]] = []
    for _, of_request in groupby(rows, key=lambda row: row[1:7]):
        if len(counted) >= CASES_MAX:
            yield counted
            counted = []
        for row in of_request:
            line = row.line + begins.get((row.file, row.block), 0)
            part = Part(row.lines, row.first_ms, row.last_ms, file=row.file, line=line)
            counted.append((Summand._make(row[1:10]), part))
    yield counted
