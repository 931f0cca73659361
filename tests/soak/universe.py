"""Random ACLs and questions that often meet: few users, hosts and names.

The changing ACLs are about these names alone. ``ballast`` are fixed ACLs on other names, so that
listings, checkpoints and searches have work to do.
"""

from __future__ import annotations

from random import Random
from typing import Final

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tests.support.acls import acl

USERS: Final = tuple(f"User:u{number}" for number in range(6))
TOPICS: Final = tuple(f"hot-{number}" for number in range(8))
GROUPS: Final = ("hot-group", "hot-other")
HOSTS: Final = ("10.0.0.1", "10.0.0.2")
TOPIC_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
HOT_MAX: Final = 60
"""About so many ACLs change, so that their number stays the same over time."""
BALLAST_USERS: Final = 40


def make_ballast(count: int) -> list[Acl]:
    """Return ACLs on topics that nobody asks about."""
    return [
        acl(f"User:b{number % BALLAST_USERS}", topic=f"ballast-{number:05}")
        for number in range(count)
    ]


def is_hot(each: Acl) -> bool:
    """Return True if it is one of the ACLs that change."""
    return each.principal in USERS or each.principal == "User:*"


def make_acl(random: Random) -> Acl:
    pattern, name = random.choice(
        [
            *((PatternType.LITERAL, name) for name in TOPICS),
            (PatternType.PREFIXED, "hot-"),
            (PatternType.PREFIXED, "hot-1"),
            (PatternType.PREFIXED, "ho"),
            (PatternType.LITERAL, "*"),
        ]
    )
    kind = ResourceType.TOPIC
    if random.random() < 0.15:
        kind, pattern, name = ResourceType.GROUP, PatternType.LITERAL, random.choice(GROUPS)
    is_denial = random.random() < 0.25
    return Acl(
        kind,
        name,
        pattern,
        random.choice((*USERS, "User:*")) if name in TOPICS else random.choice(USERS),
        random.choice(("*", "*", *HOSTS)),
        random.choice((Operation.ALL, *TOPIC_OPERATIONS[:2], Operation.DESCRIBE)),
        PermissionType.DENY if is_denial else PermissionType.ALLOW,
    )


def make_question(random: Random) -> Question:
    is_group = random.random() < 0.15
    return Question(
        random.choice(USERS),
        random.choice((*HOSTS, None)),
        random.choice((Operation.READ, Operation.DESCRIBE) if is_group else TOPIC_OPERATIONS),
        ResourceType.GROUP if is_group else ResourceType.TOPIC,
        random.choice(GROUPS if is_group else TOPICS),
    )


def choose_change(random: Random, acls: frozenset[Acl]) -> tuple[list[Acl], list[Acl]]:
    """Return ACLs to add, or ACLs to remove; the other list is empty.

    The more ACLs there are, the likelier they are removed, so their number stays near ``HOT_MAX``.
    """
    if random.random() * HOT_MAX * 2 < len(acls):
        ordered = sorted(acls, key=repr)  # a set's order would not follow from the seed
        return [], random.sample(ordered, min(len(ordered), random.randint(1, 3)))
    new = {make_acl(random) for _ in range(random.randint(1, 3))} - acls
    return sorted(new, key=repr), []
