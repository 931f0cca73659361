"""Read the audit lines that ``format`` writes.

**Invariant:** a line counts only if it has a single reading, so no name in it can fake another
principal or answer. Names are those in the line: masked ones stay masked, and in Kafka's format,
escapes stay escapes.

``ops/replay`` also reads audit lines of brokers, in bulk, and keeps more fields of each line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.audit.caller import remove_caller
from authorizerd.acl.audit.line import AUDITED_RESOURCE_NAMES, LOGGER_NAME
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

LAST_BYTES_MAX: Final = 256 * 1024
"""Maximum number of bytes read from the end of the file."""
_LINE: Final = re.compile(
    r"\[(?P<time>[0-9 :,-]{23})\] [A-Z]+ Principal = (?P<principal>.+)"
    r" is (?P<answer>Allowed|Denied) operation = (?P<operation>[A-Z_]+) from host = (?P<host>\S+)"
    r" on resource = (?P<type>[A-Za-z]+):LITERAL:(?P<name>.*) for request = (?P<request>\S+) with"
    rf" resourceRefCount = \d+ based on rule .+ \({re.escape(LOGGER_NAME)}\)"
)
_MARKERS: Final = (
    " is Denied operation = ",
    " is Allowed operation = ",
    " from host = ",
    " on resource = ",
    " for request = ",
)
"""The texts that end a name. A name that contains one makes the line ambiguous."""
_SEARCHES: Final = ("SubjectSearch", "ResourceSearch", "ActionSearch")
"""Requests whose lines are searches, not decisions."""
_TYPES: Final = {name: ResourceType(code) for code, name in AUDITED_RESOURCE_NAMES.items()}
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

    Lines of searches are left out, because nothing was decided.
    """
    for line in lines:
        text = line.decode("utf-8", "replace")
        recorded = _parse_record(text) if text.startswith("{") else _parse_text(text)
        if recorded is None or recorded.request not in _SEARCHES:
            yield recorded


def _parse_text(line: str) -> Recorded | None:
    # Check this before the match, which is very slow if names contain many markers.
    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:
        return None
    without = remove_caller(line)
    found = None if without is None else _LINE.match(without[0])
    if found is None:
        return None
    resource_type, operation = _TYPES.get(found["type"]), found["operation"]
    if resource_type is None or operation not in Operation.__members__:
        return None
    host = found["host"]
    return Recorded(
        found["time"],
        found["principal"],
        None if host == "unknown" else host,
        operation,
        resource_type.name,
        found["name"],
        found["answer"] == "Allowed",
        found["request"],
    )


def _parse_record(line: str) -> Recorded | None:
    try:
        recorded = _decode(line)
    except DECODING_ERRORS:
        return None
    is_known = recorded.operation in Operation.__members__ and recorded.resource_type in _TYPE_NAMES
    return recorded if is_known else None


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
