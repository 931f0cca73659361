"""The pattern of a route: which paths it matches, and the values of its variables.

    /subjects/{topic}-value/versions
    /connectors/**

**Invariant:** a pattern matches whole paths. A variable is one character or more of one segment.
Letter case counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.routes.target import Segments

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


class Pattern:
    """A path with variables. ``has_rest``: one or more further segments follow."""

    def __init__(self, segments: Sequence[str | Variable], *, has_rest: bool) -> None:
        self.segments: Final = tuple(segments)
        self.has_rest: Final = has_rest
        self.names: Final = tuple(each.name for each in segments if isinstance(each, Variable))
        """The names of the variables, in order."""
        self._literals: Final = tuple(
            (index, each) for index, each in enumerate(segments) if isinstance(each, str)
        )
        self._variables: Final = tuple(
            (index, each.prefix, each.suffix)
            for index, each in enumerate(segments)
            if isinstance(each, Variable)
        )

    def match(self, segments: Segments) -> tuple[str, ...] | None:
        """Return the values of the variables, or None if the path does not match.

        The number of ``segments`` must fit.
        """
        for index, literal in self._literals:
            if segments[index] != literal:
                return None
        values: list[str] = []
        for index, prefix, suffix in self._variables:
            segment = segments[index]
            if prefix or suffix:
                if not (segment.startswith(prefix) and segment.endswith(suffix)):
                    return None
                segment = segment[len(prefix) : len(segment) - len(suffix)]
            values.append(segment)
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
    pattern = Pattern(segments, has_rest=has_rest)
    for name in pattern.names:
        if pattern.names.count(name) > 1:
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
