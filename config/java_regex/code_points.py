"""Sets of code points, and how to write one for Python's ``re``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

LAST: Final = 0x10FFFF
_CASE_GAP: Final = ord("a") - ord("A")

Range = tuple[int, int]


@dataclass(frozen=True)
class CodePoints:
    """A set of code points, as sorted ranges with gaps between them. Both ends are included."""

    ranges: tuple[Range, ...]

    def __or__(self, other: CodePoints) -> CodePoints:
        return from_ranges(self.ranges + other.ranges)

    def __and__(self, other: CodePoints) -> CodePoints:
        return ~(~self | ~other)

    def __invert__(self) -> CodePoints:
        return self._complement

    @cached_property
    def _complement(self) -> CodePoints:
        ends = [-1, *(each for bounds in self.ranges for each in bounds), LAST + 1]
        gaps = zip(ends[::2], ends[1::2], strict=True)
        return CodePoints(tuple((first + 1, last - 1) for first, last in gaps if last - first > 1))

    def with_both_cases(self) -> CodePoints:
        """Return this set with the other case of each ASCII letter in it."""
        lower = self & from_ranges([(ord("a"), ord("z"))])
        upper = self & from_ranges([(ord("A"), ord("Z"))])
        return self | lower._shift(-_CASE_GAP) | upper._shift(_CASE_GAP)

    def _shift(self, distance: int) -> CodePoints:
        return CodePoints(tuple((a + distance, b + distance) for a, b in self.ranges))

    def to_regex(self) -> str:
        """Return a pattern for ``re`` that matches one code point of this set."""
        if not self.ranges:
            return "(?!)"
        if self.ranges == ((0, LAST),):
            return "(?s:.)"
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return escape(self.ranges[0][0])
        if self.ranges[0][0] == 0 and self.ranges[-1][1] == LAST:
            return f"[^{(~self)._written()}]"
        return f"[{self._written()}]"

    def _written(self) -> str:
        return "".join(
            escape(first) if first == last else f"{escape(first)}-{escape(last)}"
            for first, last in self.ranges
        )


def from_ranges(ranges: Iterable[Range]) -> CodePoints:
    """Return the set of all code points in ``ranges``, which may overlap."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return CodePoints(tuple(merged))


def from_text(text: str) -> CodePoints:
    """Return the set of the characters of ``text``."""
    return from_ranges((ord(each), ord(each)) for each in text)


def escape(code_point: int) -> str:
    """Return a code point as ``re`` reads it, inside and outside of brackets."""
    character = chr(code_point)
    if character.isascii() and character.isalnum():
        return character
    if code_point < 0x100:
        return f"\\x{code_point:02x}"
    return f"\\u{code_point:04x}" if code_point < 0x10000 else f"\\U{code_point:08x}"
