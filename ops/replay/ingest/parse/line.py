"""Parse one line of a log: remove what a container runtime added, and read the rest.

**Invariant:** the result depends only on the bytes of the line, never on other lines.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Final, Literal

import msgspec

from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, SEPARATOR, Event, Reason
from authorizerd.replay.ingest.parse.json_line import parse_json_line
from authorizerd.replay.ingest.parse.kafka_line import parse_kafka_line

LineFormat = Literal["auto", "json", "kafka"]

DOCKER_JSON: Final = '{"log":'  # Docker's json-file driver writes this key first

# 2026-11-21T16:26:26.9Z stdout F {…
_cri_json: Final = re.compile(r"^[0-9T:.Z+-]+ (?:stdout|stderr) F \{")


class _DockerRecord(msgspec.Struct, frozen=True):
    """A line of Docker's json-file driver."""

    log: str
    time: str


_docker_decoder: Final = msgspec.json.Decoder(_DockerRecord)


def parse_line(
    line: bytes, zone: tzinfo, line_format: LineFormat = "auto"
) -> Event | Reason | None:
    """Return the event of a line, or why there is none; None for a blank line.

    ``zone`` applies to a time without one.
    """
    if len(line) > LINE_BYTES_MAX:
        return Reason.TOO_LONG
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF_8
    if not text.strip(" \t\r\n"):
        return None
    unwrapped = _unwrapped(text.rstrip("\r\n"))
    if isinstance(unwrapped, Reason):
        return unwrapped
    if SEPARATOR in unwrapped:
        return Reason.CONTROL_CHARACTER
    if line_format == "json" or (line_format == "auto" and unwrapped.startswith("{")):
        return parse_json_line(unwrapped, zone)
    return parse_kafka_line(unwrapped, zone)


def _unwrapped(text: str) -> str | Reason:
    """Return the line that Docker or CRI wrapped, or why Docker's wrapping is unreadable."""
    if text.startswith(DOCKER_JSON):
        try:
            record = _docker_decoder.decode(text)
        except msgspec.DecodeError:
            return Reason.BAD_JSON
        if not record.log.endswith("\n"):
            return Reason.PARTIAL_LINE
        inner = record.log.rstrip("\r\n")
        # Docker's time is used only if the line itself contains no time.
        return inner if inner.startswith("{") else f"{record.time} {inner}"
    # Remove CRI's prefix only before JSON: in Kafka's lines, it shows whether a line is partial.
    if _cri_json.match(text):
        return text[text.index("{") :]
    return text
