"""Take an audit line out of the JSON that log shippers and JSON layouts put around it.

**Invariant:** only a whole JSON object is unwrapped, and only the text of a known key, or of the
key that the user named: text that clients can choose is never read as a line. If the user named a
key, nothing else is a line. The line's own time and level take precedence: those of the object are
put before it, so they are used only if it has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.acl.audit.recorded.explanations import EXPLANATIONS
from authorizerd.acl.audit.recorded.kafka_line import PRINCIPAL
from authorizerd.acl.audit.recorded.times import LEVELS
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

DEPTH_MAX: Final = 3
"""Nested wrappers, such as Docker's line inside Vector's inside Splunk's."""
DOCKER_BYTES: Final = 16 * 1024
"""Docker splits longer lines, and only the last part ends with a line break."""

# 2026-11-21T16:26:26.9Z stdout F {…
_cri_json: Final = re.compile(r"[0-9T:.Z+-]+ (?:stdout|stderr) F \{")
_time: Final = re.compile(r"[0-9T:.,Z+ -]{1,40}")


class _Instant(msgspec.Struct, frozen=True):
    """A time of log4j2's JSON layouts."""

    second: Annotated[int, msgspec.Meta(ge=0, lt=2**33)] = msgspec.field(name="epochSecond")
    nano: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = msgspec.field(name="nanoOfSecond")

    def __str__(self) -> str:
        ms = self.nano // 1_000_000
        return f"{datetime.fromtimestamp(self.second, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"


class _Wrapper(msgspec.Struct, frozen=True):
    """The keys of all wrappers; an object with ``allowed`` is an audit event of the daemon."""

    log: Any = None  # Docker, Fluent Bit
    message: Any = None  # ECS, log4j2, Vector
    line: Any = None  # Loki
    raw: Any = msgspec.field(name="_raw", default=None)  # Splunk
    result: Any = None  # Splunk's export, around the other keys
    allowed: Any = None
    logtag: Any = None  # Fluent Bit: P for a part of a line
    level: Any = None
    ecs_level: Any = msgspec.field(name="log.level", default=None)
    time: Any = None
    timestamp: Any = None
    ecs_time: Any = msgspec.field(name="@timestamp", default=None)
    splunk_time: Any = msgspec.field(name="_time", default=None)
    instant: _Instant | str | float | None = None


_decoder: Final = msgspec.json.Decoder(_Wrapper)


def unwrap(text: str, field: str | None = None) -> str | Reason:
    """Return the line inside the wrappers, or ``text`` if there are none, or why it cannot be read.

    Args:
        field: the key that must hold the line in one of the wrappers. If an object lacks this key,
            dots lead into nested objects. None if only the known keys hold lines.
    """
    lacks_field = field is not None
    for _ in range(DEPTH_MAX):
        # Remove the prefix only before JSON: in Kafka's lines, CRI's prefix shows whether a line is
        # partial.
        if _cri_json.match(text):
            text = text[text.index("{") :]
        wrapper = _decode(text) if text.startswith("{") else None
        if wrapper is None:
            break
        # Stop once the key is found: its line may itself be JSON with the same key, whose text a
        # client chose.
        named = _find_text(text, field) if field is not None and lacks_field else None
        known = (wrapper.log, wrapper.message, wrapper.line, wrapper.raw)
        lines = {each for each in (known if named is None else (named,)) if isinstance(each, str)}
        lacks_field = lacks_field and named is None
        if len(lines) > 1 and not lacks_field:
            return Reason.AMBIGUOUS
        if len(lines) != 1:
            break
        (line,) = lines
        is_cut = not line.endswith("\n") and len(line.encode("utf-8", "replace")) >= DOCKER_BYTES
        if wrapper.logtag == "P" or (is_cut and line == wrapper.log):
            return Reason.PARTIAL_LINE
        line = line.rstrip("\r\n")
        text = line if line.startswith("{") else f"{_make_head(wrapper, line)}{line}"
    return Reason.NO_LINE_FIELD if lacks_field else text


def _find_text(text: str, field: str) -> str | None:
    """Return the text under ``field`` in a JSON object, or in Splunk's ``result`` inside it."""
    try:
        found = msgspec.json.decode(text)
    except DECODING_ERRORS:
        return None
    inner = found.get("result") if isinstance(found, dict) else None
    return next(_look_up(found, field), None) or next(_look_up(inner, field), None)


def _look_up(found: object, path: str) -> Iterator[str]:
    """Yield the texts at a path, those under the longest keys first."""
    if not isinstance(found, dict):
        return
    if isinstance(text := found.get(path), str):
        yield text
    dots = [place for place, each in enumerate(path) if each == "."]
    for dot in reversed(dots):
        yield from _look_up(found.get(path[:dot]), path[dot + 1 :])


def _decode(text: str) -> _Wrapper | None:
    try:
        wrapper = _decoder.decode(text)
        if isinstance(wrapper.result, dict):
            wrapper = msgspec.convert(wrapper.result, _Wrapper)
    except DECODING_ERRORS:
        return None
    return wrapper if wrapper.allowed is None else None


def _make_head(wrapper: _Wrapper, line: str) -> str:
    instant = str(wrapper.instant) if isinstance(wrapper.instant, _Instant) else wrapper.instant
    times = (instant, wrapper.time, wrapper.timestamp, wrapper.ecs_time, wrapper.splunk_time)
    found = (each for each in times if isinstance(each, str) and _time.fullmatch(each))
    time = next(found, "")
    level = next((each for each in (wrapper.level, wrapper.ecs_level) if each in LEVELS), "")
    needs_level = level and line.startswith((PRINCIPAL, *EXPLANATIONS))
    return f"{time} {level} " if needs_level else f"{time} " * bool(time)
