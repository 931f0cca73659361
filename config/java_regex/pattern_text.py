"""The text of a Java pattern, read character by character, and its escapes for characters.

Source: java.util.regex.Pattern.escape, x and u.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from authorizerd.config.errors import InvalidValueError

END: Final = ""
"""What ``peek`` returns after the last character."""

_NUMBER: Final = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})|u([0-9a-fA-F]{4})")
_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}


class PatternText:
    """A pattern and a position in it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    def peek(self, distance: int = 0) -> str:
        """Return the character at a distance from the position, or END. Consume nothing."""
        at = self.position + distance
        return self._pattern[at] if at < len(self._pattern) else END

    def read(self) -> str:
        """Consume and return the next character."""
        character = self.peek()
        self.position += 1
        return character

    def skip(self, text: str) -> bool:
        """Consume ``text`` and return True if it comes next."""
        comes_next = self._pattern.startswith(text, self.position)
        if comes_next:
            self.position += len(text)
        return comes_next

    def match(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        """Consume what ``expected`` matches here, and return the match."""
        found = expected.match(self._pattern, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def error(self, start: int, reason: str) -> InvalidValueError:
        """Return the error for the construct between ``start`` and the position."""
        construct = self._pattern[start : max(self.position, start + 1)]
        found = f"'{construct}'" if construct else "the end"
        return InvalidValueError(
            f"invalid pattern '{self._pattern}': {found} at character {start + 1}: {reason}"
        )

    def read_character_escape(self, start: int) -> int | None:
        r"""Return the code point of an escape such as ``\n``, ``\x41`` or ``\,``.

        ``start`` is the position of the backslash; the current position is after it. If the escape
        is something other than a character, return None and consume nothing.

        Raises:
            InvalidValueError: the escape is malformed.
        """
        letter = self.peek()
        if letter == END:
            raise self.error(start, "expected a character after the backslash")
        if letter in "xu":
            return self._read_number(start)
        if letter in _CONTROLS:
            self.position += 1
            return _CONTROLS[letter]
        if letter.isascii() and letter.isalnum():
            return None
        return ord(self.read())

    def _read_number(self, start: int) -> int:
        found = self.match(_NUMBER)
        if found is None:
            self.position += 1
            raise self.error(start, "expected digits: \\xhh, \\x{h…h} or \\uhhhh")
        code_point = int(found[1] or found[2] or found[3], 16)
        if code_point > sys.maxunicode or 0xD800 <= code_point < 0xE000:
            raise self.error(
                start, "expected a Unicode character: write \\x{h…h} for one above FFFF"
            )
        return code_point


def escape(code_point: int) -> str:
    """Return a code point as RE2 reads it, inside and outside of brackets."""
    character = chr(code_point)
    if character.isascii() and character.isalnum():
        return character
    return f"\\x{{{code_point:x}}}"
