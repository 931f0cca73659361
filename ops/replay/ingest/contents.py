"""Tell which rows of a run the table has already.

A file's content is the multiset of its rows, each of which has a hash. So a copy of a file has the
same content, whatever its name and packing, and a log that has grown begins with its earlier one.

**Invariant:** a row is left out only if the table, or another file of the run, has the whole
content to which it belongs. Equal lines of two different logs are two events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from authorizerd.replay.ingest.commit import NO_ROWS, Content, Digest

DigestFirst = Callable[[Content, int], Digest]
"""Returns the digest of the first rows of those that a content's run has of it."""


class Shared(NamedTuple):
    """The first rows of a content that ``file`` has too, and the number of blank lines there."""

    rows: int
    digest: Digest
    file: str
    blank_lines: int


def match_contents(
    read: Iterable[Content], recorded: Iterable[Content], digest_first: DigestFirst
) -> list[tuple[Content, Shared | None]]:
    """Return the contents that a run has read, each with its rows that count already.

    Args:
        read: in the order of the inputs. Of equal contents, the first one counts.
        recorded: the contents of the table.
    """
    known: dict[int | None, list[Content]] = {}
    for content in recorded:
        known.setdefault(content.first, []).append(content)
    matches = []
    # The longest first, so that a shorter copy of it is left out, not the reverse.
    for content in sorted(read, key=lambda content: -content.rows):
        alike = known.setdefault(content.first, [])
        shared = _match(content, alike, digest_first)
        matches.append((content, shared))
        if shared is None or shared.rows < content.rows:
            alike.append(content)
    return matches


def _match(content: Content, alike: Iterable[Content], digest_first: DigestFirst) -> Shared | None:
    """Return what ``content`` shares with one of ``alike``, whose first events begin alike."""
    for other in sorted(alike, key=lambda other: -other.rows):
        if content.first is None and other.rows != content.rows:
            continue  # without an event, contents are too much alike to compare their beginnings
        if other.rows <= content.rows and (shared := _share(content, other, digest_first)):
            return Shared(*shared, other.file, other.blank_lines)
        if other.rows >= content.rows and _share(other, content, digest_first):
            return Shared(content.rows, content.digest, other.file, other.blank_lines)
    return None


def _share(
    longer: Content, shorter: Content, digest_first: DigestFirst
) -> tuple[int, Digest] | None:
    """Return the rows of ``shorter`` with which ``longer`` begins, if it begins with all of them.

    The last row of ``shorter`` may be a line that was being written when the file was read. It was
    then set aside, or its event ends too early; ``longer`` has the complete line.
    """
    digest = _digest_of(longer, shorter.rows, digest_first)
    if digest is None or digest == shorter.digest:
        return None if digest is None else (shorter.rows, digest)
    before = shorter.rows - 1
    begins_alike = digest[2:] == shorter.digest[2:]
    if not before or not (begins_alike or shorter.ends_unreadable):
        return None
    digest, last = _digest_of(longer, before, digest_first), split_hash(shorter.last)
    expected = shorter.digest[0] - last[0], shorter.digest[1] - last[1]
    return (before, digest) if digest is not None and digest[:2] == expected else None


def _digest_of(content: Content, rows: int, digest_first: DigestFirst) -> Digest | None:
    """Return the digest of the first rows, or None if the content's run has only later ones."""
    if rows == content.rows:
        return content.digest
    further = rows - content.skipped_rows
    if further < 0:
        return None
    digest = digest_first(content, further) if further else NO_ROWS
    return add_digests(content.skipped_digest, digest)


def split_hash(value: int) -> tuple[int, int]:
    """Return the halves of a hash, whose sums do not overflow."""
    return value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF


def add_digests(one: Digest, other: Digest) -> Digest:
    """Return the digest of the rows of both."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
