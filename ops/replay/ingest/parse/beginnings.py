"""The plain beginning of a line: the broker's time, perhaps after a container's timestamp.

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

LENGTH_MAX: Final = LINE_BYTES_MAX - len(ONE_TIME)
"""Longer lines are parsed unchanged.

``ONE_TIME`` may be longer than the time it replaces, and must not make a line too long to parse.
"""


def parse_second(second: bytes, zone: tzinfo) -> int | None:
    """Return the start of ``second`` of a plain beginning, in milliseconds since 1970.

    It is None for an impossible time. The caller passes ``zone``, because the beginning has none.
    """
    return Head(second.decode(), "", "").at_ms(zone)
