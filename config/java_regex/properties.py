r"""Java's character classes: ``\d``, ``\h``, ``\p{Alpha}``, ``\p{Lu}`` and so on.

Source: java.util.regex.Pattern and CharPredicates of Java 17 and 25. The categories are those of
this Python's Unicode version, and Java may have another version. The two may then differ for
characters that only the newer version has.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from itertools import groupby
from typing import Final

from authorizerd.config.java_regex.code_points import LAST, CodePoints, from_ranges, from_text

ANY: Final = from_ranges([(0, LAST)])
LINE_ENDS: Final = from_text("\n\r\x85\u2028\u2029")
_DIGITS: Final = from_ranges([(ord("0"), ord("9"))])
_LOWER: Final = from_ranges([(ord("a"), ord("z"))])
_ALPHA: Final = _LOWER.with_both_cases()
_GRAPH: Final = from_ranges([(0x21, 0x7E)])
_SPACE: Final = from_text(" \t\n\x0b\f\r")
_WHITE_SPACE: Final = _SPACE | from_text(
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

ESCAPES: Final[Mapping[str, CodePoints]] = {
    "d": _DIGITS,
    "D": ~_DIGITS,
    "h": (horizontal := from_text(" \t\xa0\u1680\u180e\u202f\u205f\u3000")
          | from_ranges([(0x2000, 0x200A)])),
    "H": ~horizontal,
    "s": _SPACE,
    "S": ~_SPACE,
    "v": (vertical := from_text("\n\x0b\f\r\x85\u2028\u2029")),
    "V": ~vertical,
    "w": (word := _ALPHA | _DIGITS | from_text("_")),
    "W": ~word,
}  # fmt: skip

_ASCII: Final[Mapping[str, CodePoints]] = {
    "ASCII": from_ranges([(0, 0x7F)]),
    "Alnum": _ALPHA | _DIGITS,
    "Alpha": _ALPHA,
    "Blank": from_text(" \t"),
    "Cntrl": from_ranges([(0, 0x1F), (0x7F, 0x7F)]),
    "Digit": _DIGITS,
    "Graph": _GRAPH,
    "L1": from_ranges([(0, 0xFF)]),
    "Lower": _LOWER,
    "Print": _GRAPH | from_text(" "),
    "Punct": _GRAPH & ~(_ALPHA | _DIGITS),
    "Space": _SPACE,
    "Upper": _ALPHA & ~_LOWER,
    "XDigit": from_text("0123456789abcdefABCDEF"),
    "all": ANY,
}

_GROUPS: Final = {
    "LC": ("Lu", "Ll", "Lt"),
    "LD": ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd"),
}
_NAMES: Final = frozenset(
    {
        *("C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "LD", "Ll", "Lm", "Lo", "Lt", "Lu"),
        *("M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi"),
        *("Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"),
    }
)
_LETTER_CASES: Final = frozenset({"Lu", "Ll", "Lt"})
_JAVA_METHODS: Final = {
    "javaDigit": "Nd",
    "javaISOControl": "Cc",
    "javaLetter": "L",
    "javaLetterOrDigit": "LD",
    "javaSpaceChar": "Z",
    "javaTitleCase": "Lt",
}
_UNICODE_PROPERTIES: Final = {
    "CONTROL": "Cc",
    "CNTRL": "Cc",
    "DIGIT": "Nd",
    "LETTER": "L",
    "PUNCT": "P",
    "PUNCTUATION": "P",
}


def look_up(name: str, *, ignore_case: bool) -> CodePoints | None:
    r"""Return the class that ``name`` has in Java between ``\p{`` and ``}``, or None.

    None means that Java does not know the name, or that Python has no data for it: scripts,
    blocks, and binary properties such as Alphabetic. The first use of a Unicode class takes about
    0.2 s.
    """
    key, equals, value = name.partition("=")
    if equals:
        known = key.lower() in ("gc", "general_category")
        return _look_up_property(value, ignore_case) if known else None
    if name.startswith("In"):
        return None
    if name.startswith("Is"):
        return _look_up_is(name[2:], ignore_case)
    return _look_up_property(name, ignore_case)


def _look_up_is(name: str, ignore_case: bool) -> CodePoints | None:
    """Return the binary property of this name, or else the category."""
    upper = name.upper()
    if upper in ("LOWER", "LOWERCASE", "UPPER", "UPPERCASE", "TITLECASE"):
        return _cased(upper, ignore_case)
    if upper in ("WHITE_SPACE", "WHITESPACE", "SPACE"):
        return _WHITE_SPACE
    if upper == "ASSIGNED":
        return ~_category("Cn")
    if upper in _UNICODE_PROPERTIES:
        return _category(_UNICODE_PROPERTIES[upper])
    if upper in ("ALNUM", "ALPHA", "BLANK", "GRAPH", "PRINT", "WORD", "XDIGIT"):
        return None
    return _look_up_property(name, ignore_case)


def _look_up_property(name: str, ignore_case: bool) -> CodePoints | None:
    if ignore_case and name in ("Lower", "Upper"):
        return _ALPHA
    if ignore_case and name in _LETTER_CASES:
        return _category("LC")
    if name in _ASCII:
        return _ASCII[name]
    if name in ("javaLowerCase", "javaUpperCase", "javaTitleCase"):
        return _cased(name.removeprefix("java").upper(), ignore_case)
    if name == "javaDefined":
        return ~_category("Cn")
    if name in _JAVA_METHODS:
        return _category(_JAVA_METHODS[name])
    return _category(name) if name in _NAMES else None


def _cased(name: str, ignore_case: bool) -> CodePoints:
    if ignore_case:
        return _matching(str.islower) | _matching(str.isupper) | _category("Lt")
    if name.startswith("TITLE"):
        return _category("Lt")
    return _matching(str.islower if name.startswith("LOWER") else str.isupper)


@cache
def _matching(test: Callable[[str], bool]) -> CodePoints:
    """Return the characters for which a method of ``str``, such as ``isupper``, returns True."""
    return from_ranges(
        (code_point, code_point)
        for code_point in range(sys.maxunicode + 1)
        if test(chr(code_point))
    )


def _category(name: str) -> CodePoints:
    """Return a general category; one letter means all categories that begin with it."""
    members = _GROUPS.get(name, (name,))
    ranges = (
        part for key, each in _categories().items() if key.startswith(members) for part in each
    )
    return from_ranges(ranges)


@cache
def _categories() -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Return the ranges of each general category."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    by_category = groupby(range(LAST + 1), key=lambda each: unicodedata.category(chr(each)))
    for name, code_points in by_category:
        first = last = next(code_points)
        for last in code_points:  # noqa: B007 - only the last one is of interest
            pass
        ranges.setdefault(name, []).append((first, last))
    return {name: tuple(each) for name, each in ranges.items()}
