"""One line of a log: unwrapped from what a container runtime put round it, and read.

**Invariant:** the bytes of a line decide alone what it is; no line depends on another.
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
    log: str
    time: str


_docker_decoder: Final = msgspec.json.Decoder(_DockerRecord)


def parse_line(
    line: bytes, zone: tzinfo, line_format: LineFormat = "auto"
) -> Event | Reason | None:
    """Return what a line says, None for a blank one; ``zone`` is that of a time without one."""
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
    """Return the line within Docker's or CRI's, or why there is none within Docker's."""
    if text.startswith(DOCKER_JSON):
        try:
            record = _docker_decoder.decode(text)
        except msgspec.DecodeError:
            return Reason.BAD_JSON
        if not record.log.endswith("\n"):
            return Reason.PARTIAL_LINE
        inner = record.log.rstrip("\r\n")
        # Docker's time serves where the line has none of its own.
        return inner if inner.startswith("{") else f"{record.time} {inner}"
    if _cri_json.match(text):
        return text[text.index("{") :]
    return text
