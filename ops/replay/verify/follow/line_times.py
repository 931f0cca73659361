"""The times of lines, without parsing each line."""

from __future__ import annotations

import re
from typing import Final

from authorizerd.acl.audit.recorded.event import Event
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.replay.ingest.parse.beginnings import REST, SECOND, parse_second
from authorizerd.replay.plans import LineLayout

_SECONDS_MAX: Final = 10_000
_match_plain: Final = re.compile(rf"{SECOND},(?P<ms>[0-9]{{3}})\]? (?={REST})".encode()).match


class LineTimes:
    """Finds the time of a line's event."""

    def __init__(self, layout: LineLayout) -> None:
        self._zone: Final = find_zone(layout.time_zone)
        self._layout: Final = layout
        self._seconds: Final[dict[bytes, int | None]] = {}

    def find(self, line: bytes) -> int | None:
        """Return the time in milliseconds since 1970, None if the line has no event.

        A line that only begins like an event may have a time, too.
        """
        plain = _match_plain(line)
        if plain is None:
            parsed = parse_line(line, self._zone, self._layout.format, self._layout.field)
            return parsed.at_ms if isinstance(parsed, Event) else None
        second = plain["second"]
        if second not in self._seconds:
            if len(self._seconds) >= _SECONDS_MAX:
                self._seconds.clear()
            self._seconds[second] = parse_second(second, self._zone)
        begin_ms = self._seconds[second]
        return None if begin_ms is None else begin_ms + int(plain["ms"])
