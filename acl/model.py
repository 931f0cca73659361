"""ACLs, filters and questions in Kafka's terms, with Kafka's codes.

Law: a stored code is never lost. An ``Acl`` keeps the raw int8 codes of its record; a code that
this version does not know reads as UNKNOWN and is written back as it came.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self, cast

import msgspec

from authorizerd.image.changes import ClusterChange

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"


class Code(IntEnum):
    """A Kafka enumeration whose members travel as an int8."""

    @classmethod
    def read(cls, code: int) -> Self:
        """Return the member of ``code``, UNKNOWN for a code from the future."""
        members = cls._value2member_map_
        return cast(Self, members.get(code) or members[0])

    @classmethod
    def named(cls, name: str) -> Self | None:
        """Return the member called ``name``, None where there is none."""
        return cls.__members__.get(name)


class ResourceType(Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Code):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(Code):
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
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def _names(codes: type[Code]) -> dict[int, str]:
    return {int(code): code.name for code in codes}


# By code, since to ask a member for its name takes longer than to decide.
_UNKNOWN = "UNKNOWN"
_RESOURCE_TYPE_NAMES = _names(ResourceType)
_PATTERN_TYPE_NAMES = _names(PatternType)
_OPERATION_NAMES = _names(Operation)
_PERMISSION_TYPE_NAMES = _names(PermissionType)

# The first and last code that a stored ACL or a question may hold and still mean something.
RESOURCE_TYPES = range(ResourceType.TOPIC, ResourceType.USER + 1)
OPERATIONS = range(Operation.ALL, Operation.TWO_PHASE_COMMIT + 1)


class Acl(msgspec.Struct, frozen=True, gc=False):
    """One ACL binding: a resource pattern and an entry. Codes are raw int8 values.

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
        """Return Kafka 4's ``StandardAcl[…]``, as it stands in the audit log."""
        return (
            f"StandardAcl[resourceType={_RESOURCE_TYPE_NAMES.get(self.resource_type, _UNKNOWN)}, "
            f"resourceName={self.resource_name}, "
            f"patternType={_PATTERN_TYPE_NAMES.get(self.pattern_type, _UNKNOWN)}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={_OPERATION_NAMES.get(self.operation, _UNKNOWN)}, "
            f"permissionType={_PERMISSION_TYPE_NAMES.get(self.permission_type, _UNKNOWN)}]"
        )


class AclFilter(msgspec.Struct, frozen=True):
    """Which ACLs a describe or delete means; None and ANY leave a field open.

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

    ``host`` is an address as Java prints it (IPv6 uncompressed), None where it is unknown: then
    only rules for every host allow, and a rule for any host denies.
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
    """Changes that show together; ``last_offset`` is the log offset up to which they are complete.

    ``changes`` are those of ACLs, ``cluster_changes`` those of all else. Both may be empty: the log
    moved on without touching what is kept. A long batch comes in pieces, all of one
    ``last_offset``; none of them shows before the last one, ``is_end``.
    """

    last_offset: int
    changes: tuple[Change, ...] = ()
    is_end: bool = True
    cluster_changes: tuple[ClusterChange, ...] = ()
