"""Paths of ACLs in ZooKeeper, with Kafka's spellings: TransactionalId, Read, Allow.

**Invariant:** a path holds at most one pattern, and ``parse_path`` reverses ``pattern_path``. A
path below one of Kafka's roots is a pattern's, one of Kafka's own, or an error. Each written
spelling is read back as the same code; a spelling that Kafka would read as UNKNOWN is an error.

Source: Kafka 3.9 ZkData (ZkAclStore), SecurityUtils.toPascalCase and valueFromMap; ZooKeeper 3.8
PathUtils.validatePath.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.management.formats.model import AclTextError

AnyCode = TypeVar("AnyCode", ResourceType, Operation, PermissionType)


def _spell(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


RESOURCE_TYPE_NAMES: Final[Mapping[ResourceType, str]] = {
    ResourceType(code): _spell(ResourceType(code).name) for code in RESOURCE_TYPES
}
OPERATION_NAMES: Final[Mapping[Operation, str]] = {
    Operation(code): _spell(Operation(code).name) for code in OPERATIONS
}
PERMISSION_TYPE_NAMES: Final[Mapping[PermissionType, str]] = {
    code: _spell(code.name) for code in (PermissionType.DENY, PermissionType.ALLOW)
}

# The names of directories must match exactly: Kafka lists them, but then reads its own spelling.
RESOURCE_TYPES_BY_NAME: Final = {name: code for code, name in RESOURCE_TYPE_NAMES.items()}
# The names of codes are read in any case, as in Kafka.
OPERATIONS_BY_NAME: Final = {ascii_upper(name): code for code, name in OPERATION_NAMES.items()}
PERMISSION_TYPES_BY_NAME: Final = {
    ascii_upper(name): code for code, name in PERMISSION_TYPE_NAMES.items()
}


LITERAL_ROOT: Final = "/kafka-acl"
EXTENDED_ROOT: Final = "/kafka-acl-extended"
PREFIXED_ROOT: Final = f"{EXTENDED_ROOT}/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
PATTERN_ROOTS: Final = {PatternType.LITERAL: LITERAL_ROOT, PatternType.PREFIXED: PREFIXED_ROOT}
CHANGE_ROOTS: Final = {PatternType.LITERAL: LITERAL_CHANGES, PatternType.PREFIXED: EXTENDED_CHANGES}

# Java's strings are UTF-16, so that PathUtils rejects all characters beyond U+FFFF too.
_INVALID: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")


class Pattern(NamedTuple):
    """A resource pattern. Codes are raw, as those of an ``Acl``."""

    resource_type: int
    resource_name: str
    pattern_type: int

    @classmethod
    def of(cls, acl: Acl) -> Pattern:
        return cls(acl.resource_type, acl.resource_name, acl.pattern_type)


def why_not_a_znode(name: str) -> str | None:
    """Return why no znode can have this name, or None."""
    if "/" in name:
        return "a znode's name cannot contain /"
    if name in ("", ".", ".."):
        return f"a znode cannot be named {name!r}"
    if match := _INVALID.search(name):
        return f"a znode's name cannot contain the character U+{ord(match[0]):04X}"
    return None


def pattern_path(pattern: Pattern) -> str:
    """Return the path of a pattern's znode. The caller has checked the codes and the name."""
    root = PATTERN_ROOTS[PatternType(pattern.pattern_type)]
    kind = RESOURCE_TYPE_NAMES[ResourceType(pattern.resource_type)]
    return f"{root}/{kind}/{pattern.resource_name}"


def parse_path(path: str) -> Pattern | None:
    """Return the pattern whose ACLs a znode holds; None for any other znode of a cluster."""
    for pattern_type, root in PATTERN_ROOTS.items():
        if path.startswith(f"{root}/"):
            kind, _, name = path.removeprefix(f"{root}/").partition("/")
            return _new_pattern(path, pattern_type, kind, name) if name else None
    if path.startswith(f"{EXTENDED_ROOT}/") and path != PREFIXED_ROOT:
        raise AclTextError(path, f"unknown pattern type: expected only {PREFIXED_ROOT}")
    return None


def _new_pattern(path: str, pattern_type: PatternType, kind: str, name: str) -> Pattern:
    resource_type = RESOURCE_TYPES_BY_NAME.get(kind)
    if resource_type is None:
        expected = ", ".join(RESOURCE_TYPES_BY_NAME)
        raise AclTextError(path, f"unknown resource type {kind!r}: expected one of {expected}")
    if reason := why_not_a_znode(name):
        raise AclTextError(path, f"invalid path: {reason}")
    return Pattern(resource_type, name, pattern_type)
