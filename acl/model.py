"""ACLs, filters and questions in Kafka's terms, with Kafka's codes.

**Invariant:** a stored code is never lost. An ``Acl`` keeps the raw int8 codes of its record. A
code that this version does not know reads as UNKNOWN, and is written back unchanged.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self, cast

import msgspec

from authorizerd.image.changes import ClusterChange

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"


class Code(IntEnum):
    """A Kafka enumeration. Records and requests carry its members as an int8."""

    @classmethod
    def read(cls, code: int) -> Self:
        """Return the member with this code, or UNKNOWN if a later Kafka version added the code."""
        # Use enum's private map: `cls(code)` raises for a code that this version does not know.
        members = cls._value2member_map_
        return cast(Self, members.get(code) or members[0])

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Return the member with this name, or None."""
        return cls.__members__.get(name)


class ResourceType(Code):
    """The type of a resource. ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Code):
    """How a resource pattern matches names. ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(Code):
    """An operation on a resource. ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(Code):
    """Whether an ACL allows or denies. ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def _names(codes: type[Code]) -> list[str]:
    """Return the names of all int8 codes; negative codes are at the end, so that -1 finds the
    last."""
    return [codes.read(code if code < 128 else code - 256).name for code in range(256)]


# Tables by code: reading `.name` of an enum member takes longer than a decision.
RESOURCE_TYPE_NAMES: Final = _names(ResourceType)
PATTERN_TYPE_NAMES: Final = _names(PatternType)
OPERATION_NAMES: Final = _names(Operation)
PERMISSION_TYPE_NAMES: Final = _names(PermissionType)

# The codes that a new ACL or a question may have: neither UNKNOWN nor a filter-only code.
RESOURCE_TYPES = range(ResourceType.TOPIC, max(ResourceType) + 1)
OPERATIONS = range(Operation.ALL, max(Operation) + 1)


class Acl(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One ACL binding: a resource pattern and an entry. Codes are raw int8 values.

    The workers' feed encodes it as an array of its fields.

    Source: KIP-140 (AclBinding), KIP-290 (pattern type), KIP-801 (AccessControlEntryRecord).
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """Return Kafka 4's ``StandardAcl[…]``, the text that the audit log contains."""
        return (
            f"StandardAcl[resourceType={RESOURCE_TYPE_NAMES[self.resource_type]}, "
            f"resourceName={self.resource_name}, "
            f"patternType={PATTERN_TYPE_NAMES[self.pattern_type]}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={OPERATION_NAMES[self.operation]}, "
            f"permissionType={PERMISSION_TYPE_NAMES[self.permission_type]}]"
        )


class AclFilter(msgspec.Struct, frozen=True, gc=False):
    """Select ACLs for a describe or delete request. None and ANY match every value of a field.

    Source: KIP-140 (AclBindingFilter), KIP-290 (MATCH and ANY).
    """

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission_type: int = PermissionType.ANY


class Question(msgspec.Struct, frozen=True, gc=False):
    """May ``principal``, connected from ``host``, do ``operation`` to this resource?

    ``host`` is an address as Java prints it (IPv6 uncompressed), or None if the address is unknown.
    For an unknown host, an ALLOW rule applies only if its host is ``*``, but a DENY rule applies
    whatever its host is.
    """

    principal: str
    host: str | None
    operation: int
    resource_type: int
    resource_name: str


class AclAdded(msgspec.Struct, frozen=True, gc=False):
    """A committed AccessControlEntryRecord; ``id`` is its 16-byte uuid."""

    id: bytes
    acl: Acl


class AclRemoved(msgspec.Struct, frozen=True, gc=False):
    """A committed RemoveAccessControlEntryRecord; ``id`` is its 16-byte uuid."""

    id: bytes


Change = AclAdded | AclRemoved


class ChangeBatch(msgspec.Struct, frozen=True):
    """Changes that become visible together, complete up to the log offset ``last_offset``.

    ``changes`` are changes of ACLs, ``cluster_changes`` all others. Both are empty if the log
    grew only by records that the daemon does not keep. A long batch arrives as several values with
    the same ``last_offset``. None of them is visible before the last one, which has ``is_end`` set.
    """

    last_offset: int
    changes: tuple[Change, ...] = ()
    is_end: bool = True
    cluster_changes: tuple[ClusterChange, ...] = ()
