r"""Translate a Java regular expression to one of RE2, which never backtracks.

**Invariant:** a translated pattern matches exactly what the original matches in Java, in linear
time. A pattern that cannot be translated is an InvalidValueError that names the construct and its
position.

Flags and classes are resolved here, so the result has no flags. Some constructs are rejected,
although Java accepts them:

- those that RE2 cannot express without backtracking: look-around, back references, possessive
  quantifiers and atomic groups;
- those that no known rule uses, such as ``(?m)``, ``\h`` and classes in classes;
- those whose meaning depends on Java's version or Unicode data, such as ``(?u)``;
- capturing groups in places where the engines disagree about what is captured;
- quantifiers after something that may match the empty string.

Source: java.util.regex.Pattern of Java 17 and 25.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from unicodedata import ucd_3_2_0

import re2

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.characters import CharacterReader

Pattern = re.Pattern[str]
"""A pattern of RE2, whose Python interface is that of ``re``."""

LINE_ENDS: Final = ("\n", "\r", "\x85", "\u2028", "\u2029")
PROGRAM_SIZE_MAX: Final = 5000
"""The maximum number of RE2 instructions of a pattern, which bounds the time per character."""

_MEMORY_MAX: Final = 2**20  # in bytes; RE2 keeps states of its automaton in it
_DEPTH_MAX: Final = 50
_REPETITIONS_MAX: Final = 1000  # as in RE2
_ANY: Final = "(?s:.)"
_NO_LINE_END: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"

_QUOTED: Final = re.compile(r"\\Q(.*?)(?:(\\E)|\Z)", re.DOTALL)
_GROUP: Final = re.compile(r"\((?!\?)|\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_FLAG_NAMES: Final = "is"
_QUANTIFIER: Final = re.compile(r"(?:([?*+])|\{([0-9]+)(?:(,)([0-9]*))?\})([?+]?)")
_REFUSED: Final = tuple(
    (re.compile(construct), reason)
    for construct, reason in (
        (r"\(\?(?:<?[=!]|>)", "look-around and atomic groups are not supported"),
        (r"\(\?<", "expected (?<name> with letters and digits, once"),
        (r"(?s)\(\?.?", "unknown kind of group"),
        (r"[?*+{]", "expected an expression before the quantifier"),
        (r"\\[1-9k]", "back references are not supported"),
        (r"\\[bB](?=\{)", "grapheme boundaries are not supported"),
    )
)

Doubt = tuple[str, Callable[[str], bool]]
"""A construct, and a pattern for texts that Java may treat differently because of it."""

_BOUNDARY: Final[Doubt] = ("\\b or \\B", lambda text: not text.isascii())  # Java 19 changed it
_END: Final[Doubt] = ("$ or \\Z", lambda text: text.endswith(LINE_ENDS))
_CATEGORY: Final[Doubt] = (  # characters assigned in 2002 have the same category in each release
    "a class such as \\p{L}",
    lambda text: any(ucd_3_2_0.category(character) == "Cn" for character in text),
)


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for RE2, whose groups have the same numbers as in Java."""

    pattern: Pattern
    group_names: Mapping[str, int]
    doubts: tuple[Doubt, ...]

    def find_doubt(self, text: str) -> str | None:
        """Return the construct that makes Java's answer for a text unknown, or None."""
        return next((construct for construct, holds in self.doubts if holds(text)), None)


def translate(pattern: str) -> Translation:
    """Return the translation of a Java pattern.

    Raises:
        InvalidValueError: Java rejects the pattern, or it cannot be translated. The text names the
            construct and its position.
    """
    parser = _Parser(pattern)
    text = parser.parse()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode()
        raise InvalidValueError(f"invalid pattern '{pattern}': unsupported: {reason}") from error
    if compiled.programsize > PROGRAM_SIZE_MAX:
        raise InvalidValueError(
            f"invalid pattern '{pattern}': RE2 needs {compiled.programsize} instructions for it, "
            f"expected at most {PROGRAM_SIZE_MAX}: use smaller numbers of repetitions"
        )
    doubts = (*parser.doubts, _CATEGORY) if parser.has_category else tuple(parser.doubts)
    return Translation(compiled, MappingProxyType(parser.group_names), doubts)


@dataclass(slots=True)
class _Group:
    """An open group: ``head`` with what was written, and the flags outside of it.

    ``is_empty`` is True while the last alternative can match the empty string, ``may_be_empty`` if
    an earlier one can.
    """

    start: int
    head: str
    flags: frozenset[str]
    written: list[str] = field(default_factory=list)
    is_empty: bool = True
    may_be_empty: bool = False
    captures: bool = False


