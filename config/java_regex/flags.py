"""The flags of a Java pattern, such as ``(?s)``, and how they change ``.``, ``^`` and ``$``.

Source: java.util.regex.Pattern.Caret, UnixCaret, Dollar and UnixDollar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from authorizerd.config.java_regex.code_points import CodePoints, from_text
from authorizerd.config.java_regex.properties import ANY, LINE_ENDS

_NEW_LINE: Final = from_text("\n")
_LONE_ENDS: Final = (LINE_ENDS & ~_NEW_LINE).to_regex()

FLAG_NAMES: Final = {
    "i": "ignore_case", "m": "multiline", "s": "dot_all", "d": "unix_lines",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that apply at one place of a pattern."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    unix_lines: bool = False

    def dot(self) -> CodePoints:
        """Return the characters that ``.`` matches."""
        if self.dot_all:
            return ANY
        return ~(_NEW_LINE if self.unix_lines else LINE_ENDS)

    def start_of_line(self) -> str:
        """Return ``re``'s equivalent of ``^``. No line starts between CR and LF, or at the end."""
        if not self.multiline:
            return "\\A"
        starts = "\\A|(?<=\n)"
        if not self.unix_lines:
            starts += f"|(?<={_LONE_ENDS})(?<!\r(?=\n))"
        return f"(?!\\Z)(?:{starts})"

    def end_of_line(self) -> str:
        """Return ``re``'s equivalent of ``$``. No line ends between CR and LF."""
        if not self.multiline:
            return self.end_of_text()
        if self.unix_lines:
            return "(?:\\Z|(?=\n))"
        return f"(?:\\Z|(?={_LONE_ENDS})|(?<!\r)(?=\n))"

    def end_of_text(self) -> str:
        """Return ``re``'s equivalent of ``\\Z``: the end, or before a final line terminator."""
        if self.unix_lines:
            return "(?:\\Z|(?=\n\\Z))"
        return f"(?:\\Z|(?=(?:\r\n|{_LONE_ENDS})\\Z)|(?<!\r)(?=\n\\Z))"
