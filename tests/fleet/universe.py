"""Random ACLs, filters and questions that often meet: few users, hosts and names.

``ballast`` are fixed ACLs on other names, so that listings, checkpoints and searches have work to
do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
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
from tests.support.acls import acl

TOPIC_OPERATIONS: Final = (
    Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
    Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
)  # fmt: skip
_GROUP_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE)
_PERMISSIONS: Final = (PermissionType.DENY, PermissionType.ALLOW, PermissionType.ALLOW)
_BALLAST_USERS: Final = 40
HOT_MAX: Final = 60
"""About so many ACLs change, so that their number stays the same over time."""


@dataclass(frozen=True)
class Universe:
    """What is drawn: each value is chosen evenly, so one that is written twice is twice as likely.

    Attributes:
        patterns: the names of ACLs and their pattern types.
        topics, groups: the names of questions.
        hosts: those of ACLs.
        askers: the principals of questions.
        asked_from: the hosts of questions.
    """

    users: tuple[str, ...]
    patterns: tuple[tuple[PatternType, str], ...]
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    hosts: tuple[str, ...]
    operations: tuple[Operation, ...]
    askers: tuple[str, ...]
    asked_from: tuple[str | None, ...]
    asked_operations: tuple[Operation, ...]
    group_share: float

    def draw_acl(self, chance: Random) -> Acl:
        kind, (pattern, name) = ResourceType.TOPIC, chance.choice(self.patterns)
        if chance.random() < self.group_share:
            kind, pattern, name = (
                ResourceType.GROUP,
                PatternType.LITERAL,
                chance.choice(self.groups),
            )
        return Acl(
            kind, name, pattern, chance.choice(self.users), chance.choice(self.hosts),
            chance.choice(self.operations), chance.choice(_PERMISSIONS),
        )  # fmt: skip

    def draw_pool(self, chance: Random, size: int) -> list[Acl]:
        """Return different ACLs."""
        pool: dict[Acl, None] = {}
        while len(pool) < size:
            pool[self.draw_acl(chance)] = None
        return [*pool]

    def draw_question(self, chance: Random) -> Question:
        is_group = chance.random() < self.group_share
        return Question(
            chance.choice(self.askers),
            chance.choice(self.asked_from),
            chance.choice(_GROUP_OPERATIONS if is_group else self.asked_operations),
            ResourceType.GROUP if is_group else ResourceType.TOPIC,
            chance.choice(self.groups if is_group else self.topics),
        )

    def draw_filter(self, chance: Random) -> AclFilter:
        names = (*self.groups, *(name for _, name in self.patterns))
        kinds = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)
        any_pattern = (PatternType.ANY, PatternType.MATCH)
        return AclFilter(
            resource_type=chance.choice((ResourceType.ANY, ResourceType.ANY, *kinds)),
            resource_name=chance.choice((None, *names)),
            pattern_type=chance.choice((*any_pattern, PatternType.LITERAL, PatternType.PREFIXED)),
            principal=chance.choice((None, None, *self.users)),
            host=chance.choice((None, None, "*")),
            operation=chance.choice((Operation.ANY, Operation.ANY, Operation.READ)),
            permission_type=chance.choice((1, 1, PermissionType.DENY, PermissionType.ALLOW)),
        )

    def draw_change(self, chance: Random, acls: Collection[Acl]) -> tuple[list[Acl], list[Acl]]:
        """Return ACLs to add, or ACLs to remove; the other list is empty.

        The more there are, the likelier they are removed, so their number stays near ``HOT_MAX``.
        """
        if chance.random() * HOT_MAX * 2 < len(acls):
            ordered = sorted(acls, key=repr)  # a set's order would not follow from the seed
            return [], chance.sample(ordered, min(len(ordered), chance.randint(1, 3)))
        new = {self.draw_acl(chance) for _ in range(chance.randint(1, 3))} - {*acls}
        return sorted(new, key=repr), []


_USERS: Final = tuple(f"User:u{number}" for number in range(6))
_TOPICS: Final = tuple(f"hot-{number}" for number in range(8))
_GROUPS: Final = ("hot-group", "hot-other")

DAEMON: Final = Universe(
    users=(*_USERS, "User:*"),
    patterns=(
        *((PatternType.LITERAL, name) for name in _TOPICS),
        *((PatternType.PREFIXED, name) for name in ("hot-", "hot-1", "ho")),
        (PatternType.LITERAL, "*"),
    ),
    topics=_TOPICS,
    groups=_GROUPS,
    hosts=("*", "*", "127.0.0.1", "10.0.0.2"),
    operations=(Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE),
    askers=_USERS,
    asked_from=("127.0.0.1", "10.0.0.2", None),
    asked_operations=TOPIC_OPERATIONS,
    group_share=0.15,
)
"""That of real daemons."""


def make_ballast(count: int) -> list[Acl]:
    """Return ACLs on topics that nobody asks about."""
    return [
        acl(f"User:b{number % _BALLAST_USERS}", topic=f"ballast-{number:05}")
        for number in range(count)
    ]


def is_hot(each: Acl) -> bool:
    """Return True if it is one of the ACLs that change."""
    return each.principal in DAEMON.users


def named(acls: frozenset[Acl], topic: str | None) -> frozenset[Acl]:
    """Return the literal ACLs of this name, or all of them without a name."""
    if topic is None:
        return acls
    literal = PatternType.LITERAL
    return frozenset(a for a in acls if (a.pattern_type, a.resource_name) == (literal, topic))
