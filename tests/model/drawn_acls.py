"""Draw random ACLs, filters and questions over few names, so that they collide."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tests.model.reference import CLUSTER_NAME
from tests.model.story import ROOT, USERS

_NAMES: Final = ("a", "ab", "b", "*")
_PRINCIPALS: Final = ("User:a", "User:b", "User:*")
_HOSTS: Final = ("*", "*", "10.0.0.1")
_TYPES: Final = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)
_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.ALL)
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)


def draw_new_acls(chance: Random, pool: Sequence[Acl]) -> tuple[Acl, ...]:
    if chance.random() < 0.05:  # more than the applier applies at once
        acl, count = draw_acl(chance), chance.randint(60, 150)
        return tuple(
            Acl(2, f"a{number}", 3, acl.principal, "*", 3, acl.permission_type)
            for number in range(count)
        )
    acls = [chance.choice(pool) for _ in range(chance.choice((1, 1, 2, 3, 4)))]
    return tuple(_invalidate(chance, acl) if chance.random() < 0.1 else acl for acl in acls)


def draw_acl(chance: Random) -> Acl:
    return Acl(
        chance.choice(_TYPES),
        chance.choice(_NAMES),
        chance.choice(_PATTERNS),
        chance.choice(_PRINCIPALS),
        chance.choice(_HOSTS),
        chance.choice(_OPERATIONS),
        chance.choice((PermissionType.DENY, PermissionType.ALLOW, PermissionType.ALLOW)),
    )


def draw_right(chance: Random) -> Acl:
    """Draw an ACL about the right to change ACLs."""
    return Acl(
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        PatternType.LITERAL,
        chance.choice((*USERS, "User:*")),
        chance.choice(_HOSTS),
        chance.choice((Operation.ALTER, Operation.DESCRIBE, Operation.ALL)),
        chance.choice((PermissionType.DENY, PermissionType.ALLOW, PermissionType.ALLOW)),
    )


def _invalidate(chance: Random, acl: Acl) -> Acl:
    """Return an invalid copy."""
    kind, name, pattern, principal, host, operation, permission = (
        acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal,
        acl.host, acl.operation, acl.permission_type,
    )  # fmt: skip
    return chance.choice(
        (
            Acl(1, name, pattern, principal, host, operation, permission),
            Acl(kind, "", pattern, principal, host, operation, permission),
            Acl(kind, name, PatternType.MATCH, principal, host, operation, permission),
            Acl(kind, name, pattern, "a", host, operation, permission),
            Acl(kind, name, pattern, principal, host, Operation.ANY, permission),
            Acl(kind, name, pattern, principal, host, operation, 0),
        )
    )


def draw_filter(chance: Random) -> AclFilter:
    if chance.random() < 0.05:
        return AclFilter(operation=Operation.UNKNOWN)
    return AclFilter(
        resource_type=chance.choice((ResourceType.ANY, ResourceType.ANY, *_TYPES)),
        resource_name=chance.choice((None, *_NAMES)),
        pattern_type=chance.choice((PatternType.ANY, PatternType.MATCH, *_PATTERNS)),
        principal=chance.choice((None, None, *_PRINCIPALS)),
        host=chance.choice((None, None, "*")),
        operation=chance.choice((Operation.ANY, Operation.ANY, Operation.READ)),
        permission_type=chance.choice((1, 1, PermissionType.DENY, PermissionType.ALLOW)),
    )


def draw_question(chance: Random) -> Question:
    return Question(
        chance.choice(("User:a", "User:a", "User:b", "User:b", ROOT)),
        chance.choice((None, "10.0.0.1", "10.0.0.2")),
        chance.choice((Operation.READ, Operation.DESCRIBE, Operation.WRITE)),
        chance.choice(_TYPES),
        chance.choice(("a", "ab", "abc", "b", "a7")),
    )
