r"""The text of a Java pattern, read character by character.

``\Q…\E`` is resolved first, as in Java. Positions in errors are those of the original text.

Source: java.util.regex.Pattern.RemoveQEQuoting, escape, o, x, u and c.
"""

from __future__ import annotations

import re
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.code_points import LAST

END: Final = ""
"""What ``peek`` returns after the last character."""

_OCTAL: Final = re.compile("0([0-3][0-7]{2}|[0-7]{1,2})")
_HEX: Final = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})")
_UNICODE: Final = re.compile("u([0-9a-fA-F]{4})")
_LOW_SURROGATE: Final = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_CONTROLS: Final = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
_CONTROL_BIT: Final = 0x40


class PatternText:
    """A pattern and a position in it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._text, self._origins = _remove_quotes(pattern)
        self.position = 0

    def peek(self, distance: int = 0) -> str:
        """Return the character at a distance from the position, or END. Consume nothing."""
        at = self.position + distance
        return self._text[at] if at < len(self._text) else END

    def read(self) -> str:
        """Consume and return the next character."""
        character = self.peek()
        self.position += 1
        return character

    def skip(self, text: str) -> bool:
        """Consume ``text`` and return True if it comes next."""
        comes_next = self._text.startswith(text, self.position)
        if comes_next:
            self.position += len(text)
        return comes_next

    def match(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        """Consume what ``expected`` matches here, and return the match."""
        found = expected.match(self._text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def error(self, start: int, reason: str) -> InvalidValueError:
        """Return the error for the construct between ``start`` and the position."""
        end = min(max(self.position, start + 1), len(self._text))
        first, last = self._origins[start], self._origins[end]
        found = f"'{self._pattern[first:last]}'" if first < last else "the end"
        return InvalidValueError(
            f"invalid pattern '{self._pattern}': {found} at character {first + 1}: {reason}"
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
        if letter in "0xu":
            return self._read_number(start)
        if letter == "c":
            self.position += 2
            if self.peek(-1) == END:
                raise self.error(start, "expected a character after \\c")
            return ord(self.peek(-1)) ^ _CONTROL_BIT
        if letter in _CONTROLS:
            self.position += 1
            return _CONTROLS[letter]
        if letter.isascii() and letter.isalnum():
            return None
        return ord(self.read())

    def _read_number(self, start: int) -> int:
        if found := self.match(_OCTAL):
            return int(found[1], 8)
        if found := self.match(_HEX):
            return self._check(start, int(found[1] or found[2], 16))
        if found := self.match(_UNICODE):
            code_point = int(found[1], 16)
            if 0xD800 <= code_point < 0xDC00 and (low := self.match(_LOW_SURROGATE)):
                return 0x10000 + ((code_point - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)
            return self._check(start, code_point)
        self.position += 1
        raise self.error(start, "expected digits: \\0n, \\0nn, \\0mnn, \\xhh, \\x{h…h} or \\uhhhh")

    def _check(self, start: int, code_point: int) -> int:
        if code_point > LAST or 0xD800 <= code_point < 0xE000:
            raise self.error(start, "this is not a Unicode character")
        return code_point


def _remove_quotes(pattern: str) -> tuple[str, list[int]]:
    r"""Return the pattern with escapes in place of ``\Q…\E``, and each character's old position."""
    written: list[tuple[str, int]] = []
    position, is_quoted = 0, False
    while position < len(pattern):
        start, size = position, 1 if is_quoted or pattern[position] != "\\" else 2
        position += size
        taken = pattern[start:position]
        if taken == "\\Q":
            is_quoted = True
        elif is_quoted and pattern.startswith("\\E", start):
            is_quoted, position = False, start + 2
        elif is_quoted:
            written += ((each, start) for each in _quote(taken))
        else:
            written += ((each, start + at) for at, each in enumerate(taken))
    written.append((END, len(pattern)))
    return "".join(each for each, _ in written), [origin for _, origin in written]


def _quote(character: str) -> str:
    """Return a pattern that matches the character, and ends any escape or number before it."""
    if character.isascii() and character.isalpha():
        return character
    return f"\\x{ord(character):02x}" if character.isascii() else character
