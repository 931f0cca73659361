r"""Translate a Java regular expression to one of Python's ``re``.

The parser follows java.util.regex.Pattern. It resolves flags and classes itself, so the result has
no flags. Some constructs are rejected, although Java accepts them:

- those for which ``re`` has no equivalent, such as ``\G``, ``\X`` and look-behind of any length;
- those whose meaning depends on Java's version or Unicode data, such as ``(?u)``;
- capturing groups in places where the engines disagree about what is captured after backtracking;
- quantifiers after something that may match the empty string.

Source: java.util.regex.Pattern of Java 17 and 25.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.bracketed_class import BracketReader, read_class_escape
from authorizerd.config.java_regex.code_points import LAST, escape
from authorizerd.config.java_regex.flags import FLAG_NAMES, Flags
from authorizerd.config.java_regex.pattern_text import END, PatternText

_DEPTH_MAX: Final = 50
_REPETITIONS_MAX: Final = 2**31 - 1
_GROUP_NAME: Final = re.compile("([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS: Final = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_QUANTIFIER: Final = re.compile(r"(?:([?*+])|\{([0-9]+)(,?)([0-9]*)\})([?+]?)")
_SIMPLE: Final = {"?": (0, 1), "*": (0, _REPETITIONS_MAX), "+": (1, _REPETITIONS_MAX)}

_WORD_BOUNDARY: Final = "(?a:\\b)"
_ASSERTIONS: Final = {"A": "\\A", "z": "\\Z", "b": _WORD_BOUNDARY, "B": f"(?!{_WORD_BOUNDARY})"}


@dataclass(frozen=True, slots=True)
class Translation:
    """A pattern for ``re``, whose groups have the numbers that they have in Java.

    It means the same as in Java for texts without code points above ``last_code_point``.
    """

    pattern: re.Pattern[str]
    group_names: Mapping[str, int]
    last_code_point: int


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


def translate(pattern: str) -> Translation:
    """Return the translation of a Java pattern.

    Raises:
        InvalidValueError: Java rejects the pattern, or it cannot be translated. The text names the
            construct and its position.
    """
    parser = _Parser(pattern)
    text = parser.parse().text
    try:
        compiled = re.compile(text)
    except (re.error, OverflowError) as error:
        raise InvalidValueError(f"invalid pattern '{pattern}': unsupported: {error}") from error
    names = MappingProxyType(parser.group_names)
    return Translation(compiled, names, parser.last_code_point)


class _Parser:
    """Translate one pattern, by recursive descent."""

    def __init__(self, pattern: str) -> None:
        self._text = PatternText(pattern)
        self._flags = Flags()
        self._groups = 0
        self._open_groups: list[int] = []
        self._depth = 0
        self._look_behinds = 0
        self.group_names: dict[str, int] = {}
        self.last_code_point = LAST

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
            piece = self._read_piece()
            if piece is not None:  # else it was a group of flags
                pieces.append(self._read_quantifier(start, piece))
        return _Piece(
            "".join(each.text for each in pieces),
            may_be_empty=all(each.may_be_empty for each in pieces),
            captures=any(each.captures for each in pieces),
        )

    def _read_piece(self) -> _Piece | None:
        start = self._text.position
        match self._text.peek():
            case "(":
                return self._read_group()
            case "[":
                reader = BracketReader(self._text, ignore_case=self._flags.ignore_case)
                return _Piece(reader.read().to_regex())
            case "?" | "*" | "+" | "{":
                self._text.position += 1
                raise self._text.error(start, "expected an expression before the quantifier")
        match self._text.read():
            case "\\":
                return self._read_escape(start)
            case "^":
                return _Piece(self._flags.start_of_line(), may_be_empty=True, fixed=True)
            case "$":
                return _Piece(self._flags.end_of_line(), may_be_empty=True, fixed=True)
            case ".":
                return _Piece(self._flags.dot().to_regex())
            case character:
                return self._literal(ord(character))

    # Characters and escapes

    def _literal(self, code_point: int) -> _Piece:
        character = chr(code_point)
        if self._flags.ignore_case and character.isascii() and character.isalpha():
            return _Piece(f"[{character.lower()}{character.upper()}]")
        return _Piece(escape(code_point))

    def _read_escape(self, start: int) -> _Piece:
        code_point = self._text.read_character_escape(start)
        if code_point is not None:
            return self._literal(code_point)
        letter = self._text.peek()
        if letter in "123456789":
            return self._read_reference(start)
        if letter == "k":
            return self._read_named_reference(start)
        if letter == "R":
            self._text.position += 1
            return _Piece("(?:\r\n|[\n-\r\x85\u2028\u2029])", fixed=True)
        if letter in "AbBzZ":
            return self._read_assertion(start)
        points = read_class_escape(self._text, start, ignore_case=self._flags.ignore_case)
        return _Piece(points.to_regex())

    def _read_assertion(self, start: int) -> _Piece:
        letter = self._text.read()
        if letter in "bB":
            if self._text.peek() == "{":
                raise self._text.error(start, "grapheme boundaries are not supported")
            self.last_code_point = 0x7F  # Java 19 changed the meaning for higher ones
        text = self._flags.end_of_text() if letter == "Z" else _ASSERTIONS[letter]
        return _Piece(text, may_be_empty=True, fixed=True)

    def _read_reference(self, start: int) -> _Piece:
        number = int(self._text.read())
        while self._text.peek() in tuple("0123456789"):
            longer = number * 10 + int(self._text.peek())
            if longer > self._groups:
                break
            number = longer
            self._text.position += 1
        return self._refer_to(start, number)

    def _read_named_reference(self, start: int) -> _Piece:
        self._text.position += 1
        name = self._text.match(_GROUP_NAME) if self._text.skip("<") else None
        if name is None or name[1] not in self.group_names:
            raise self._text.error(start, "expected \\k<name> with the name of an earlier group")
        return self._refer_to(start, self.group_names[name[1]])

    def _refer_to(self, start: int, number: int) -> _Piece:
        if number > self._groups or number in self._open_groups:
            raise self._text.error(start, "expected the number of a group that ends before here")
        if self._look_behinds:
            raise self._text.error(start, "expected a fixed length in a look-behind")
        flags = "ai" if self._flags.ignore_case else ""
        return _Piece(f"(?{flags}:\\{number})", may_be_empty=True)

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
                return self._read_independent(start, head)
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
        number = self._groups
        self._open_groups.append(number)
        body = self._read_body(start)
        self._open_groups.pop()
        inside = body.captures
        return replace(body, text=f"({body.text})", captures=True, captures_inside=inside)

    def _read_independent(self, start: int, head: str) -> _Piece:
        """Read a look-around or an atomic group."""
        is_behind = head.startswith("<")
        self._look_behinds += is_behind
        body = self._read_body(start)
        self._look_behinds -= is_behind
        if body.captures:
            raise self._text.error(start, "capturing groups are not supported in this group")
        if is_behind:
            # Java steps back by UTF-16 code units.
            self.last_code_point = min(self.last_code_point, 0xFFFF)
        is_assertion = head != ">"
        is_empty = is_assertion or body.may_be_empty
        return _Piece(f"(?{head}{body.text})", may_be_empty=is_empty, fixed=is_assertion)

    def _read_flags(self, start: int) -> bool:
        """Set the flags of ``(?i)`` or ``(?i:``, and return True if a group follows."""
        found = self._text.match(_FLAGS)
        if found is None:
            self._text.position += 1
            raise self._text.error(start, "unknown kind of group")
        for letter in found[1]:
            if letter not in FLAG_NAMES:
                raise self._text.error(start, f"the flag {letter} is not supported: use i, m, s, d")
        on = dict.fromkeys((FLAG_NAMES[each] for each in found[1]), True)
        off = dict.fromkeys(
            (FLAG_NAMES[each] for each in found[2] or "" if each in FLAG_NAMES), False
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
        least, most = self._repetitions(start, found)
        if piece.fixed or (piece.may_be_empty and most > 1):
            raise self._text.error(start, "quantifiers after what may be empty are not supported")
        if piece.captures_inside and most > 1:
            raise self._text.error(start, "capturing groups in a repeated group are not supported")
        if self._look_behinds and least != most:
            raise self._text.error(start, "expected a fixed length in a look-behind")
        may_be_empty = piece.may_be_empty or least == 0
        count = f"{{{least},{'' if most == _REPETITIONS_MAX else most}}}"
        if found[5] != "+":
            text = f"{piece.text}{count}{found[5]}"
            return _Piece(text, may_be_empty=may_be_empty, captures=piece.captures)
        if piece.captures:
            raise self._text.error(start, "possessive quantifiers after a group are not supported")
        # In Java, each repetition is atomic by itself.
        return _Piece(f"(?>(?>{piece.text}){count})", may_be_empty=may_be_empty)

    def _repetitions(self, start: int, found: re.Match[str]) -> tuple[int, int]:
        if found[1]:
            return _SIMPLE[found[1]]
        if max(len(found[2]), len(found[4])) > len(str(_REPETITIONS_MAX)):
            raise self._text.error(start, "the numbers of this quantifier are too large")
        least = int(found[2])
        if not found[3]:
            most = int(found[2] + found[4])
        else:
            most = int(found[4]) if found[4] else _REPETITIONS_MAX
        if not least <= most <= _REPETITIONS_MAX:
            raise self._text.error(start, "expected {n,m} with n not above m, and m below 2^31")
        return least, most
