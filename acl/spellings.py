"""Operations and resource types as people write them.

Letter case, ``_`` and ``-`` do not count: ``DescribeConfigs``, ``describe_configs`` and
``DESCRIBE-CONFIGS`` are the same operation. Only ASCII letters count as letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Code, Operation, ResourceType

SUGGESTED_CHARACTERS_MAX: Final = 64
"""No known name resembles a longer text, and comparing it would take long."""

AnyCode = TypeVar("AnyCode", bound=Code)


def _fold(text: str) -> str:
    return ascii_upper(text).replace("_", "").replace("-", "")


def _table(codes: Iterable[AnyCode]) -> Mapping[str, AnyCode]:
    return {_fold(code.name): code for code in codes}


_OPERATIONS: Final = _table(map(Operation, OPERATIONS))
_RESOURCE_TYPES: Final = _table(map(ResourceType, RESOURCE_TYPES))


def find_operation(text: str) -> Operation | None:
    """Return the operation that a question may ask about, or None."""
    return _OPERATIONS.get(_fold(text))


def find_resource_type(text: str) -> ResourceType | None:
    """Return the resource type that a question may ask about, or None."""
    return _RESOURCE_TYPES.get(_fold(text))


def explain_unknown_operation(text: str) -> str:
    """Return the error for an unknown operation: the text, a similar name, and all known names."""
    return explain_unknown("operation", text, [each.name for each in _OPERATIONS.values()])


def explain_unknown_resource_type(text: str) -> str:
    """Return the error for an unknown resource type. See ``explain_unknown_operation``."""
    return explain_unknown("resource type", text, [each.name for each in _RESOURCE_TYPES.values()])


def explain_unknown(what: str, text: str, known: Iterable[str]) -> str:
    """Return the error for a name that is not among ``known``.

    Args:
        what: what it should name, for example ``operation``.
    """
    names = [*known]
    by_folded = {_fold(name): name for name in names}
    close: list[str] = []
    if len(text) <= SUGGESTED_CHARACTERS_MAX:
        close = get_close_matches(_fold(text), by_folded, n=1)
    meant = f" (did you mean {by_folded[close[0]]}?)" if close else ""
    return f"unknown {what} {text!r}{meant}: expected one of {', '.join(names)}"
