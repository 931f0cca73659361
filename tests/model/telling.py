"""Tell a story in readable lines, without default values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from authorizerd.acl.model import Operation, PatternType, PermissionType, ResourceType
from tests.model.story import Story

_LINES: Final = ("lives", "clients", "events", "worker_faults", "calls")
"""Fields whose items have lines of their own, below that of the whole."""
_CODES: Final[dict[str, type[IntEnum]]] = {
    "operation": Operation,
    "pattern_type": PatternType,
    "permission_type": PermissionType,
    "resource_type": ResourceType,
}


def text_of(story: Story) -> str:
    return "\n".join(_lines(story, ""))


def _lines(part: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - a part of a story
    yield indent + _show(part)
    for each in fields(part):
        for item in getattr(part, each.name) if each.name in _LINES else ():
            yield from _lines(item, f"{indent}  ")


def _show(value: Any) -> str:  # noqa: ANN401 - whatever stories have
    if isinstance(value, tuple):
        return f"({'; '.join(map(_show, value))})"
    if isinstance(value, msgspec.Struct):
        kind = msgspec.structs.fields(value)
        shown = [
            f"{each.name}={_name(each.name, given)}"
            for each in kind
            if (given := getattr(value, each.name)) != each.default
        ]
    elif is_dataclass(value):
        shown = [f"{each.name}={_show(getattr(value, each.name))}" for each in _unusual(value)]
    else:
        return repr(value)
    return f"{type(value).__name__}({', '.join(shown)})"


def _unusual(value: Any) -> Iterator[Field[Any]]:  # noqa: ANN401 - any dataclass
    for each in fields(value):
        is_usual = each.default is not MISSING and getattr(value, each.name) == each.default
        if each.name not in _LINES and not is_usual:
            yield each


def _name(field: str, value: object) -> str:
    """Return the name of a code, if it has one."""
    codes = _CODES.get(field)
    known = {} if codes is None else {int(each): each.name for each in codes}
    return known.get(value, repr(value)) if isinstance(value, int) else repr(value)
