"""Which recorded tuples a set of ACLs can decide, and the codes of their names.

**Invariant:** ``unasked_reason`` and ``can_decide_all`` are the only places with this rule, and
agree: every command that judges or asks uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    Question,
    ResourceType,
)

OPERATION_CODES: Final[Mapping[str, int]] = {Operation(code).name: code for code in OPERATIONS}
RESOURCE_TYPE_CODES: Final[Mapping[str, int]] = {
    ResourceType(code).name: code for code in RESOURCE_TYPES
}
QUESTION_FIELDS: Final = ("principal", "host", "operation", "resource_type", "resource_name")

_LITERAL: Final = PatternType.LITERAL.name


class Unasked(StrEnum):
    """Reason why ACLs cannot decide a recorded tuple."""

    INCOMPLETE = "no principal or no resource name"
    EVERYONE = "principal User:*"
    PATTERN_TYPE = "pattern type is not LITERAL"
    OPERATION = "unknown operation"
    RESOURCE_TYPE = "unknown resource type"


class Asked(Protocol):
    """A recorded request, with the words of the log."""

    @property
    def principal(self) -> str: ...
    @property
    def host(self) -> str | None: ...
    @property
    def operation(self) -> str: ...
    @property
    def resource_type(self) -> str: ...
    @property
    def resource_name(self) -> str: ...


class Recorded(Asked, Protocol):
    """A recorded request, which ACLs may be unable to decide."""

    @property
    def pattern_type(self) -> str: ...


def question_of(asked: Asked) -> Question:
    """Return the question for ACLs, which must be able to decide the request."""
    return Question(
        asked.principal,
        asked.host,
        OPERATION_CODES[asked.operation],
        RESOURCE_TYPE_CODES[asked.resource_type],
        asked.resource_name,
    )


def unasked_reason(recorded: Recorded) -> Unasked | None:
    """Return why ACLs cannot decide a request, or None if they can. Any field may be None."""
    if None in (recorded.principal, recorded.resource_name):
        return Unasked.INCOMPLETE
    if recorded.principal == WILDCARD_PRINCIPAL:
        return Unasked.EVERYONE
    if recorded.pattern_type != _LITERAL:
        return Unasked.PATTERN_TYPE
    if recorded.operation not in OPERATION_CODES:
        return Unasked.OPERATION
    if recorded.resource_type not in RESOURCE_TYPE_CODES:
        return Unasked.RESOURCE_TYPE
    return None


def can_decide_all(distinct: Callable[[str], Collection[Any]]) -> bool:
    """Return True if ACLs can decide every request whose fields have these values.

    Args:
        distinct: returns the values of a field. ``unasked_reason`` looks at each field alone.
    """
    return (
        {None, WILDCARD_PRINCIPAL}.isdisjoint(distinct("principal"))
        and None not in distinct("resource_name")
        and {_LITERAL}.issuperset(distinct("pattern_type"))
        and OPERATION_CODES.keys() >= {*distinct("operation")}
        and RESOURCE_TYPE_CODES.keys() >= {*distinct("resource_type")}
    )
