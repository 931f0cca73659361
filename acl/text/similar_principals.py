"""Principals that are easily confused, and how they differ.

ACLs and ``super.users`` compare principals as text. So letter case, quotes, another type, a part of
a distinguished name, or a different spelling make a different principal.

**Invariant:** nothing here decides about access.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import IntEnum
from typing import Final

from authorizerd.acl.model import WILDCARD
from authorizerd.acl.text.distinguished_names import (
    COMMON_NAME,
    Part,
    split_name,
    write_as_java,
)

CHARACTERS_MAX: Final = 1024
"""Longer principals are not compared, so that a comparison stays short."""
_QUOTES_AND_BLANKS: Final = " \t\r\n'\"`"
_PIECE: Final = re.compile(r"""[^\s'"`,+\\=<>#;/]+""")
_STARS_MAX: Final = 8


class Likeness(IntEnum):
    """How two principals resemble each other, the closest first.

    Attributes:
        SAME: they have the same name, written differently, or another type.
        PARTS: both have distinguished names with the same CN, and other parts differ.
        COMMON_NAME: one has a distinguished name, and its CN is the name of the other.
        PATTERN: the other one has a star, and would match if the star were a wildcard.
    """

    SAME = 0
    PARTS = 1
    COMMON_NAME = 2
    PATTERN = 3


class Lookalikes:
    """Find the principals that resemble a given one, and how they differ from it."""

    def __init__(self, asked: str) -> None:
        self._asked: Final = asked
        self._type, name = strip_type(asked)
        self._name: Final = _fold(name)
        self._parts: Final = split_name(name)
        self._folded: Final = Counter(part.fold() for part in self._parts)
        self._common: Final = _fold_common_names(self._parts)
        self._core: Final = re.compile(rf"(?<!\w){re.escape(self._find_core())}(?!\w)")

    def _find_core(self) -> str:
        """Return a text that all similar principals contain, except those with a star."""
        values = self._common or [part.value for part in self._parts] or [self._name]
        pieces = [piece for value in values for piece in _PIECE.findall(value)]
        return max(pieces, key=len, default=self._name).casefold()

    def may_be_among(self, folded: str) -> bool:
        """Return False if a case-folded text contains no principal that resembles this one."""
        return WILDCARD in folded or self._core.search(folded) is not None

    def compare(self, other: str) -> Likeness | None:
        """Return how another principal resembles this one, or None if it does not."""
        if other == self._asked or max(len(other), len(self._asked)) > CHARACTERS_MAX:
            return None
        kind, name = strip_type(other)
        parts = split_name(name)
        folded = Counter(part.fold() for part in parts)
        if folded == self._folded and (parts or _fold(name) == self._name):
            return Likeness.SAME
        common = _fold_common_names(parts)
        if common and common == self._common:
            return Likeness.PARTS
        if self._name in common or _fold(name) in self._common:
            return Likeness.COMMON_NAME
        patterns = [(name, self._asked.partition(":")[2]), *zip(common, self._common, strict=False)]
        if kind == self._type and any(_would_match(*pattern) for pattern in patterns):
            return Likeness.PATTERN
        return None

    def describe(self, other: str, likeness: Likeness) -> str:
        """Return how another principal, which is allowed, differs from this one."""
        if likeness is Likeness.PATTERN:
            return f"{WILDCARD} is an ordinary character in a principal"
        parts = split_name(strip_type(other)[1])
        if likeness is Likeness.COMMON_NAME:
            if self._parts:
                return "the allowed one is only the CN: no mapping rule has shortened this one"
            return "the allowed one is the whole distinguished name, and this one only its CN"
        if likeness is Likeness.PARTS:
            lacking, further = _subtract(self._parts, parts), _subtract(parts, self._parts)
            if lacking and further:
                return f"the allowed one has {further}, not {lacking}"
            differs = f"also has {further}" if further else f"lacks {lacking}"
            return f"the allowed one {differs}"
        return self._describe_spelling(other, parts)

    def _describe_spelling(self, other: str, parts: tuple[Part, ...]) -> str:
        kind, _, name = other.partition(":")
        asked_kind, colon, asked_name = self._asked.partition(":")
        if not colon:
            return "the type is missing"
        if kind != asked_kind and name == asked_name:
            if kind.casefold() == asked_kind.casefold():
                return "the letter case of the type differs"
            return "the type differs"
        if len(strip_type(self._asked)[1]) < len(asked_name.strip(_QUOTES_AND_BLANKS)):
            return "the type is repeated"
        if len(strip_type(other)[1]) < len(name.strip(_QUOTES_AND_BLANKS)):
            return "the allowed one repeats the type"
        if other.casefold() == self._asked.casefold():
            return "the letter case differs"
        if name.strip(_QUOTES_AND_BLANKS) == asked_name.strip(_QUOTES_AND_BLANKS):
            return "blanks or quotes around the name differ"
        return self._describe_parts(parts) if parts else "they are written differently"

    def _describe_parts(self, parts: tuple[Part, ...]) -> str:
        text = "the distinguished names are written differently"
        if [part.fold() for part in parts] != [part.fold() for part in self._parts]:
            return "the order of the parts of the distinguished name differs"
        written = write_as_java(self._parts)
        return f"{text}: Java writes {written}" if write_as_java(parts) == written else text


def strip_type(principal: str) -> tuple[str, str]:
    """Return the type and the name, without a repeated type, quotes and blanks."""
    principal = principal.strip(_QUOTES_AND_BLANKS)
    kind, colon, name = principal.partition(":")
    if not colon:
        return "", principal
    name = name.strip(_QUOTES_AND_BLANKS)
    while name.casefold().startswith(f"{kind.casefold()}:"):
        name = name[len(kind) + 1 :].strip(_QUOTES_AND_BLANKS)
    return kind, name


def _fold(name: str) -> str:
    return name.casefold()


def _fold_common_names(parts: tuple[Part, ...]) -> list[str]:
    return [value for attribute, value in map(Part.fold, parts) if attribute == COMMON_NAME]


def _subtract(parts: tuple[Part, ...], others: tuple[Part, ...]) -> str:
    """Return the parts that others lack, as text."""
    folded = Counter(part.fold() for part in others)
    kept = []
    for part in parts:
        folded[part.fold()] -= 1
        if folded[part.fold()] < 0:
            kept.append(str(part))
    return ",".join(kept)


def _would_match(pattern: str, name: str) -> bool:
    """Return True if a name would match a pattern whose stars stand for any text."""
    start, *pieces = pattern.split(WILDCARD, _STARS_MAX)
    if not pieces or not name.startswith(start):
        return False
    position = len(start)
    *pieces, end = pieces
    for piece in pieces:
        found = name.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(name) - position >= len(end) and name.endswith(end)
