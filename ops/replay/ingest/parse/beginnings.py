"""The plain beginning of a line: its time, perhaps after a container's timestamp.

**Invariant:** a plain beginning contains no marker and no other time that counts. So lines that
differ only there are the same event at different times: it is enough to parse one of them, with
``ONE_TIME`` as its beginning.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX
from authorizerd.acl.audit.recorded.kafka_line import PRINCIPAL
from authorizerd.acl.audit.recorded.times import LEVELS, Head

ONE_TIME: Final = b"[2000-01-01 00:00:00,000] "
"""Replaces a plain beginning."""

_SECOND: Final = "2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
CONTAINER: Final = "[0-9T:.Z+-]{1,64} (?:stdout|stderr) F "
"""The prefix of a container runtime. All these patterns work with Python's ``re`` and Arrow's RE2.
"""
SECOND: Final = rf"\[?(?P<second>{_SECOND})"
"""A beginning up to the second, without a container's timestamp."""
BEGINNING: Final = rf"(?:{CONTAINER})?{SECOND},(?P<ms>[0-9]{{3}})\]? "
"""A whole beginning. ``REST`` must follow."""
REST: Final = rf"(?:{'|'.join(LEVELS)}) {PRINCIPAL}"

USUAL_SECOND: Final = (0, 21), rf"^\[{_SECOND},$"
USUAL_MS: Final = (21, 26), r"^[0-9]{3}\] $"
USUAL_REST: Final = 26, LINE_BYTES_MAX
"""Positions in a line with the usual beginning (no container timestamp), and its parts."""

UTC_SECOND: Final = "2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
JSON_HEAD: Final = rf'\{{(?:"version":[0-9]{{1,3}},)?"time":"(?P<utc>{UTC_SECOND})'
"""The beginning of this daemon's JSON lines up to the second; they have their times in UTC."""
ONE_JSON_TIME: Final = b'{"time":"2000-01-01T00:00:00.000'
JSON_REST: Final = 'Z"'
"""Follows the milliseconds of such a beginning."""
NOT_JSON_REST: Final = r'\\|"time"|"(?:log|message|line|_raw|result)"[ \t]*:'
"""Occurs in the rest of a JSON line that may name its time twice, or wrap a line with another."""

LENGTH_MAX: Final = LINE_BYTES_MAX - len(ONE_TIME)
"""Longer lines are parsed unchanged.

``ONE_TIME`` may be longer than the time it replaces, and must not make a line too long to parse.
"""


def parse_second(second: bytes, zone: tzinfo) -> int | None:
    """Return the start of ``second`` of a plain beginning, in milliseconds since 1970.

    It is None for an impossible time. The caller passes ``zone``, because the beginning has none.
    """
    return Head(second.decode(), "", "").at_ms(zone)
