"""Find out which rows of a run the table already has.

A file's content is the multiset of its rows, each of which has a hash. So a copy of a file has the
same content, whatever its name and compression, and the content of a log that has grown begins with
its earlier content.

**Invariant:** a row is left out only if the table, or another file of the run, has the whole
content to which it belongs. Equal lines of two different logs are two events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from authorizerd.replay.ingest.commit import NO_ROWS, Content, Digest

ALL: Final = 2**63 - 1
"""Higher than any ``sequence``."""


class First(NamedTuple):
    """The first rows of a content: their digest, and the ``sequence`` of the last one.

    ``head`` is the hash of the beginning of the last one, None if it was set aside.
    """

    digest: Digest
    end: int
    head: int | None = None


ReadFirst = Callable[[Content, int], First]
"""Returns the given number of leading rows of a content, from its run."""


class Shared(NamedTuple):
    """The leading rows of a content that ``file`` also has."""

    rows: int
    first: First
    file: str


def match_contents(
    read: Iterable[Content], recorded: Iterable[Content], read_first: ReadFirst
) -> list[tuple[Content, Shared | None]]:
    """Return the contents that a run has read, each with its rows that were already counted.

    Args:
        read: in the order of the inputs. Of equal contents, the first one counts.
        recorded: the contents of the table.
    """
    known: dict[int | None, list[Content]] = {}
    for content in recorded:
        known.setdefault(content.first, []).append(content)
    matches = []
    # Longest first, so that the shorter copy is left out, not the longer one.
    for content in sorted(read, key=lambda content: -content.rows):
        alike = known.setdefault(content.first, [])
        shared = _match(content, alike, read_first)
        matches.append((content, shared))
        if shared is None or shared.rows < content.rows:
            alike.append(content)
    return matches


def _match(content: Content, alike: Iterable[Content], read_first: ReadFirst) -> Shared | None:
    """Return what ``content`` shares with one of ``alike``, whose first events are similar."""
    for other in sorted(alike, key=lambda other: -other.rows):
        if content.first is None and other.rows != content.rows:
            continue  # without an event, contents are too similar to compare their beginnings
        if other.rows <= content.rows and (shared := _share(content, other, read_first)):
            return Shared(*shared, other.file)
        if other.rows >= content.rows and _share(other, content, read_first):
            return Shared(content.rows, First(content.digest, ALL), other.file)
    return None


def _share(longer: Content, shorter: Content, read_first: ReadFirst) -> tuple[int, First] | None:
    """Return the rows of ``shorter`` if ``longer`` begins with all of them.

    The last row of ``shorter`` may be a line that was being written when the file was read. If so,
    it was set aside, or its event is cut short; ``longer`` has the complete line.
    """
    first = _find_first(longer, shorter.rows, read_first)
    if first is None or first.digest == shorter.digest:
        return None if first is None else (shorter.rows, first)
    before = shorter.rows - 1
    if not before or shorter.last_head not in (None, first.head):
        return None
    first, last = _find_first(longer, before, read_first), split_hash(shorter.last)
    expected = shorter.digest[0] - last[0], shorter.digest[1] - last[1]
    return (before, first) if first is not None and first.digest == expected else None


def _find_first(content: Content, rows: int, read_first: ReadFirst) -> First | None:
    """Return the leading rows, or None if the content's run has only later ones."""
    if rows == content.rows:
        return First(content.digest, ALL, content.last_head)
    further = rows - content.skipped_rows
    if further < 0:
        return None
    first = read_first(content, further) if further else First(NO_ROWS, -1)
    return first._replace(digest=add_digests(content.skipped_digest, first.digest))


def split_hash(value: int) -> tuple[int, int]:
    """Return both halves of a hash: sums of halves do not overflow."""
    return value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF


def add_digests(one: Digest, other: Digest) -> Digest:
    """Return the digest of the rows of both operands."""
    return one[0] + other[0], one[1] + other[1]
