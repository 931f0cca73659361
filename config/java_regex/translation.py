r"""Translate a Java regular expression to one of RE2.

The parser follows java.util.regex.Pattern. It resolves flags and classes itself, so the result has
no flags. Some constructs are rejected, although Java accepts them:

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
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from unicodedata import ucd_3_2_0

import re2

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.character_class import ClassReader, write_range
from authorizerd.config.java_regex.pattern_text import END, PatternText

Pattern = re.Pattern[str]
"""A pattern of RE2, whose Python interface is that of ``re``."""

LINE_ENDS: Final = ("\n", "\r", "\x85", "\u2028", "\u2029")
PROGRAM_SIZE_MAX: Final = 5000
"""The most instructions that a pattern may have for RE2, which bounds the time for a character."""

_MEMORY_MAX: Final = 2**20  # in bytes; RE2 keeps states of its automaton in it
_DEPTH_MAX: Final = 50
_REPETITIONS_MAX: Final = 1000  # as in RE2
_GROUP_NAME: Final = re.compile("([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_FLAG_NAMES: Final = {"i": "ignore_case", "s": "dot_all"}
_QUANTIFIER: Final = re.compile(r"(?:([?*+])|\{([0-9]+)(?:(,)([0-9]*))?\})([?+]?)")
_ANY: Final = "(?s:.)"
_NO_LINE_END: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"

Doubt = tuple[str, Callable[[str], bool]]
"""A construct, and whether Java may treat a text differently because of it."""

_BOUNDARY: Final[Doubt] = ("\\b or \\B", lambda text: not text.isascii())  # Java 19 changed it
_END: Final[Doubt] = ("$ or \\Z", lambda text: text.endswith(LINE_ENDS))
_CATEGORY: Final[Doubt] = (  # what was assigned in 2002 has the same category in each release
    "a class such as \\p{L}",
    lambda text: any(ucd_3_2_0.category(character) == "Cn" for character in text),
)


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for RE2, whose groups have the numbers that they have in Java."""

    pattern: Pattern
    group_names: Mapping[str, int]
    doubts: tuple[Doubt, ...]

    def find_doubt(self, text: str) -> str | None:
        """Return the construct because of which Java's answer for a text is unknown, or None."""
        return next((construct for construct, holds in self.doubts if holds(text)), None)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A translated part of the pattern.

    ``may_be_empty`` means that it can match the empty string, ``captures`` that it has a capturing
    group, ``captures_inside`` that this group is not the piece itself, and ``fixed`` that no
    quantifier may follow.
    """

    text: str
    may_be_empty: bool = False
    captures: bool = False
    captures_inside: bool = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags that apply at one place of a pattern."""

    ignore_case: bool = False
    dot_all: bool = False


def translate(pattern: str) -> Translation:
    """Return the translation of a Java pattern.

    Raises:
        InvalidValueError: Java rejects the pattern, or it cannot be translated. The text names the
            construct and its position.
    """
    parser = _Parser(pattern)
    text = parser.parse().text
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
    return Translation(compiled, MappingProxyType(parser.group_names), parser.doubts)


