"""Lines of kafka-acls before 2.4, which lists ACLs in ZooKeeper, and the table of Redpanda's rpk.

    Current ACLs for resource `Topic:PREFIXED:orders-`:
            User:alice has Allow permission for operations: Read from hosts: *

Before Kafka 2.0, patterns have no type, and all are literal: ``Topic:orders``.

    PRINCIPAL   HOST  RESOURCE-TYPE  RESOURCE-NAME  RESOURCE-PATTERN-TYPE  OPERATION  PERMISSION
    User:alice  *     TOPIC          orders         LITERAL                READ       ALLOW

ACLs of a role of rpk are also losses, because Redpanda alone knows who has the role.

**Invariant:** a cell of a table begins where its heading begins, after a blank. Any other line is
an error.

Source: Kafka 1.1 and 2.3, kafka.security.auth: Resource.toString, Acl.toString.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.management.formats import values
from authorizerd.management.formats.model import AclsRead, AclTextError, Loss, Scope

_RESOURCE_TYPES: Final = {values.spell(code): code for code in values.OLD_RESOURCE_TYPES}
_OPERATIONS: Final = {values.spell(code): code for code in values.OLD_OPERATIONS}
_PERMISSION_TYPES: Final = {
    values.spell(code): code for code in (PermissionType.ALLOW, PermissionType.DENY)
}
_PATTERN_TYPES: Final = {code.name: code for code in (PatternType.LITERAL, PatternType.PREFIXED)}

_HEADING: Final = re.compile(r"[ \t]*Current ACLs for resource `([A-Z][A-Za-z]+):(.*)`: ?")
_PERMISSION: Final = re.compile(r" has (\w+) permission for operations: (\w+) from hosts: ")


class OldHeadings:
    """Read the headings of one listing, which all come from one Kafka version."""

    def __init__(self) -> None:
        self._without_type = False
        self._typed_place: str | None = None

    def parse(self, place: str, line: str) -> tuple[int, str, int] | None:
        """Return the resource pattern of a heading; None for any other line."""
        heading = _HEADING.fullmatch(line)
        if heading is None:
            return None
        resource_type = _find(place, ResourceType, _RESOURCE_TYPES, heading[1])
        word, colon, name = heading[2].partition(":")
        pattern_type = _PATTERN_TYPES.get(word) if colon else None
        if pattern_type is None:
            pattern_type, name = PatternType.LITERAL, heading[2]
            self._without_type = True
        elif resource_type != ResourceType.TOPIC:  # no topic has a colon in its name
            self._typed_place = place
        if self._without_type and self._typed_place is not None:
            raise AclTextError(
                self._typed_place,
                "ambiguous name: other lines have no pattern type, as before Kafka 2.0",
            )
        return int(resource_type), name, int(pattern_type)


def parse_entry(place: str, line: str) -> tuple[str, str, int, int] | None:
    """Return the principal, the host, and the codes of operation and permission; None if none."""
    found = [*_PERMISSION.finditer(line)]
    if not found:
        return None
    if len(found) > 1:
        raise AclTextError(place, "ambiguous line: ` permission for operations: ` occurs twice")
    (match,) = found
    return (
        line[: match.start()].lstrip(" \t"),
        line[match.end() :].removesuffix(" "),
        int(_find(place, Operation, _OPERATIONS, match[2])),
        int(_find(place, PermissionType, _PERMISSION_TYPES, match[1])),
    )


def _find(place: str, codes: type[Code], known: Mapping[str, Code], word: str) -> Code:
    if word not in known:
        raise AclTextError(place, f"unknown {codes.__name__} {word!r}")
    return known[word]


HEADING: Final = re.compile(r"^PRINCIPAL +HOST +RESOURCE-TYPE .*", re.MULTILINE)

_SHAPE: Final = values.AclShape(
    {
        "PRINCIPAL": "principal",
        "HOST": "host",
        "RESOURCE-TYPE": "resource_type",
        "RESOURCE-NAME": "resource_name",
        "RESOURCE-PATTERN-TYPE": "pattern_type",
        "OPERATION": "operation",
        "PERMISSION": "permission_type",
    },
    is_line=True,
)
_COLUMNS: Final = tuple(_SHAPE.keys)
_ERROR: Final = "ERROR"
_FILTERS: Final = "FILTERS"
_MATCHES: Final = "MATCHES"
"""The titles of two tables, with --print-filters; the second one has the ACLs."""
_ROLE: Final = "RedpandaRole:"


def read_table(text: str) -> AclsRead:
    """Return the ACLs of a table; skip lines before its heading, and its filters."""
    acls: dict[Acl, None] = {}
    columns: list[tuple[str, int]] = []
    in_filters = False
    for number, ended in enumerate(text.split("\n"), 1):
        line, place = ended.rstrip("\r "), f"line {number}"
        if in_filters or (line == _FILTERS and not columns):
            in_filters = line != _MATCHES
        elif not columns:
            if HEADING.fullmatch(line):
                columns = _find_columns(place, line)
        elif line:
            acls[_read_line(place, line, columns)] = None
    losses = (
        Loss(acl, "only Redpanda knows who has the role")
        for acl in acls
        if acl.principal.startswith(_ROLE)
    )
    return AclsRead(tuple(acls), tuple(losses), None if acls else Scope())


def _find_columns(place: str, line: str) -> list[tuple[str, int]]:
    columns = [(match[0], match.start()) for match in re.finditer(r"\S+", line)]
    names = tuple(name for name, _ in columns)
    if names not in (_COLUMNS, (*_COLUMNS, _ERROR)):
        raise AclTextError(place, f"expected the columns {', '.join(_COLUMNS)}")
    return columns


def _read_line(place: str, line: str, columns: list[tuple[str, int]]) -> Acl:
    ends = [start for _, start in columns[1:]] + [len(line)]
    cells: dict[str, str] = {}
    for (name, start), end in zip(columns, ends, strict=True):
        if start and line[start - 1 : start].strip():
            raise AclTextError(place, f"expected a blank before the column {name}")
        cells[name] = line[start:end].rstrip(" ")
    if cells.get(_ERROR):
        raise AclTextError(place, f"rpk has reported an error: {cells[_ERROR][:80]!r}")
    return values.check_creatable(place, _SHAPE.read(place, cells))
