"""The questions of a route: ``WRITE TOPIC {topic}, READ GROUP "my group"``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from authorizerd.acl.model import CLUSTER_NAME, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.text.typos import find_similar
from authorizerd.config.errors import InvalidValueError

QUESTIONS_MAX: Final = 16

_QUESTION: Final = re.compile(
    r"""\s*(?P<operation>[^\s,"]+)\s+(?P<type>[^\s,"]+)\s+"""
    r"""(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|(?P<plain>[^\s,"]+))\s*(?P<end>,|\Z)"""
)
_PART: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_ESCAPED: Final = re.compile(r"\\(.)")
_EXPECTED: Final = (
    "expected OPERATION TYPE NAME, such as READ TOPIC {topic}; a name with a blank, a comma or a"
    " quote needs double quotes"
)


class Template(NamedTuple):
    """A question whose name has variables.

    ``name`` is a format with ``%s`` for each of ``variables``, which are positions among the
    variables of the pattern.
    """

    operation: int
    resource_type: int
    name: str
    variables: tuple[int, ...]

    def fill(self, values: Sequence[str]) -> str:
        """Return the resource's name."""
        if self.name == "%s":
            return values[self.variables[0]]
        return self.name % tuple([values[index] for index in self.variables])


def parse_questions(text: str, variables: Sequence[str]) -> tuple[Template, ...]:
    """Return the questions of a route.

    Args:
        variables: the names of the pattern's variables.

    Raises:
        InvalidValueError: the text is not a list of questions.
    """
    templates: list[Template] = []
    position, has_more = 0, True
    while has_more:
        found = _QUESTION.match(text, position)
        if found is None:
            raise InvalidValueError(f"question '{text[position:].strip()}': {_EXPECTED}")
        templates.append(_parse_question(found, variables))
        position, has_more = found.end(), found["end"] == ","
    if len(templates) > QUESTIONS_MAX:
        raise InvalidValueError(
            f"expected at most {QUESTIONS_MAX} questions, found {len(templates)}"
        )
    return tuple(templates)


def _parse_question(found: re.Match[str], variables: Sequence[str]) -> Template:
    shown = found[0].rstrip(", \t").strip()
    resource_type = ResourceType.named(found["type"])
    if resource_type not in SUPPORTED:
        known = [each.name for each in SUPPORTED]
        raise InvalidValueError(_unknown(shown, "resource type", found["type"], known))
    assert resource_type is not None
    supported = SUPPORTED[resource_type]
    operation = Operation.named(found["operation"])
    if operation not in supported:
        known = [each.name for each in supported]
        what = f"operation on {resource_type.name}"
        raise InvalidValueError(_unknown(shown, what, found["operation"], known))
    assert operation is not None
    quoted = found["quoted"]
    name = found["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
    if not name:
        raise InvalidValueError(f"question '{shown}': expected a name, found an empty one")
    if resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidValueError(
            f"question '{shown}': expected the name {CLUSTER_NAME}: Kafka has no other cluster"
        )
    template, indexes = _parse_name(shown, name, variables)
    return Template(operation, resource_type, template, indexes)


def _parse_name(shown: str, name: str, variables: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    literals = _PART.split(name)[::2]
    for literal in literals:
        if "{" in literal or "}" in literal:
            raise InvalidValueError(
                f"question '{shown}': expected braces only around a variable, such as {{topic}}"
            )
    names = _PART.findall(name)
    for each in names:
        if each not in variables:
            of_pattern = ", ".join(f"{{{known}}}" for known in variables) or "none"
            raise InvalidValueError(
                f"question '{shown}': unknown variable {{{each}}}: the pattern's variables:"
                f" {of_pattern}"
            )
    indexes = tuple(variables.index(each) for each in names)
    return "%s".join(literal.replace("%", "%%") for literal in literals), indexes


def _unknown(shown: str, what: str, found: str, known: Sequence[str]) -> str:
    meant = find_similar(found, known)
    hint = "" if meant is None else f" (did you mean {meant}?)"
    return f"question '{shown}': unknown {what} '{found}'{hint}: expected one of {', '.join(known)}"
