"""The denials in the last lines of the audit log's file, by principal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.daemon.audit.lines import Recorded, parse_lines, read_last_lines

PRINCIPALS_MAX: Final = 20


class DeniedPrincipal(msgspec.Struct, frozen=True):
    """A principal with the number of its denials, and the last denial."""

    principal: str
    count: int
    last: Recorded


class Denials(msgspec.Struct, frozen=True):
    """The denials in the file's last lines, for the principals with the most denials.

    Attributes:
        since: the time of the first denial, None if there is none.
        count: the number of all denials.
        unread: the number of lines that are unreadable or ambiguous.
        others: the number of principals that are left out.
    """

    since: str | None
    count: int
    unread: int
    principals: tuple[DeniedPrincipal, ...]
    others: int


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
