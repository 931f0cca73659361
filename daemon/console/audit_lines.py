"""The latest decisions in the audit log's file: denials by principal, and recorded requests.

**Invariant:** a line counts only if it has a single reading. The names are those in the file, so
masked names stay masked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.audit import AUDITED_RESOURCE_NAMES
from authorizerd.acl.model import Operation, ResourceType

BYTES_MAX: Final = 256 * 1024
"""How much of the end of the file is read."""
PRINCIPALS_MAX: Final = 20

_LINE: Final = re.compile(
    r"\[(?P<time>[0-9 :,-]{23})\] [A-Z]+ Principal = (?P<principal>.+)"
    r" is (?P<answer>Allowed|Denied) operation = (?P<operation>[A-Z_]+) from host = (?P<host>\S+)"
    r" on resource = (?P<type>[A-Za-z]+):LITERAL:(?P<name>.+) for request = (?P<request>\S+) with"
    r" resourceRefCount = \d+ based on rule .+ \(kafka\.authorizer\.logger\)"
)
_MARKERS: Final = (
    " is Denied operation = ",
    " is Allowed operation = ",
    " from host = ",
    " on resource = ",
    " for request = ",
)
"""Where a name ends. A name that contains one gives the line another reading."""
_SEARCHES: Final = ("SubjectSearch", "ResourceSearch", "ActionSearch")
"""Requests whose lines are no decisions."""
_TYPES: Final = {name: ResourceType(code) for code, name in AUDITED_RESOURCE_NAMES.items()}


class Recorded(msgspec.Struct, frozen=True):
    """A decision. ``host`` is None if it is unknown."""

    time: str
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    allowed: bool


class DeniedPrincipal(msgspec.Struct, frozen=True):
    """A principal with the number of its denials, and the last of them."""

    principal: str
    count: int
    last: Recorded


class Denials(msgspec.Struct, frozen=True):
    """The denials in the last lines of the file, of the principals with the most.

    Attributes:
        since: the time of the first denial, None if there is none.
        count: the number of all denials.
        unread: the number of lines that have no reading, or more than one.
        others: the number of principals that are left out.
    """

    since: str | None
    count: int
    unread: int
    principals: tuple[DeniedPrincipal, ...]
    others: int


class _Record(msgspec.Struct):
    """What is read of a line in JSON."""

    time: str
    principal: str
    allowed: bool
    operation: str
    host: str | None
    resource_type: str
    resource_name: str
    request: str


_decode: Final = msgspec.json.Decoder(_Record).decode


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
        file.seek(max(0, size - BYTES_MAX))
        data = file.read(BYTES_MAX)
    # The first part is the end of a line, unless the whole file was read; the last is unfinished.
    return data.split(b"\n")[size > BYTES_MAX : -1]


def read_denials(path: Path) -> Denials:
    """Return the denials at the end of a file; see ``read_last_lines``."""
    return count_denials(read_last_lines(path))


def count_denials(lines: Iterable[bytes]) -> Denials:
    """Return the denials in the lines of an audit log, in either format."""
    last: dict[str, Recorded] = {}
    counts: dict[str, int] = {}
    since, unread = None, 0
    for found in parse_lines(lines):
        if found is None:
            unread += 1
        elif not found.allowed:
            since = since or found.time
            counts[found.principal] = counts.get(found.principal, 0) + 1
            last[found.principal] = found
    most = sorted(counts, key=lambda principal: (-counts[principal], principal))
    return Denials(
        since,
        sum(counts.values()),
        unread,
        tuple(DeniedPrincipal(each, counts[each], last[each]) for each in most[:PRINCIPALS_MAX]),
        max(0, len(most) - PRINCIPALS_MAX),
    )


def parse_lines(lines: Iterable[bytes]) -> Iterator[Recorded | None]:
    """Yield the decision of each line, or None for a line without a single reading.

    Lines of searches are left out, because they are no decisions.
    """
    for line in lines:
        text = line.decode("utf-8", "replace")
        found = _parse_record(text) if text.startswith("{") else _parse_text(text)
        if found is None:
            yield None
            continue
        recorded, request = found
        if request not in _SEARCHES:
            yield recorded


def _parse_text(line: str) -> tuple[Recorded, str] | None:
    # Before the match, which takes very long if names contain many markers.
    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:
        return None
    found = _LINE.match(line)
    if found is None:
        return None
    resource_type, operation = _TYPES.get(found["type"]), found["operation"]
    if resource_type is None or operation not in Operation.__members__:
        return None
    host = found["host"]
    recorded = Recorded(
        found["time"],
        found["principal"],
        None if host == "unknown" else host,
        operation,
        resource_type.name,
        found["name"],
        found["answer"] == "Allowed",
    )
    return recorded, found["request"]


def _parse_record(line: str) -> tuple[Recorded, str] | None:
    try:
        record = _decode(line)
    except msgspec.MsgspecError:
        return None
    if not (record.operation in Operation.__members__ and record.resource_type in _TYPE_NAMES):
        return None
    recorded = Recorded(
        record.time,
        record.principal,
        record.host,
        record.operation,
        record.resource_type,
        record.resource_name,
        record.allowed,
    )
    return recorded, record.request


_TYPE_NAMES: Final = frozenset(ResourceType.__members__)
