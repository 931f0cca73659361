"""Sum up the events of audit logs by tuple, answer and rule, line by line; if asked, also by time.

**Invariant:** every line is counted as blank, as an event, or under the reason why it was set
aside, and its event is what ``parse_line`` reads from it. Lines that differ only in a plain
beginning are parsed once. Memory is bounded by ``TALLIES_MAX`` and ``TEXT_BYTES_MAX``.

Why not parse each line? A log repeats the same few requests: looking up the text after the time
takes 1 µs, parsing it 15 µs.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

import msgspec

from authorizerd.acl.audit.recorded.event import Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.errors import NeedsSparkError
from authorizerd.replay.ingest.parse.beginnings import (
    CONTAINER,
    JSON_HEAD,
    NOT_JSON_REST,
    ONE_JSON_TIME,
    ONE_TIME,
    REST,
    SECOND,
    parse_second,
)
from authorizerd.replay.plans import LineLayout

V = TypeVar("V")

TALLIES_MAX: Final = 2_000_000
TEXT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Maximum total of one line's bytes per tally; names and rules may be long."""
TAILS_MAX: Final = 200_000
SECONDS_MAX: Final = 100_000
KEPT_BYTES_MAX: Final = 1024
"""Longer lines are parsed every time, so that memory for tails is bounded."""

_match_container: Final = re.compile(CONTAINER.encode()).match
_match_head: Final = re.compile(f"{SECOND}|{JSON_HEAD}".encode()).fullmatch
"""The beginning of a line up to its second."""
_PLAIN: Final = re.compile(rf"\]? (?={REST})".encode())
"""The beginning of a plain line after its milliseconds."""
_JSON: Final = re.compile(rf'(?s)Z(?="(?!.*(?:{NOT_JSON_REST})))'.encode())
"""That of a JSON line, unless its rest may say something else."""
_MILLISECONDS: Final = {b"%03d" % number: number for number in range(1000)}