class _Parser:
    """Translate one pattern, by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._text = PatternText(pattern)
        self._classes = ClassReader(self._text)
        self._flags = _Flags()
        self._groups = 0
        self._depth = 0
        self._doubts: list[Doubt] = []
        self.group_names: dict[str, int] = {}

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Return when Java may treat a text differently."""
        return (*self._doubts, _CATEGORY) if self._classes.has_category else (*self._doubts,)

    def parse(self) -> _Piece:
        """Return the whole pattern."""
        whole = self._read_alternatives()
        if self._text.peek() != END:
            raise self._text.error(self._text.position, "no group is open here")
        return whole

    def _read_alternatives(self) -> _Piece:
        """Read up to a closing parenthesis, which is not consumed, or to the end."""
        sequences = [self._read_sequence()]
        while self._text.skip("|"):
            sequences.append(self._read_sequence())
        return _Piece(
            "|".join(each.text for each in sequences),
            may_be_empty=any(each.may_be_empty for each in sequences),
            captures=any(each.captures for each in sequences),
        )

    def _read_sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while self._text.peek() not in ("|", ")", END):
            start = self._text.position
            if self._text.skip("\\Q"):
                pieces += self._read_quoted(start)
            elif (piece := self._read_piece()) is not None:  # else it was a group of flags
                pieces.append(self._read_quantifier(start, piece))
        return _Piece(
            "".join(each.text for each in pieces),
            may_be_empty=all(each.may_be_empty for each in pieces),
            captures=any(each.captures for each in pieces),
        )

    def _read_quoted(self, start: int) -> list[_Piece]:
        r"""Read the rest of ``\Q…\E``. A quantifier after it is for the last character."""
        pieces: list[_Piece] = []
        while self._text.peek() != END:
            if self._text.skip("\\E"):
                return [*pieces[:-1], *(self._read_quantifier(start, each) for each in pieces[-1:])]
            pieces.append(self._literal(ord(self._text.read())))
        return pieces

    def _read_piece(self) -> _Piece | None:
        start = self._text.position
        match self._text.peek():
            case "(":
                return self._read_group()
            case "[":
                ignore_case = self._flags.ignore_case
                return _Piece(self._classes.read_bracketed(ignore_case=ignore_case))
            case "?" | "*" | "+" | "{":
                self._text.position += 1
                raise self._text.error(start, "expected an expression before the quantifier")
        match self._text.read():
            case "\\":
                return self._read_escape(start)
            case "^":
                return _Piece("\\A", may_be_empty=True, fixed=True)
            case "$":
                return self._read_end()
            case ".":
                return _Piece(_ANY if self._flags.dot_all else _NO_LINE_END)
            case character:
                return self._literal(ord(character))

    # Characters and escapes

    def _literal(self, code_point: int) -> _Piece:
        ignore_case = self._flags.ignore_case
        return _Piece(f"[{write_range(code_point, code_point, ignore_case=ignore_case)}]")

    def _read_escape(self, start: int) -> _Piece:
        code_point = self._text.read_character_escape(start)
        if code_point is not None:
            return self._literal(code_point)
        letter = self._text.peek()
        if letter in "123456789k":
            self._text.position += 1
            raise self._text.error(start, "back references are not supported")
        if letter in "AbBzZ":
            return self._read_assertion(start)
        return _Piece(f"[{self._classes.read_escape(start, self._flags.ignore_case)}]")

    def _read_assertion(self, start: int) -> _Piece:
        letter = self._text.read()
        if letter == "Z":
            return self._read_end()
        if letter in "bB":
            if self._text.peek() == "{":
                raise self._text.error(start, "grapheme boundaries are not supported")
            self._doubts.append(_BOUNDARY)
        return _Piece(f"\\{letter}", may_be_empty=True, fixed=True)

    def _read_end(self) -> _Piece:
        """Translate what matches at the end, and for Java also before a final line terminator."""
        self._doubts.append(_END)
        return _Piece("\\z", may_be_empty=True, fixed=True)

    # Groups

    def _read_group(self) -> _Piece | None:
        start = self._text.position
        self._text.position += 1
        flags = self._flags
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._text.error(start, f"groups are nested more than {_DEPTH_MAX} deep")
        if not self._text.skip("?"):
            group: _Piece | None = self._read_capture(start)
        else:
            group = self._read_special_group(start)
        self._depth -= 1
        if group is not None:
            self._flags = flags
        return group

    def _read_special_group(self, start: int) -> _Piece | None:
        for head in ("=", "!", "<=", "<!", ">"):
            if self._text.skip(head):
                raise self._text.error(start, "look-around and atomic groups are not supported")
        if self._text.skip("<"):
            name = self._text.match(_GROUP_NAME)
            if name is None or name[1] in self.group_names:
                raise self._text.error(start, "expected (?<name> with letters and digits, once")
            self.group_names[name[1]] = self._groups + 1
            return self._read_capture(start)
        if not self._read_flags(start):
            return None
        body = self._read_body(start)
        return replace(body, text=f"(?:{body.text})", captures_inside=body.captures)

    def _read_body(self, start: int) -> _Piece:
        body = self._read_alternatives()
        if not self._text.skip(")"):
            raise self._text.error(start, "this group is not closed")
        return body

    def _read_capture(self, start: int) -> _Piece:
        self._groups += 1
        body = self._read_body(start)
        inside = body.captures
        return replace(body, text=f"({body.text})", captures=True, captures_inside=inside)

    def _read_flags(self, start: int) -> bool:
        """Set the flags of ``(?i)`` or ``(?i:``, and return True if a group follows."""
        found = self._text.match(_FLAGS)
        if found is None:
            self._text.position += 1
            raise self._text.error(start, "unknown kind of group")
        for letter in found[1]:
            if letter not in _FLAG_NAMES:
                raise self._text.error(start, f"the flag {letter} is not supported: use i or s")
        on = dict.fromkeys((_FLAG_NAMES[each] for each in found[1]), True)
        off = dict.fromkeys(
            (_FLAG_NAMES[each] for each in found[2] or "" if each in _FLAG_NAMES), False
        )
        self._flags = replace(self._flags, **(on | off))
        return found[3] == ":"

    # Quantifiers

    def _read_quantifier(self, start: int, piece: _Piece) -> _Piece:
        if self._text.peek() not in ("?", "*", "+", "{"):
            return piece
        found = self._text.match(_QUANTIFIER)
        if found is None:
            self._text.position += 1
            raise self._text.error(start, "expected {n}, {n,} or {n,m}")
        if found[5] == "+":
            raise self._text.error(start, "possessive quantifiers are not supported")
        count = found[1] or self._check_count(start, found)
        is_repeated = count not in ("?", "{0}", "{1}", "{0,1}", "{1,1}")
        if piece.fixed or (piece.may_be_empty and is_repeated):
            raise self._text.error(start, "quantifiers after what may be empty are not supported")
        if piece.captures_inside and is_repeated:
            raise self._text.error(start, "capturing groups in a repeated group are not supported")
        return _Piece(
            f"{piece.text}{count}{found[5]}",
            may_be_empty=piece.may_be_empty or count in "?*" or count.startswith("{0"),
            captures=piece.captures,
        )

    def _check_count(self, start: int, found: re.Match[str]) -> str:
        """Return ``{n}``, ``{n,}`` or ``{n,m}`` as RE2 reads it."""
        if max(len(found[2]), len(found[4] or "")) > len(str(_REPETITIONS_MAX)):
            raise self._text.error(start, "the numbers of this quantifier are too large")
        least, most = int(found[2]), int(found[4] or found[2])
        if not least <= most <= _REPETITIONS_MAX:
            raise self._text.error(start, "expected {n,m} with n not above m, and m up to 1000")
        if not found[3]:
            return f"{{{least}}}"
        return f"{{{least},{most if found[4] else ''}}}"
