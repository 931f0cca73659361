"""Divide infinitely many names into finitely many classes that the ACLs cannot tell apart.

An assertion about a prefix speaks of infinitely many names. Patterns are literals and prefixes, so
the patterns that match a name depend only on two things: the literal equal to it, if any, and the
longest prefix that it begins with. Names that agree in both form one class, for which every
decision is the same. So a question about one example of each class answers for all names: this is a
proof, not a sample.

**Invariant:** each name of the region is in exactly one class of ``divide``, and the same patterns
match every name of a class. (Kafka's wildcard, the literal ``*``, matches all names but those that
begin with ``*``. ``divide`` treats ``*`` as a prefix too, so this holds for the wildcard as well.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from string import ascii_lowercase, digits
from typing import Final, NamedTuple, TypeAlias

from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.management.policy.words import Names

Pattern: TypeAlias = tuple[int, str]
"""A pattern's type, LITERAL or PREFIXED, and its name."""

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_BOUNDARIES: Final[tuple[Pattern, ...]] = ((_LITERAL, WILDCARD), (_PREFIXED, WILDCARD))
_CHARACTERS: Final = ascii_lowercase + digits
_PRIVATE_USE: Final = 0xE000
"""The first of many characters that are unlikely in names."""


class NameClass(NamedTuple):
    """A class of names: one name, or a prefix's names that match no longer pattern.

    ``example`` is one of its names.
    """

    names: Names
    example: str

    @property
    def begins_with_star(self) -> bool:
        """Whether the names begin with ``*``, which Kafka's wildcard does not match."""
        return self.example.startswith(WILDCARD)


def divide(region: Names, patterns: Iterable[Pattern]) -> Iterator[NameClass]:
    """Yield the classes of the names of ``region``, the largest first.

    Args:
        patterns: all patterns on which a decision may depend. Others may be among them.
    """
    if not region.is_prefix:
        yield NameClass(region, region.text)
        return
    literals: set[str] = set()
    prefixes = {region.text}
    for pattern_type, name in chain(patterns, _BOUNDARIES):
        if name.startswith(region.text):
            (literals if pattern_type == _LITERAL else prefixes).add(name)
    literals.discard("")  # no resource has an empty name
    followers = _find_followers(prefixes, literals)
    for prefix in sorted(prefixes, key=lambda each: (len(each), each)):
        example = prefix + _choose_character(followers[prefix])
        yield NameClass(Names(prefix, is_prefix=True), example)
    for name in sorted(literals):
        yield NameClass(Names(name), name)


def _find_followers(prefixes: set[str], literals: set[str]) -> dict[str, set[str]]:
    """Return, for each prefix, the characters that follow it in longer patterns."""
    followers: dict[str, set[str]] = {prefix: set() for prefix in prefixes}
    lengths = sorted(set(map(len, prefixes)))
    for name in chain(prefixes, literals):
        for length in lengths:
            if length >= len(name):
                break
            characters = followers.get(name[:length])
            if characters is not None:
                characters.add(name[length])
    return followers


def _choose_character(taken: set[str]) -> str:
    """Return a character that extends a prefix to a name that matches no longer pattern."""
    for character in _CHARACTERS:
        if character not in taken:
            return character
    return next(chr(code) for code in count(_PRIVATE_USE) if chr(code) not in taken)