class Summand(NamedTuple):
    """The key of a tally: the events of one tuple with one answer, rule and level."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    allowed: bool
    rule: str | None
    level: str


class Tally(msgspec.Struct, gc=False):
    """A number of lines, and the first and last of their times, in milliseconds since 1970.

    With ``breaks``, the lines are in ``parts`` instead: by file, and by the number of breaks up to
    their time.
    """

    lines: int = 0
    first_ms: int = sys.maxsize
    last_ms: int = -sys.maxsize
    breaks: Sequence[int] | None = None
    parts: dict[tuple[str, int], Part] = {}

    def add(self, other: Tally) -> None:
        """Add the lines of another tally."""
        self.lines += other.lines
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)


class Part(Tally):
    """The lines of a tally in one file and between two breaks.

    Attributes:
        line: the number of the first one, which counts from 1.
        place: the number of breaks before it.
    """

    file: str = ""
    line: int = 0
    place: int = 0


_get_summand: Final = attrgetter(*Summand._fields)

Counted: TypeAlias = Summand | Reason | None
"""The result of a line: an event, a reason why it was set aside, or nothing if it is blank."""


FindBreaks: TypeAlias = Callable[[Summand], Sequence[int]]


class _Memory(dict[bytes, V | None], Generic[V]):
    """A cache of what ``find`` returns for each key, except None.

    A full cache is emptied: what repeats soon comes back. ``lru_cache`` would take longer for a key
    than all other steps of a line together.
    """

    def __init__(self, find: Callable[[bytes], V | None], size_max: int) -> None:
        super().__init__()
        self._find = find
        self._size_max = size_max

    def __missing__(self, key: bytes) -> V | None:
        found = self._find(key)
        if found is not None:
            if len(self) >= self._size_max:
                self.clear()
            self[key] = found
        return found


class Tallies:
    """Adds up lines; ``zone``, ``line_format`` and ``field`` are those of ``parse_line``.

    Events before ``since_ms`` are not counted; a tally may then have no lines.

    ``find_breaks`` returns the times, in order, at which the tally of a key is split.

    ``newest`` is the time of the newest event of each file that has one, even before ``since_ms``.
    """

    def __init__(
        self,
        zone: tzinfo,
        line_format: LineFormat = "auto",
        field: str | None = None,
        since_ms: int = -sys.maxsize,
        find_breaks: FindBreaks | None = None,
    ) -> None:
        self._since_ms = since_ms
        self._find_breaks = find_breaks
        self._file, self._number, self._parts = "", 0, 0
        self._zone = zone
        self._field = field
        self._line_format: LineFormat = line_format
        self._text_bytes_left = TEXT_BYTES_MAX
        self._tallies: dict[Counted, Tally] = {}
        self._values: dict[Any, Any] = {}
        self._heads = _Memory(self._parse_head, SECONDS_MAX)
        self._plain = _Memory(partial(self._parse_tail, _PLAIN, ONE_TIME), TAILS_MAX)
        self._json = _Memory(partial(self._parse_tail, _JSON, ONE_JSON_TIME + b"Z"), TAILS_MAX)
        self.newest: dict[str, int] = {}

    @classmethod
    def of(
        cls,
        layout: LineLayout,
        find_breaks: FindBreaks | None = None,
        since_ms: int = -sys.maxsize,
    ) -> Self:
        """Return empty tallies for lines of a layout.

        Raises:
            ValueError: its time zone does not exist.
        """
        zone = find_zone(layout.time_zone)
        return cls(zone, layout.format, layout.field, since_ms, find_breaks)

    def __iter__(self) -> Iterator[tuple[Counted, Tally]]:
        """Yield each result once with its tally, or with each of its parts."""
        for counted, tally in self._tallies.items():
            if tally.breaks is None:
                yield counted, tally
            else:
                yield from ((counted, part) for part in tally.parts.values())

    def begin_file(self, name: str) -> None:
        """Note that the next line is the first one of a file."""
        self._file, self._number = name, 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Add the next lines of a log.

        Raises:
            NeedsSparkError: there are too many distinct requests to keep.
        """
        self.add_numbered(enumerate(lines, self._number + 1))

    def add_numbered(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Add lines with their numbers, as ``add``."""
        number, newest = self._number, -sys.maxsize
        for number, line in lines:
            # A container's timestamp differs in each line, so caching would not help.
            container = _match_container(line) if line[:1] == b"2" else None
            own = line if container is None else line[container.end() :]
            head, _, rest = own.partition(b"." if own[:1] == b"{" else b",")
            found, ms = self._heads[head], _MILLISECONDS.get(rest[:3])
            tally = None if found is None or ms is None else found[1][rest[3:]]
            if found is None or ms is None or tally is None:
                self._add_parsed(line, number)
                continue
            at_ms = found[0] + ms
            if at_ms > newest:
                newest = at_ms
            if at_ms < self._since_ms:
                continue
            if tally.breaks is not None:
                tally = self._part_of(tally, at_ms, number)
            # Not a method of the tally: the call would take as long as all the other steps.
            tally.lines += 1
            if at_ms > tally.last_ms:
                tally.last_ms = at_ms
            if at_ms < tally.first_ms:
                tally.first_ms = at_ms
        self._number = number
        self._note_newest(newest)

    def find_time(self, line: bytes) -> int | None:
        """Return the time of a line's event, None if it has none. The line is not counted.

        A line that only begins like an event may have a time, too.
        """
        head, _, rest = line.partition(b",")
        found, ms = self._heads[head], _MILLISECONDS.get(rest[:3])
        if found is not None and ms is not None and _PLAIN.match(rest, 3):
            return found[0] + ms
        parsed = self._parse(line)
        return parsed.at_ms if isinstance(parsed, Event) else None

    def set_aside(self, reason: Reason) -> None:
        """Count one line that is set aside unread."""
        self._tally_of(reason, 0).lines += 1

    def _add_parsed(self, line: bytes, number: int) -> None:
        parsed = self._parse(line)
        if isinstance(parsed, Event):
            self._note_newest(parsed.at_ms)
            if parsed.at_ms < self._since_ms:
                return
        tally = self._tally_of(parsed, len(line))
        if isinstance(parsed, Event) and tally.breaks is not None:
            tally = self._part_of(tally, parsed.at_ms, number)
        tally.lines += 1
        if isinstance(parsed, Event):
            tally.last_ms = max(tally.last_ms, parsed.at_ms)
            tally.first_ms = min(tally.first_ms, parsed.at_ms)

    def _note_newest(self, at_ms: int) -> None:
        if at_ms > self.newest.get(self._file, -sys.maxsize):
            self.newest[self._file] = at_ms

    def _parse_head(self, head: bytes) -> tuple[int, _Memory[Tally]] | None:
        """Return the start of the head's second, and the tallies for lines of this kind."""
        found = _match_head(head)
        # With a named field, any JSON line may hold a line that has its own time.
        if found is None or (found["utc"] and self._field is not None):
            return None
        utc = found["utc"]
        begin_ms = parse_second(utc or found["second"], UTC if utc else self._zone)
        return None if begin_ms is None else (begin_ms, self._json if utc else self._plain)

    def _parse_tail(
        self, beginning: re.Pattern[bytes], one_time: bytes, tail: bytes
    ) -> Tally | None:
        """Parse a line with ``tail`` after its milliseconds, and return its tally.

        Return None if it has another ``beginning``, or is long.
        """
        found = beginning.match(tail)
        if found is None or len(tail) > KEPT_BYTES_MAX:
            return None
        rest = tail[found.end() :]
        return self._tally_of(self._parse(one_time + rest), len(rest))

    def _parse(self, line: bytes) -> Event | Reason | None:
        return parse_line(line, self._zone, self._line_format, self._field)

    def _tally_of(self, parsed: Event | Reason | None, size: int) -> Tally:
        """Return the tally of a line with ``size`` bytes."""
        key: Counted
        if isinstance(parsed, Event):
            share = self._values.setdefault  # equal texts share one object
            key = Summand._make(share(value, value) for value in _get_summand(parsed))
        else:
            key = parsed
        tally = self._tallies.get(key)
        if tally is None:
            self._text_bytes_left -= size
            self._check_size()
            tally = self._tallies[key] = Tally()
            if isinstance(key, Summand) and self._find_breaks is not None:
                tally.breaks = self._find_breaks(key)
        return tally

    def _part_of(self, tally: Tally, at_ms: int, number: int) -> Part:
        """Return the part of a tally for an event of the line ``number``."""
        assert tally.breaks is not None, "the tally is split"
        key = self._file, bisect_right(tally.breaks, at_ms)
        part = tally.parts.get(key)
        if part is None:
            self._check_size()
            self._parts += 1
            part = tally.parts[key] = Part(file=self._file, line=number, place=key[1])
        return part

    @property
    def size(self) -> int:
        """The number of tallies and parts in memory."""
        return len(self._tallies) + self._parts

    @property
    def are_half_full(self) -> bool:
        """Whether half of the memory for texts is used."""
        return 2 * self._text_bytes_left < TEXT_BYTES_MAX

    def _check_size(self) -> None:
        size = self.size
        if size >= TALLIES_MAX or self._text_bytes_left < 0:
            raise NeedsSparkError(
                f"more than {size:,} distinct requests, too many for the memory of one process"
            )
