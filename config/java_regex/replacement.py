"""Java's ``String.replaceAll``: the syntax of its replacements, and the matches that it replaces.

Source: java.util.regex.Matcher.find, replaceAll and appendExpandedReplacement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.java_regex.translation import Pattern, Translation

_PART: Final = re.compile(
    r"(?P<literal>[^\\$]+)|\\(?P<escaped>.)|\$(?P<digits>[0-9]+)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}",
    re.DOTALL,
)

Replacement = tuple[str | int, ...]
"""Literal texts and numbers of groups, in order."""


def parse_replacement(text: str, translation: Translation) -> Replacement:
    """Return the parts of a replacement for the matches of a pattern.

    Raises:
        InvalidValueError: it is malformed, or names a group that the pattern does not have. Java
            raises this only when it replaces a match.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise _error(
                text, position, "write \\$ or \\\\ for the character, or $n or ${name} for a group"
            )
        if part["digits"]:
            parts += _parse_digits(text, position, part["digits"], translation.pattern.groups)
        elif part["name"]:
            if part["name"] not in translation.group_names:
                raise _error(text, position, f"the pattern has no group '{part['name']}'")
            parts.append(translation.group_names[part["name"]])
        else:
            parts.append(part["literal"] or part["escaped"])
        position = part.end()
    return tuple(parts)


def _parse_digits(text: str, position: int, digits: str, groups: int) -> list[str | int]:
    """Read the number of a group: one digit, and further digits as long as that group exists."""
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    number = int(digits[:size])
    if number > groups:
        raise _error(text, position, f"the pattern has no group {number}")
    return [number, digits[size:]]


def _error(text: str, position: int, reason: str) -> InvalidValueError:
    return InvalidValueError(
        f"invalid replacement '{text}': '{text[position : position + 2]}' at character "
        f"{position + 1}: {reason}"
    )


def find_all(pattern: Pattern, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches that Java finds in a text.

    After an empty match, Java searches from the next character; ``re.finditer`` does not.
    """
    position = 0
    while position <= len(text) and (match := pattern.search(text, position)) is not None:
        yield match
        position = match.end() + (not match[0])


def replace(matches: Iterable[re.Match[str]], replacement: Replacement, text: str) -> str:
    """Return ``text`` with each match replaced."""
    written: list[str] = []
    position = 0
    for match in matches:
        written.append(text[position : match.start()])
        written += (part if isinstance(part, str) else match[part] or "" for part in replacement)
        position = match.end()
    written.append(text[position:])
    return "".join(written)
