r"""The characters and the character classes of a Java pattern, written for RE2.

Source: java.util.regex.Pattern.clazz, range, escape, x and u, which this follows step by step.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from authorizerd.config.errors import InvalidValueError

_CASE_GAP: Final = ord("a") - ord("A")
_NUMBER: Final = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})|u([0-9a-fA-F]{4})")
_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_CLASS_NAME: Final = re.compile(r"\{([^}]*)\}|(?!\{)(.?)", re.DOTALL)
_LETTER_CLASSES: Final = {"d": "digit", "s": "space", "w": "word"}
# Both engines know these names, as classes of ASCII characters.
_POSIX: Final = frozenset(
    {
        *("Alnum", "Alpha", "ASCII", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print"),
        *("Punct", "Space", "Upper", "XDigit"),
    }
)
_CATEGORIES: Final = frozenset(
    {
        *("L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"),
        *("P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So"),
        *("Z", "Zl", "Zp", "Zs"),
    }
)
_OF_ONE_CASE: Final = frozenset({"Lower", "Upper", "Ll", "Lt", "Lu"})


class CharacterReader:
    """A pattern, the position in it, and the flags that apply there: those of ``i`` and ``s``.

    ``has_category`` is True once a class was a category of Unicode.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.has_category = False

    def match(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        """Match ``expected`` here, consume the match, and return it."""
        match = expected.match(self.pattern, self.at)
        self.at = self.at if match is None else match.end()
        return match

    def skip(self, text: str) -> bool:
        """Consume ``text`` and return True if it comes next."""
        comes_next = self.pattern.startswith(text, self.at)
        self.at += len(text) * comes_next
        return comes_next

    def read(self) -> str:
        """Consume and return the next character, empty at the end."""
        self.at += 1
        return self.pattern[self.at - 1 : self.at]

    def error(self, start: int, reason: str) -> InvalidValueError:
        """Return the error for the construct between ``start`` and the position."""
        construct = self.pattern[start : max(self.at, start + 1)]
        shown = f"'{construct}'" if construct else "the end"
        return InvalidValueError(
            f"invalid pattern '{self.pattern}': {shown} at character {start + 1}: {reason}"
        )

    def write_literal(self, code_point: int) -> str:
        """Return a pattern for one character, outside of brackets."""
        return f"[{self._write_range(code_point, code_point)}]"

    def _write_range(self, first: int, last: int) -> str:
        """Return a range inside of brackets; the flag i adds the other case of ASCII letters."""
        ranges = [(first, last)]
        for lower, upper, gap in (("a", "z", -_CASE_GAP), ("A", "Z", _CASE_GAP)):
            start, end = max(first, ord(lower)), min(last, ord(upper))
            if "i" in self.flags and start <= end:
                ranges.append((start + gap, end + gap))
        return "".join(
            _escape(start) if start == end else f"{_escape(start)}-{_escape(end)}"
            for start, end in ranges
        )

    def read_class(self, start: int) -> str:
        """Return the class whose bracket was just consumed."""
        written = "[^" if self.skip("^") else "["
        is_empty = True
        while is_empty or not self.pattern.startswith("]", self.at):
            here = self.at
            if here >= len(self.pattern):
                raise self.error(start, "this character class is not closed")
            if self.skip("&&"):
                raise self.error(here, "intersections of classes are not supported")
            if self.skip("["):
                raise self.error(here, "classes in classes are not supported: write \\[ for [")
            written += self._read_range()
            is_empty = False
        self.at += 1
        return f"{written}]"

    def _read_range(self) -> str:
        start = self.at
        first = last = self._read_range_end()
        if isinstance(first, str):
            return first
        following = self.pattern[self.at : self.at + 2]
        if following[:1] == "-" and following[1:] not in ("[", "]", ""):
            self.at += 1
            last = self._read_range_end()
            if isinstance(last, str) or last < first:
                raise self.error(start, "expected a range from a lower to a higher character")
        assert isinstance(last, int)
        return self._write_range(first, last)

    def _read_range_end(self) -> int | str:
        here = self.at
        character = self.read()
        return self.read_escape(here) if character == "\\" else ord(character)

    def read_escape(self, start: int) -> int | str:
        r"""Return the code point of an escape such as ``\n``, or a class such as ``\d`` for
        brackets.

        ``start`` is the position of the backslash, which was just consumed.

        Raises:
            InvalidValueError: the escape is neither, or RE2's class may differ.
        """
        letter = self.pattern[self.at : self.at + 1]
        if letter == "":
            raise self.error(start, "expected a character after the backslash")
        if letter in "xu":
            return self._read_number(start)
        self.at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if not (letter.isascii() and letter.isalnum()):
            return ord(letter)
        if letter.lower() in _LETTER_CLASSES:
            return f"[:{'^' * letter.isupper()}{_LETTER_CLASSES[letter.lower()]}:]"
        if letter in "pP":
            return self._read_property(start, letter)
        raise self.error(start, "this escape has no meaning here, or is not supported")

    def _read_property(self, start: int, letter: str) -> str:
        match = self.match(_CLASS_NAME)
        if match is None:
            self.at = len(self.pattern)
            raise self.error(start, "expected } after the name of a class")
        name = match[match.lastindex or 0]
        if "i" in self.flags and name in _OF_ONE_CASE:
            raise self.error(start, "classes of one case are not supported with the flag i")
        if name in _POSIX:
            return f"[:{'^' * letter.isupper()}{name.lower()}:]"
        if name in _CATEGORIES:
            self.has_category = True
            return f"\\{letter}{{{name}}}"
        raise self.error(
            start,
            "unknown or unsupported class: expected a general category such as Lu, or one of "
            "Java's POSIX classes such as Alpha",
        )

    def _read_number(self, start: int) -> int:
        match = self.match(_NUMBER)
        if match is None:
            self.at += 1
            raise self.error(start, "expected digits: \\xhh, \\x{h…h} or \\uhhhh")
        code_point = int(match[1] or match[2] or match[3], 16)
        if code_point > sys.maxunicode or 0xD800 <= code_point < 0xE000:
            raise self.error(
                start, "expected a Unicode character: write \\x{h…h} for one above FFFF"
            )
        return code_point


def _escape(code_point: int) -> str:
    """Return a code point as RE2 reads it, inside and outside of brackets."""
    character = chr(code_point)
    if character.isascii() and character.isalnum():
        return character
    return f"\\x{{{code_point:x}}}"
