"""Read Java's character classes in brackets: ranges, unions, intersections, negations.

Source: java.util.regex.Pattern.clazz and range, which this follows step by step.
"""

from __future__ import annotations

from typing import Final

from authorizerd.config.java_regex.code_points import CodePoints, from_ranges
from authorizerd.config.java_regex.pattern_text import END, PatternText
from authorizerd.config.java_regex.properties import ESCAPES, look_up

_DEPTH_MAX: Final = 50


class BracketReader:
    """Read one bracketed class, and those nested in it."""

    def __init__(self, text: PatternText, *, ignore_case: bool) -> None:
        self._text = text
        self._ignore_case = ignore_case
        self._depth = 0

    def read(self) -> CodePoints:
        """Return the class that begins with the bracket at the position, and consume it.

        Raises:
            InvalidValueError: the class is malformed, or its meaning depends on a quirk of Java.
        """
        start = self._text.position
        self._text.position += 1
        is_negated = self._text.skip("^")
        return self._read_members(start, is_negated)

    def _read_members(self, start: int, is_negated: bool) -> CodePoints:
        """Read through the closing bracket."""
        found = self._read_union(start)
        self._text.position += 1
        return ~found if is_negated else found

    def _read_union(self, start: int) -> CodePoints:
        """Read up to the closing bracket, which is not consumed."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._text.error(start, f"classes are nested more than {_DEPTH_MAX} deep")
        found: CodePoints | None = None
        while not (self._text.peek() == "]" and found is not None):
            if self._text.peek() == END:
                raise self._text.error(start, "this character class is not closed")
            if self._text.peek() == "[":
                added = self.read()
            elif self._text.skip("&&"):
                found = self._intersect(start, found)
                break
            else:
                added = self._read_range()
            found = added if found is None else found | added
        self._depth -= 1
        assert found is not None
        return found

    def _intersect(self, start: int, left: CodePoints | None) -> CodePoints:
        """Return the intersection of ``left`` and the rest, up to the closing bracket."""
        while True:
            # Java accepts each of these, but the meaning is an accident of its parser.
            if left is None or self._text.peek() in ("]", "&", "^", END):
                raise self._text.error(start, "expected a class on each side of &&")
            left &= self._read_right_side(start)
            if self._text.peek() == "]":
                return left
            if not self._text.skip("&&"):
                raise self._text.error(start, "expected && or ] after a class")

    def _read_right_side(self, start: int) -> CodePoints:
        found = from_ranges([])
        while self._text.peek() not in ("]", "&"):
            is_bracketed = self._text.peek() == "["
            found |= self.read() if is_bracketed else self._read_union(start)
        return found

    def _read_range(self) -> CodePoints:
        start = self._text.position
        first = self._read_end(start)
        if isinstance(first, CodePoints):
            return first
        last = first
        if self._text.peek() == "-" and self._text.peek(1) not in ("[", "]", END):
            self._text.position += 1
            found = self._read_end(start)
            if isinstance(found, CodePoints) or found < first:
                raise self._text.error(start, "expected a range from a lower to a higher character")
            last = found
        points = from_ranges([(first, last)])
        return points.with_both_cases() if self._ignore_case else points

    def _read_end(self, start: int) -> int | CodePoints:
        """Return a character, or the class that an escape stands for."""
        escape_start = self._text.position
        character = self._text.read()
        if character != "\\":
            return ord(character)
        if self._text.peek() == "v" and self._text.peek(1) == "-":
            raise self._text.error(start, "\\v is a class: write \\x0B for the character")
        code_point = self._text.read_character_escape(escape_start)
        if code_point is not None:
            return code_point
        return read_class_escape(self._text, escape_start, ignore_case=self._ignore_case)


def read_class_escape(text: PatternText, start: int, *, ignore_case: bool) -> CodePoints:
    r"""Return the class of an escape such as ``\d`` or ``\p{Lu}``; the position is after the ``\``.

    Raises:
        InvalidValueError: the escape is not a class, or Python has no data for the class.
    """
    letter = text.read()
    if letter in ESCAPES:
        return ESCAPES[letter]
    if letter not in ("p", "P"):
        raise text.error(start, "this escape has no meaning here, or is not supported")
    name = _read_property_name(text, start)
    points = look_up(name, ignore_case=ignore_case)
    if points is None:
        raise text.error(
            start,
            "unknown or unsupported class: expected a general category such as Lu, or one of "
            "Java's POSIX classes such as Alpha",
        )
    return ~points if letter == "P" else points


def _read_property_name(text: PatternText, start: int) -> str:
    if not text.skip("{"):
        name = text.read()
        if name == END:
            raise text.error(start, "expected the name of a class")
        return name
    name = ""
    while (character := text.read()) != "}":
        if character == END:
            raise text.error(start, "expected } after the name of a class")
        name += character
    return name
