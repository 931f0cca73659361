"""The latest denials, by principal, from the end of the audit log's file.

**Invariant:** a line counts for a principal only if it has a single reading. The names are those in
the file, so masked names stay masked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

BYTES_MAX: Final = 256 * 1024
"""How much of the end of the file is read."""
PRINCIPALS_MAX: Final = 20

_DENIED: Final = " is Denied operation = "
_MARKERS: Final = (_DENIED, " on resource = ", " for request = ")
"""Where a name ends. A name that contains one gives the line another reading."""
_LINE: Final = re.compile(
    r"\[(?P<time>[0-9 :,-]{23})\] [A-Z]+ Principal = (?P<principal>.+) is Denied operation = "
    r"(?P<operation>[A-Z_]+) from host = \S+ on resource = (?P<resource>.+) for request = "
    r".+ \(kafka\.authorizer\.logger\)"
)


class Denial(msgspec.Struct, frozen=True):
    """A denied request. ``resource`` is a type and a name."""

    time: str
    principal: str
    operation: str
    resource: str


class DeniedPrincipal(msgspec.Struct, frozen=True):
    """A principal with the number of its denials, and the last of them."""

    principal: str
    count: int
    last: Denial


class Denials(msgspec.Struct, frozen=True):
    """The denials in the last lines of the file, of the principals with the most.

    Attributes:
        since: the time of the first of these lines, None if there are none.
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
    resource_type: str
    resource_name: str


_decode: Final = msgspec.json.Decoder(_Record).decode


def read_denials(path: Path) -> Denials:
    """Return the denials at the end of a file. Reading blocks.

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
    lines = data.split(b"\n")
    # The first part is the end of a line, unless the whole file was read; the last is unfinished.
    return count_denials(lines[size > BYTES_MAX : -1])


def count_denials(lines: Iterable[bytes]) -> Denials:
    """Return the denials in the lines of an audit log, in either format."""
    last: dict[str, Denial] = {}
    counts: dict[str, int] = {}
    since, unread = None, 0
    for line in lines:
        found = parse_denial(line.decode("utf-8", "replace"))
        if isinstance(found, Denial):
            since = since or found.time
            counts[found.principal] = counts.get(found.principal, 0) + 1
            last[found.principal] = found
        elif not found:
            unread += 1
    most = sorted(counts, key=lambda principal: (-counts[principal], principal))
    return Denials(
        since,
        sum(counts.values()),
        unread,
        tuple(DeniedPrincipal(each, counts[each], last[each]) for each in most[:PRINCIPALS_MAX]),
        max(0, len(most) - PRINCIPALS_MAX),
    )


def parse_denial(line: str) -> Denial | bool:
    """Return the denial of an audit line; True for another line, False for one without reading."""
    if line.startswith("{"):
        return _parse_record(line)
    if _DENIED not in line:
        return " is Allowed operation = " in line
    found = _LINE.match(line)
    if found is None or any(line.count(each) > 1 for each in _MARKERS):
        return False
    return Denial(found["time"], found["principal"], found["operation"], found["resource"])


def _parse_record(line: str) -> Denial | bool:
    try:
        record = _decode(line)
    except msgspec.MsgspecError:
        return False
    if record.allowed:
        return True
    resource = f"{record.resource_type} {record.resource_name}"
    return Denial(record.time, record.principal, record.operation, resource)
