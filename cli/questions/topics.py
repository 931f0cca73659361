"""The known topics that a pattern covers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.acl.patterns import misses_wildcard


def find_covered(
    topics: Sequence[str],
    pattern_type: int,
    name: str,
    exceptions: Iterable[tuple[int, str]] = (),
) -> list[str]:
    """Return the names that a pattern matches, and none of its exceptions.

    Args:
        topics: sorted names.
        exceptions: the types and names of patterns.
    """
    literals: set[str] = set()
    prefixes: list[str] = []
    for exception_type, exception in exceptions:
        if exception_type == PatternType.PREFIXED:
            prefixes.append(exception)
        else:
            literals.add(exception)
    excepted = tuple(prefixes)
    return [
        topic
        for topic in _find_matches(topics, pattern_type, name)
        if topic not in literals and not topic.startswith(excepted)
    ]


def _find_matches(topics: Sequence[str], pattern_type: int, name: str) -> Sequence[str]:
    start = bisect_left(topics, name)
    if pattern_type == PatternType.PREFIXED:
        end = start
        while end < len(topics) and topics[end].startswith(name):
            end += 1
        return topics[start:end]
    if name == WILDCARD:
        return [topic for topic in topics if not misses_wildcard(topic)]
    return [name] if start < len(topics) and topics[start] == name else []
