"""Describe the fault of a JSON document in one line that names the field.

**Invariant:** the line never contains msgspec's texts. It quotes at most one name from the
document, shortened and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

NAME_SHOWN_MAX: Final = 100
JSON_ERRORS: Final = (ValueError, RecursionError)
"""The errors of msgspec's decoders. Its own errors and UnicodeDecodeError are ValueErrors."""

_INVALID: Final = "invalid JSON"
_MALFORMED: Final = "JSON is malformed: "
_NAMES: Final = {
    "object": "an object",
    "array": "an array",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_PLACE: Final = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_WRONG_TYPE: Final = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`")
_OUT_OF_BOUNDS: Final = re.compile(r"Expected `(\w+)` (>=|<=|>|<) (\S+)")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_NOT_A_CHOICE: Final = re.compile(r"Invalid enum value (.*)", re.DOTALL)


def describe_json_fault(error: Exception, choices: Iterable[str] = ()) -> str:
    """Return one line that describes the fault of a document, and its place.

    Args:
        error: one of ``JSON_ERRORS``, from a msgspec decoder.
        choices: the values of the document's enumeration, if it has one.
    """
    if isinstance(error, RecursionError):
        return f"{_INVALID}: it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"{_INVALID}: it is not UTF-8"
    text = str(error)
    # msgspec's errors differ only in their texts.
    if text == "Input data was truncated":
        return f"{_INVALID}: the body ends before the document does"
    if text.startswith(_MALFORMED):
        return f"{_INVALID}: {text.removeprefix(_MALFORMED)}"
    return _describe_field(text, choices)


def _describe_field(text: str, choices: Iterable[str]) -> str:
    """Return the fault of one field of a document that is valid JSON."""
    placed = _PLACE.fullmatch(text)
    text, path = (text, "") if placed is None else (placed["text"], placed["path"] or "")
    if found := _MISSING.fullmatch(text):
        return f"{f'{path}.' if path else ''}{found[1]} is missing"
    where = f"{path}: " if path else ""
    if found := _WRONG_TYPE.fullmatch(text):
        wanted = found[1].removesuffix(" | null")
        wanted, kind = _NAMES.get(wanted, wanted), _NAMES.get(found[2], found[2])
        if path.endswith("as_of"):  # the only field that is an integer or a string
            wanted = "an offset, milliseconds since 1970 or a time with its zone"
            kind = kind.replace("a number", "a number with a fraction or an exponent")
        return f"{where}expected {wanted}, found {kind}"
    if found := _OUT_OF_BOUNDS.fullmatch(text):
        return f"{where}expected {_NAMES.get(found[1], found[1])} of {_BOUNDS[found[2]]} {found[3]}"
    if found := _NOT_A_CHOICE.fullmatch(text):
        return f"{where}unknown value {_cut(found[1])}: expected one of {', '.join(choices)}"
    # Any other text of msgspec also stays hidden: a later version may word its errors differently.
    return f"{where}the document does not have the expected shape"


def quote(text: str) -> str:
    """Return ``text`` quoted for an error: control characters escaped, and shortened."""
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= NAME_SHOWN_MAX else text[:NAME_SHOWN_MAX] + "…"