class _Parser(CharacterReader):
    """Translate one pattern."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._open = [_Group(0, "", self.flags)]
        self._groups = 0
        self.group_names: dict[str, int] = {}
        self.doubts: dict[Doubt, None] = {}

    def parse(self) -> str:
        """Return the whole pattern for RE2."""
        while self.at < len(self.pattern):
            start, group = self.at, self._open[-1]
            if self.skip("|"):
                group.written.append("|")
                group.may_be_empty |= group.is_empty
                group.is_empty = True
            elif self.skip(")"):
                self._close_group()
            elif (quoted := self.match(_QUOTED)) is not None:
                for character in quoted[1][:-1]:
                    self._add(self.write_literal(ord(character)))
                if quoted[1]:
                    self._add(self.write_literal(ord(quoted[1][-1])), start)
            elif not self._open_group():
                self._read_piece()
        if len(self._open) > 1:
            raise self.error(self._open[-1].start, "this group is not closed")
        return "".join(self._open[0].written)

    def _open_group(self) -> bool:
        """Consume the head of a group, or the flags of ``(?i)``; False if there is neither."""
        start, flags = self.at, self.flags
        if (match := self.match(_GROUP)) is not None:
            self._groups += 1
            if match[1] in self.group_names:
                raise self.error(start, "expected (?<name> with letters and digits, once")
            if match[1] is not None:
                self.group_names[match[1]] = self._groups
        elif (match := self.match(_FLAGS)) is not None:
            on, off = match[1], match[2] or ""
            for letter in on:
                if letter not in _FLAG_NAMES:
                    raise self.error(start, f"the flag {letter} is not supported: use i or s")
            self.flags = flags.union(on).difference(off)
            if match[3] == ")":
                return True
        else:
            return False
        if len(self._open) > _DEPTH_MAX:
            raise self.error(start, f"groups are nested more than {_DEPTH_MAX} deep")
        self._open.append(_Group(start, "(?:" if match.re is _FLAGS else "(", flags))
        return True

    def _close_group(self) -> None:
        group = self._open.pop()
        if not self._open:
            raise self.error(self.at - 1, "no group is open here")
        self.flags = group.flags
        self._add(
            f"{group.head}{''.join(group.written)})",
            group.start,
            is_empty=group.is_empty or group.may_be_empty,
            captures=group.captures or group.head == "(",
            captures_inside=group.captures,
        )

    def _read_piece(self) -> None:
        start = self.at
        for construct, reason in _REFUSED:
            if self.match(construct) is not None:
                raise self.error(start, reason)
        match self.read():
            case "[":
                self._add(self.read_class(start), start)
            case "\\":
                self._add_escape(start)
            case "^":
                self._add("\\A", start, is_empty=True, is_fixed=True)
            case "$":
                self._add_end(start)
            case ".":
                self._add(_ANY if "s" in self.flags else _NO_LINE_END, start)
            case character:
                self._add(self.write_literal(ord(character)), start)

    def _add_end(self, start: int) -> None:
        """Add a pattern for the end, which in Java may also be before a final line terminator."""
        self.doubts[_END] = None
        self._add("\\z", start, is_empty=True, is_fixed=True)

    def _add(
        self,
        text: str,
        start: int | None = None,
        *,
        is_empty: bool = False,
        captures: bool = False,
        captures_inside: bool = False,
        is_fixed: bool = False,
    ) -> None:
        """Add a piece of the pattern, with its quantifier if ``start`` is not None.

        Args:
            is_empty: it can match the empty string.
            captures: it has a capturing group.
            captures_inside: the group is inside the piece. is_fixed: no quantifier may follow.
        """
        count = "" if start is None else self._read_quantifier(start)
        if count:
            assert start is not None
            is_repeated = count.rstrip("?") not in ("", "{0}", "{1}", "{0,1}", "{1,1}")
            if is_fixed or (is_empty and is_repeated):
                raise self.error(start, "quantifiers after what may be empty are not supported")
            if captures_inside and is_repeated:
                raise self.error(start, "capturing groups in a repeated group are not supported")
        group = self._open[-1]
        group.written.append(text + count)
        group.is_empty &= is_empty or count.startswith(("?", "*", "{0"))
        group.captures |= captures

    def _read_quantifier(self, start: int) -> str:
        """Return the quantifier as RE2 reads it, or an empty text."""
        if self.pattern[self.at : self.at + 1] not in ("?", "*", "+", "{"):
            return ""
        match = self.match(_QUANTIFIER)
        if match is None:
            self.at += 1
            raise self.error(start, "expected {n}, {n,} or {n,m}")
        if match[5] == "+":
            raise self.error(start, "possessive quantifiers are not supported")
        if match[1]:
            return match[1] + match[5]
        if max(len(match[2]), len(match[4] or "")) > len(str(_REPETITIONS_MAX)):
            raise self.error(start, "the numbers of this quantifier are too large")
        least, most = int(match[2]), int(match[4] or match[2])
        if not least <= most <= _REPETITIONS_MAX:
            raise self.error(start, "expected {n,m} with n not above m, and m up to 1000")
        rest = f",{most if match[4] else ''}" if match[3] else ""
        return f"{{{least}{rest}}}{match[5]}"

    def _add_escape(self, start: int) -> None:
        """Add the escape after a backslash outside of brackets."""
        letter = self.pattern[self.at : self.at + 1]
        if letter not in ("A", "b", "B", "z", "Z"):
            read = self.read_escape(start)
            self._add(self.write_literal(read) if isinstance(read, int) else f"[{read}]", start)
            return
        self.at += 1
        if letter == "Z":
            self._add_end(start)
            return
        if letter in "bB":
            self.doubts[_BOUNDARY] = None
        self._add(f"\\{letter}", start, is_empty=True, is_fixed=True)
