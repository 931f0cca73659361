"""Read the output of ``kafka-acls --list`` and ``authorizerd acls --list``.

**Invariant:** a line is read if it has exactly one reading; otherwise it is an error with its
number. Principals and names may contain commas, brackets and spaces. If it is unclear where the
principal ends, the line is rejected: a guess could turn one grant into another.

Source: Kafka 4.3 AclCommand; ResourcePattern and AccessControlEntry.toString.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType

_PRINCIPAL_HEADING: Final = re.compile(r"ACLs for principal `.*`")
_PATTERN_HEADING: Final = re.compile(
    r"Current ACLs for resource `ResourcePattern\(resourceType=([A-Z_]+), name=(.*), "
    r"patternType=([A-Z_]+)\)`: ?"
)
_ENTRY: Final = re.compile(
    r"[ \t]*\(principal=(.*), operation=([A-Z_]+), permissionType=([A-Z_]+)\) ?"
)
_HOST: Final = ", host="
_QUOTED_MAX: Final = 200


class ListingError(Exception):
    """A line that is not part of a listing; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


def read_listing(text: str) -> Iterator[Acl]:
    """Yield the ACLs of a listing in its order, with any repeats.

    Raises:
        ListingError: a line is malformed, or an ACL comes before any resource.
    """
    pattern: tuple[int, str, int] | None = None
    # splitlines would also cut names at Unicode's line separators.
    for number, ended in enumerate(text.split("\n"), 1):
        line = ended.removesuffix("\r")
        if not line.strip(" \t"):
            continue
        if _PRINCIPAL_HEADING.fullmatch(line):
            pattern = None
        elif heading := _PATTERN_HEADING.fullmatch(line):
            pattern = (
                _code(number, ResourceType, heading[1]),
                heading[2],
                _code(number, PatternType, heading[3]),
            )
        elif entry := _ENTRY.fullmatch(line):
            if pattern is None:
                raise ListingError(number, "expected a resource before the first ACL")
            yield _acl(number, pattern, entry)
        else:
            raise ListingError(
                number, f"expected a line of a listing of ACLs, found {_quoted(line)}"
            )


def _acl(number: int, pattern: tuple[int, str, int], entry: re.Match[str]) -> Acl:
    parts = entry[1].split(_HOST)
    if len(parts) < 2:
        raise ListingError(number, f"missing host: {_quoted(entry[0])}")
    if len(parts) > 2:
        raise ListingError(
            number,
            f"ambiguous line: `{_HOST}` occurs more than once in {_quoted(entry[0])}",
        )
    operation = _code(number, Operation, entry[2])
    permission_type = _code(number, PermissionType, entry[3])
    return Acl(*pattern, parts[0], parts[1], operation, permission_type)


def _code(number: int, codes: type[Code], name: str) -> int:
    """Return the code of a name; UNKNOWN is valid, as kafka-acls prints it for newer codes."""
    code = codes.named(name)
    if code is None or name in ("ANY", "MATCH"):
        raise ListingError(number, f"unknown {codes.__name__} {name!r}")
    return int(code)


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _QUOTED_MAX else f"{line[:_QUOTED_MAX]}…")
