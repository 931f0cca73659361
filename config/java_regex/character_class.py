r"""Java's character classes, in brackets or as escapes, written for RE2.

Source: java.util.regex.Pattern.clazz and range, which this follows step by step.
"""

from __future__ import annotations

from typing import Final

from authorizerd.config.java_regex.pattern_text import END, PatternText, escape

_CASE_GAP: Final = ord("a") - ord("A")
_ESCAPES: Final = {"d": "digit", "s": "space", "w": "word"}
# Both know these names, and for both they are classes of ASCII characters.
_POSIX: Final = frozenset(
    {
        *("Alnum", "Alpha", "ASCII", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print"),
        *("Punct", "Space", "Upper", "XDigit"),
    }
)
CATEGORIES: Final = frozenset(
    {
        *("L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"),
        *("P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So"),
        *("Z", "Zl", "Zp", "Zs"),
    }
)
_OF_ONE_CASE: Final = frozenset({"Lower", "Upper", "Ll", "Lt", "Lu"})


class ClassReader:
    """Read the classes of one pattern. ``has_category`` is True once one was a category."""

    def __init__(self, text: PatternText) -> None:
        self._text = text
        self.has_category = False

    def read_bracketed(self, *, ignore_case: bool) -> str:
        """Return the class that begins with the bracket at the position, and consume it.

        Raises:
            InvalidValueError: the class is malformed, or RE2 has no equivalent.
        """
        start = self._text.position
        self._text.position += 1
        written = "[^" if self._text.skip("^") else "["
        is_empty = True
        while is_empty or self._text.peek() != "]":
            here = self._text.position
            if self._text.peek() == END:
                raise self._text.error(start, "this character class is not closed")
            if self._text.skip("&&"):
                raise self._text.error(here, "intersections of classes are not supported")
            if self._text.skip("["):
                raise self._text.error(
                    here, "classes in classes are not supported: write \\[ for ["
                )
            written += self._read_range(ignore_case)
            is_empty = False
        self._text.position += 1
        return f"{written}]"

    def _read_range(self, ignore_case: bool) -> str:
        start = self._text.position
        first = self._read_end(start, ignore_case)
        if isinstance(first, str):
            return first
        last = first
        if self._text.peek() == "-" and self._text.peek(1) not in ("[", "]", END):
            self._text.position += 1
            found = self._read_end(start, ignore_case)
            if isinstance(found, str) or found < first:
                raise self._text.error(start, "expected a range from a lower to a higher character")
            last = found
        return write_range(first, last, ignore_case=ignore_case)

    def _read_end(self, start: int, ignore_case: bool) -> int | str:
        """Return a character, or what an escape for a class is inside of brackets."""
        here = self._text.position
        character = self._text.read()
        if character != "\\":
            return ord(character)
        code_point = self._text.read_character_escape(here)
        return self.read_escape(here, ignore_case) if code_point is None else code_point

    def read_escape(self, start: int, ignore_case: bool) -> str:
        r"""Return what an escape such as ``\d`` or ``\p{Lu}`` is inside of brackets.

        The position is after the ``\``.

        Raises:
            InvalidValueError: the escape is not a class, or RE2 may know another one.
        """
        letter = self._text.read()
        is_negated = "^" if letter.isupper() else ""
        if letter.lower() in _ESCAPES:
            return f"[:{is_negated}{_ESCAPES[letter.lower()]}:]"
        if letter not in ("p", "P"):
            raise self._text.error(start, "this escape has no meaning here, or is not supported")
        name = self._read_property_name(start)
        if ignore_case and name in _OF_ONE_CASE:
            raise self._text.error(start, "classes of one case are not supported with the flag i")
        if name in _POSIX:
            return f"[:{is_negated}{name.lower()}:]"
        if name in CATEGORIES:
            self.has_category = True
            return f"\\{letter}{{{name}}}"
        raise self._text.error(
            start,
            "unknown or unsupported class: expected a general category such as Lu, or one of "
            "Java's POSIX classes such as Alpha",
        )

    def _read_property_name(self, start: int) -> str:
        if not self._text.skip("{"):
            return self._text.read()
        name = ""
        while (character := self._text.read()) != "}":
            if character == END:
                raise self._text.error(start, "expected } after the name of a class")
            name += character
        return name


def write_range(first: int, last: int, *, ignore_case: bool) -> str:
    """Return a range inside of brackets; ``ignore_case`` adds the other case of ASCII letters."""
    ranges = [(first, last)]
    for lower, upper, gap in (("a", "z", -_CASE_GAP), ("A", "Z", _CASE_GAP)):
        start, end = max(first, ord(lower)), min(last, ord(upper))
        if ignore_case and start <= end:
            ranges.append((start + gap, end + gap))
    return "".join(
        escape(start) if start == end else f"{escape(start)}-{escape(end)}" for start, end in ranges
    )
