"""Lines of kafka-acls before 2.4, which lists ACLs in ZooKeeper.

    Current ACLs for resource `Topic:PREFIXED:orders-`:
            User:alice has Allow permission for operations: Read from hosts: *

Before Kafka 2.0, patterns have no type, and all are literal: ``Topic:orders``.

Source: Kafka 1.1 and 2.3, kafka.security.auth: Resource.toString, Acl.toString.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from authorizerd.acl.formats.limits import OLD_OPERATIONS, OLD_RESOURCE_TYPES, spell
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType

_RESOURCE_TYPES: Final = {spell(code): code for code in OLD_RESOURCE_TYPES}
_OPERATIONS: Final = {spell(code): code for code in OLD_OPERATIONS}
_PERMISSION_TYPES: Final = {
    spell(code): code for code in (PermissionType.ALLOW, PermissionType.DENY)
}
_PATTERN_TYPES: Final = {code.name: code for code in (PatternType.LITERAL, PatternType.PREFIXED)}

_HEADING: Final = re.compile(r"[ \t]*Current ACLs for resource `([A-Z][A-Za-z]+):(.*)`: ?")
_PERMISSION: Final = re.compile(r" has (\w+) permission for operations: (\w+) from hosts: ")


class OldHeadings:
    """Reads the headings of one listing, which are all of one Kafka version."""

    def __init__(self) -> None:
        self._without_type = False
        self._typed_place: str | None = None

    def parse(self, place: str, line: str) -> tuple[int, str, int] | None:
        """Return the resource pattern of a heading; None for any other line.

        Raises:
            AclTextError: the resource type is unknown, or the name may have a type or begin so.
        """
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
    """Return the principal, the host, and the codes of operation and permission; None if none.

    Raises:
        AclTextError: a code is unknown, or the line has more than one reading.
    """
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
