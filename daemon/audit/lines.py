"""Read the audit lines that ``format`` writes.

**Invariant:** a line counts only if it has a single reading, so no name in it can fake another
principal or answer. Names are those in the line: masked ones stay masked, and in Kafka's format,
escapes stay escapes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.audit.recorded.event import Event
from authorizerd.acl.audit.recorded.kafka_line import parse_kafka_line
from authorizerd.acl.audit.recorded.written import read_written
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

LAST_BYTES_MAX: Final = 256 * 1024
"""Maximum number of bytes read from the end of the file."""
_SEARCHES: Final = ("SubjectSearch", "ResourceSearch", "ActionSearch")
"""Requests whose lines are searches, not decisions."""
_TIME: Final = slice(1, 24)
"""The position of the time, which is local, in a line in Kafka's format."""
_TYPE_NAMES: Final = frozenset(ResourceType.__members__)


class Recorded(msgspec.Struct, frozen=True):
    """A decision. ``host`` is None if it is unknown. The fields have the keys of a line in JSON."""

    time: str
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    allowed: bool
    request: str


_decode: Final = msgspec.json.Decoder(Recorded).decode


def parse_lines(lines: Iterable[bytes]) -> Iterator[Recorded | None]:
    """Yield the decision of each line, or None for a line without a single reading.

    Lines of searches and of written changes are left out, because nothing was decided.
    """
    for line in lines:
        text = line.decode("utf-8", "replace")
        recorded = _parse_record(text) if text.startswith("{") else _parse_text(text)
        if recorded is None and read_written(text) is not None:
            continue
        if recorded is None or recorded.request not in _SEARCHES:
            yield recorded


def _parse_text(line: str) -> Recorded | None:
    event = parse_kafka_line(line, UTC)
    if not isinstance(event, Event) or event.request is None or not _is_known(event):
        return None
    return Recorded(
        line[_TIME],
        event.principal,
        event.host,
        event.operation,
        event.resource_type,
        event.resource_name,
        event.allowed,
        event.request,
    )


def _parse_record(line: str) -> Recorded | None:
    try:
        recorded = _decode(line)
    except DECODING_ERRORS:
        return None
    return recorded if _is_known(recorded) else None


def _is_known(recorded: Recorded | Event) -> bool:
    return recorded.operation in Operation.__members__ and recorded.resource_type in _TYPE_NAMES


def read_last_lines(path: Path) -> list[bytes]:
    """Return the whole lines at the end of a file. Reading blocks.

    Raises:
        OSError: it cannot be read, or is not a file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path}: expected a file")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LAST_BYTES_MAX))
        data = file.read(LAST_BYTES_MAX)
    # Unless the whole file was read, the first part is a cut-off line. The last part is unfinished.
    return data.split(b"\n")[size > LAST_BYTES_MAX : -1]
