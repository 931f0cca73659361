"""Parsers of the audit settings: principal patterns, resource patterns, a share, and a zone.

**Invariant:** as in ``config.values``. Entries that can never match are rejected too, since a
mistyped entry would silently exclude or include nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import tzinfo

from authorizerd.acl.audit.filter import (
    ALL_NAMES,
    ALL_RESOURCES,
    NamePatterns,
    ResourcePatterns,
    name_patterns,
)
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.acl.model import WILDCARD, ResourceType
from authorizerd.config.values import RESOURCE_TYPES, invalid, trim

RATE_MIN = 1e-6

_SEPARATED = "(semicolons separate the entries)"
# float() would also accept nan, inf and 1e-3.
_SHARE = re.compile(r"(?:1/([0-9]{1,7})|(0\.[0-9]{1,9}|1(?:\.0)?))")


def time_zone(text: str) -> tzinfo:
    """Return the time zone with this name."""
    try:
        return find_zone(text)
    except ValueError as error:
        raise invalid(text, "a time zone, such as UTC, Europe/Berlin or +02:00") from error


def principal_patterns(text: str) -> NamePatterns:
    """Return the patterns of a semicolon list. A name may contain commas and colons."""
    entries = _entries(text)
    for entry in entries:
        principal_type, _, name = entry.partition(":")
        if entry != WILDCARD and not (principal_type and name):
            raise invalid(entry, f"Type:name, Type:prefix* or * {_SEPARATED}", what="entry")
    return ALL_NAMES if WILDCARD in entries else name_patterns(entries)


def resource_patterns(text: str) -> ResourcePatterns:
    """Return the patterns of a semicolon list of TYPE:name. ``*`` matches every resource."""
    entries = _entries(text)
    if WILDCARD in entries:
        return ALL_RESOURCES
    by_type: dict[ResourceType, list[str]] = defaultdict(list)
    for entry in entries:
        type_name, _, name = entry.partition(":")
        if not name:
            raise invalid(entry, f"TYPE:name, TYPE:prefix* or * {_SEPARATED}", what="entry")
        if type_name not in RESOURCE_TYPES:
            raise invalid(type_name, f"one of {', '.join(RESOURCE_TYPES)}", what="resource type")
        by_type[RESOURCE_TYPES[type_name]].append(name)
    return ResourcePatterns(
        {resource_type: name_patterns(names) for resource_type, names in by_type.items()}
    )


def share(text: str) -> float:
    """Return a share, written as a decimal number or as 1/N: above 0, and at most 1."""
    match = _SHARE.fullmatch(text)
    if match:
        divisor, decimal = match.groups()
        rate = float(decimal) if decimal else 1 / int(divisor) if int(divisor) else 0.0
        if rate >= RATE_MIN:
            return rate
    raise invalid(
        text,
        f"a share from {RATE_MIN:f} to 1, such as 0.01 or 1/100 (to audit no allowed decisions,"
        " set authorizerd.audit.level=INFO)",
    )


def _entries(text: str) -> list[str]:
    return [entry for entry in map(trim, text.split(";")) if entry]
