"""Which recorded tuples a set of ACLs can decide, and the codes of their words.

**Invariant:** ``CONDITIONS`` is the only such rule: every command that judges or asks uses it, with
Arrow or without.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

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


class Unasked(StrEnum):
    """Reason why ACLs cannot decide a recorded tuple."""

    INCOMPLETE = "no principal or no resource name"
    EVERYONE = "principal User:*"
    PATTERN_TYPE = "pattern type is not LITERAL"
    OPERATION = "unknown operation"
    RESOURCE_TYPE = "unknown resource type"


class Condition(NamedTuple):
    """A tuple has ``reason`` if its ``field`` is, or is not, one of ``values``."""

    reason: Unasked
    field: str
    values: frozenset[str | None]
    if_among: bool


CONDITIONS: Final = (
    Condition(Unasked.INCOMPLETE, "principal", frozenset({None}), if_among=True),
    Condition(Unasked.INCOMPLETE, "resource_name", frozenset({None}), if_among=True),
    Condition(Unasked.EVERYONE, "principal", frozenset({WILDCARD_PRINCIPAL}), if_among=True),
    Condition(
        Unasked.PATTERN_TYPE, "pattern_type", frozenset({PatternType.LITERAL.name}), if_among=False
    ),
    Condition(Unasked.OPERATION, "operation", frozenset(OPERATION_CODES), if_among=False),
    Condition(
        Unasked.RESOURCE_TYPE, "resource_type", frozenset(RESOURCE_TYPE_CODES), if_among=False
    ),
)
"""The first condition that holds gives the reason."""


def question_of(
    principal: str, host: str | None, operation: str, resource_type: str, resource_name: str
) -> Question:
    """Return the question for ACLs, which must be able to decide the tuple with these fields."""
    return Question(
        principal,
        host,
        OPERATION_CODES[operation],
        RESOURCE_TYPE_CODES[resource_type],
        resource_name,
    )


def unasked_reason(recorded: object) -> Unasked | None:
    """Return why ACLs cannot decide a tuple, or None if they can.

    Args:
        recorded: has the attributes ``QUESTION_FIELDS``, and ``pattern_type``.
    """
    for reason, field, values, if_among in CONDITIONS:
        if (getattr(recorded, field) in values) is if_among:
            return reason
    return None
