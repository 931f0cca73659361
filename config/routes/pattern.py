"""The pattern of a route: which paths it matches, and the values of its variables.

    /subjects/{topic}-value/versions
    /connectors/**

**Invariant:** a pattern matches whole paths. A variable is one character or more of one segment.
Letter case counts.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.routes.target import Segments, fold

SEGMENTS_MAX: Final = 32
REST: Final = "**"

_LITERAL: Final = r"[A-Za-z0-9\-._~!$&'(),=:@]"
_VARIABLE: Final = re.compile(
    rf"({_LITERAL}*)\{{([A-Za-z_][A-Za-z0-9_]*)\}}({_LITERAL}*)", re.ASCII
)
_SEGMENT: Final = re.compile(rf"{_LITERAL}+")


class Variable(NamedTuple):
    """A segment with a variable between two literals, each of which may be empty."""

    prefix: str
    name: str
    suffix: str

    def fold(self) -> Variable:
        return Variable(fold(self.prefix), self.name, fold(self.suffix))

    def covers(self, other: str | Variable) -> bool:
        """Return True if this segment matches all that ``other`` matches; both are folded."""
        prefix, _, suffix = self
        if isinstance(other, str):
            is_long = len(other) > len(prefix) + len(suffix)
            return is_long and other.startswith(prefix) and other.endswith(suffix)
        return other.prefix.startswith(prefix) and other.suffix.endswith(suffix)


class Pattern(NamedTuple):
    """A path with variables. ``has_rest``: one or more further segments follow."""

    segments: tuple[str | Variable, ...]
    has_rest: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order."""
        return tuple(each.name for each in self.segments if isinstance(each, Variable))

    def match(self, segments: Segments) -> tuple[str, ...] | None:
        """Return the values of the variables, or None if the path does not match.

        The number of ``segments`` must fit.
        """
        values: list[str] = []
        for expected, found in zip(self.segments, segments, strict=False):
            if isinstance(expected, str):
                if expected != found:
                    return None
                continue
            prefix, _, suffix = expected
            if not (found.startswith(prefix) and found.endswith(suffix)):
                return None
            values.append(found[len(prefix) : len(found) - len(suffix)])
        return tuple(values)


def parse_pattern(text: str) -> Pattern:
    """Return the pattern of a route.

    Raises:
        InvalidValueError: the text is not a pattern.
    """
    if not text.startswith("/"):
        raise InvalidValueError(f"pattern {text}: expected a path that begins with '/'")
    if text == "/":
        return Pattern((), has_rest=False)
    parts = text[1:].split("/")
    if len(parts) > SEGMENTS_MAX:
        raise InvalidValueError(f"pattern {text}: expected at most {SEGMENTS_MAX} segments")
    has_rest = parts[-1] == REST
    segments = tuple(_parse_segment(text, part) for part in (parts[:-1] if has_rest else parts))
    pattern = Pattern(segments, has_rest)
    names = pattern.variables
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"pattern {text}: the variable {{{name}}} occurs twice")
    return pattern


def _parse_segment(pattern: str, text: str) -> str | Variable:
    if text == "":
        raise InvalidValueError(
            f"pattern {pattern}: expected no empty segment ('//', or '/' at the end): such"
            " requests are denied"
        )
    if text in (".", ".."):
        raise InvalidValueError(
            f"pattern {pattern}: expected no segment '{text}': such requests are denied"
        )
    variable = _VARIABLE.fullmatch(text)
    if variable is not None:
        return Variable(*variable.groups())
    if _SEGMENT.fullmatch(text):
        return text
    if "*" in text:
        reason = f"expected '*' only in '{REST}' as the last segment"
    elif "{" in text or "}" in text:
        reason = (
            "expected at most one variable in a segment, such as {topic} or {topic}-value, with a"
            " name of letters, digits and _"
        )
    else:
        reason = "expected letters, digits and -._~!$&'(),=:@; a pattern is written decoded"
    raise InvalidValueError(f"pattern {pattern}: segment '{text}': {reason}")
