"""One recorded decision, and the reasons why a line is not an event.

**Invariant:** a line is an ``Event`` or has a ``Reason``. Nothing is guessed or dropped.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

LineFormat = Literal["auto", "json", "kafka"]
"""The format of lines; ``auto`` detects it for each line."""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of an audit line, with Kafka's names (``DESCRIBE``, ``TOPIC``, ``LITERAL``).

    ``at_ms`` is milliseconds since 1970. ``host`` is None for ``unknown``; ``request``,
    ``reference_count`` and ``rule`` are None if the layout of the line lacks them. ``level`` may
    end with ``OF_SAMPLE``.
    """

    at_ms: int
    allowed: bool
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    request: str | None
    reference_count: int | None
    rule: str | None
    level: str


class Reason(StrEnum):
    """Why a line was set aside; docs/replay-ingest.md says what to do for each."""

    # From AclAuthorizer, or the daemon's line of a written change. Counted separately, because no
    # event is lost.
    EXPLANATION = "explanation"
    NO_DECISION = "no_decision"  # not an audit line
    AMBIGUOUS = "ambiguous"  # a marker of the layout occurs twice, or inside a name
    UNKNOWN_LAYOUT = "unknown_layout"  # each marker at most once, but not in a known order
    UNKNOWN_ENDING = "unknown_ending"  # text after the message, so a name may end before it
    NO_TIME = "no_time"
    BAD_TIME = "bad_time"  # no such day, hour or zone
    PARTIAL_LINE = "partial_line"  # a container runtime split the line
    NO_LINE_FIELD = "no_line_field"  # no text in the JSON field that the user named
    BAD_JSON = "bad_json"  # begins with a brace but is not an audit event
    OTHER_EVENT = "other_event"  # Confluent's, but not a decision about a request to Kafka
    MASKED = "masked"  # the daemon hides names, so the principal is unknown
    NOT_UTF_8 = "not_utf_8"
    CONTROL_CHARACTER = "control_character"  # U+0001, which only damaged logs contain
    TOO_LONG = "too_long"  # more than LINE_BYTES_MAX
    MISSING_VALUE = "missing_value"  # a Parquet row that lacks a required value
    BROKEN_ARCHIVE = "broken_archive"  # the unfinished line before the damage of an archive


UNKNOWN_LEVEL: Final = "UNKNOWN"
OF_SAMPLE: Final = ", sampled"
"""Ends the level of an event if its line says that only a sample of such decisions was logged."""
UNKNOWN_HOST: Final = "unknown"
SEPARATOR: Final = "\x01"
LINE_BYTES_MAX: Final = 256 * 1024  # principal and name, each logged twice, take about 130,000
