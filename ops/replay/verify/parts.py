"""Count and judge recorded decisions in parts, as the tasks of a Spark job do.

**Invariant:** the results are those of one process, however lines are split into blocks, and
requests into buckets. Memory is bounded: a task keeps ``KEYS_MAX`` tallies and the lines of one
batch, or ``CASES_MAX`` cases and those of one of ``BUCKETS``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote
from zlib import crc32

import msgspec

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.replay.local.tallies import Counted, Part, Summand, Tallies, Tally
from authorizerd.replay.plans import LineLayout
from authorizerd.replay.recorded.rows import KEYS_MAX
from authorizerd.replay.verify.causes import Delay, find_clocks
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.sums import Sums, judge_counted, merge_sums

BUCKETS: Final = 4_096
CASES_MAX: Final = 100_000
FIGURES: Final = -1
"""The bucket of ``Figures``."""
RESULT: Final = "verify.json"
"""The file of ``JudgedParts`` in JSON."""

_Event: TypeAlias = tuple[Summand, int, int, int, int, int]
"""A summand, and of its part: ``place``, ``lines``, ``first_ms``, ``last_ms`` and ``line``."""
_FILE: Final = re.compile(r"(?s)file:(?://)?(/.*)")


class LineRow(NamedTuple):
    """A line of a block of a file: the next one, or a record with its offset as the number.

    ``line`` is None at the damage of an archive.
    """

    line: bytes | None
    file: str
    block: int
    number: int | None


class Packed(NamedTuple):
    """The events in a block whose requests are in one bucket, or the figures of its lines."""

    bucket: int
    data: bytes


class Figures(NamedTuple):
    """The lines of a block with one reason, or its events with one level and answer.

    ``reason`` is None for events, and empty for blank lines; lines without events have no times.
    """

    file: str
    block: int
    reason: str | None
    level: str
    allowed: bool
    lines: int
    first_ms: int
    last_ms: int


class JudgedRow(NamedTuple):
    """A ``Delay``, or ``Sums`` in JSON."""

    log: str | None = None
    change: int | None = None
    least: float | None = None
    greatest: float | None = None
    sums: bytes | None = None


class Clock(NamedTuple):
    """An item of what ``find_clocks`` returns."""

    log: str
    delay: int


class JudgedParts(msgspec.Struct, frozen=True):
    """The result of a job."""

    figures: list[Figures]
    sums: Sums

    def list_tallies(self) -> Iterator[tuple[Counted, Tally]]:
        """Yield what ``sum_lines`` needs of the tallies."""
        for each in self.figures:
            counted: Counted = Reason(each.reason) if each.reason else None
            if each.reason is None:
                counted = Summand("", None, "", "", "", "", each.allowed, None, each.level)
            yield counted, Tally(each.lines, each.first_ms, each.last_ms)

    @property
    def damaged(self) -> list[str]:
        """The archives that cannot be read to their ends."""
        return [each.file for each in self.figures if each.reason == Reason.BROKEN_ARCHIVE]


_events: Final = msgspec.msgpack.Decoder(tuple[str, int, list[_Event]])
_figures: Final = msgspec.msgpack.Decoder(list[Figures])


def count_lines(rows: Iterable[LineRow], judge: Judge, layout: LineLayout) -> Iterator[Packed]:
    """Yield what was counted in lines, of which those of a block follow each other in order."""

    def begin(file: str) -> Tallies:
        tallies = Tallies.of(layout, judge.find_breaks)
        tallies.begin_file(file)
        return tallies

    for (uri, block), some in groupby(rows, itemgetter(1, 2)):
        file = _name_file(uri)
        tallies = begin(file)
        for number, row in enumerate(some, 1):
            if tallies.size >= KEYS_MAX or tallies.are_half_full:
                yield from _pack(tallies, file, block)
                tallies = begin(file)
            if row.line is None:
                tallies.set_aside(Reason.BROKEN_ARCHIVE)
            else:
                place = number if row.number is None else row.number
                tallies.add_numbered([(place, row.line)])
        yield from _pack(tallies, file, block)


def _name_file(uri: str) -> str:
    """Return the path of a file on this machine, or the URI."""
    found = _FILE.fullmatch(uri)
    return uri if found is None else unquote(found[1])


def _pack(tallies: Tallies, file: str, block: int) -> Iterator[Packed]:
    events: defaultdict[int, list[_Event]] = defaultdict(list)
    figures: defaultdict[tuple[str | None, str, bool], Tally] = defaultdict(Tally)
    for counted, tally in tallies:
        if isinstance(counted, Summand):
            assert isinstance(tally, Part), "tallies of events are split"
            bucket = crc32(repr(counted[:6]).encode()) % BUCKETS
            times = tally.first_ms, tally.last_ms
            events[bucket].append((counted, tally.place, tally.lines, *times, tally.line))
            total = figures[None, counted.level, counted.allowed]
        else:
            total = figures["" if counted is None else counted.value, "", False]
        total.add(tally)
    found = [
        Figures(file, block, *key, total.lines, total.first_ms, total.last_ms)
        for key, total in figures.items()
    ]
    yield Packed(FIGURES, msgspec.msgpack.encode(found))
    for bucket, some in events.items():
        yield Packed(bucket, msgspec.msgpack.encode((file, block, some)))


def unpack_figures(rows: Iterable[Packed]) -> list[Figures]:
    """Return the figures of all blocks."""
    return [each for row in rows for each in _figures.decode(row.data)]


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
    rows: Iterable[Packed],
    judge: Judge,
    begins: Mapping[tuple[str, int], int],
    clocks: Mapping[str, int],
) -> Iterator[JudgedRow]:
    """Yield the delays that ``find_clocks`` needs, and at last the sums.

    Args:
        rows: events; those of a bucket follow each other.
        begins: how many lines a file has before each of its blocks.
        clocks: what ``find_clocks`` returned for the delays of all parts, or nothing yet.
    """
    sums = Sums()
    delays: list[Delay] = []

    def find(found: list[Delay]) -> Mapping[str, int]:
        delays.extend(found)
        return clocks

    for counted in _unpack(rows, begins):
        sums = merge_sums((sums, judge_counted(judge, counted, find)))
        yield from (JudgedRow(*each) for each in delays)
        delays.clear()
    yield JudgedRow(sums=msgspec.json.encode(sums))


def _unpack(
    rows: Iterable[Packed], begins: Mapping[tuple[str, int], int]
) -> Iterator[list[tuple[Summand, Part]]]:
    """Yield the parts of some buckets at a time, each summed up over the blocks of its file."""
    merged: dict[tuple[Summand, str, int], Part] = {}
    for _, of_bucket in groupby(rows, itemgetter(0)):
        if len(merged) >= CASES_MAX:
            yield [(summand, part) for (summand, _, _), part in merged.items()]
            merged = {}
        for row in of_bucket:
            file, block, events = _events.decode(row.data)
            begin = begins.get((file, block), 0)
            for summand, place, lines, first_ms, last_ms, line in events:
                part = Part(lines, first_ms, last_ms, file=file, line=begin + line)
                before = merged.setdefault((summand, file, place), part)
                if before is not part:
                    before.add(part)
                    before.line = min(before.line, part.line)
    yield [(summand, part) for (summand, _, _), part in merged.items()]


def find_clock_rows(delays: Iterable[Delay]) -> Iterator[Clock]:
    """Yield the clocks of some logs, each with all of its delays."""
    return map(Clock._make, find_clocks(delays).items())


def merge_rows(rows: Iterable[JudgedRow]) -> Iterator[JudgedRow]:
    """Yield the sums of all rows, which have sums."""
    yield JudgedRow(sums=msgspec.json.encode(merge_sums(map(unpack_sums, rows))))


def unpack_sums(row: JudgedRow) -> Sums:
    """Return the sums of a row."""
    return msgspec.json.decode(row.sums or b"", type=Sums)
