"""Random ACLs and questions that often meet: few users, hosts and names.

``ballast`` are fixed ACLs on other names, so that listings, checkpoints and searches have work to
do.
"""

from collections.abc import Collection
from dataclasses import dataclass
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
    """The values to draw from: a value that is written twice is drawn twice as often.

    Attributes:
        users: the principals of ACLs.
        patterns: the types, pattern types and names of ACLs' resources.
        is_closed: True if no ACL may allow or deny everyone what no question is about.
        resources: the types and names of those that questions are about.
        askers, asked_from: the principals and hosts of questions.
    """

    users: tuple[str, ...]
    patterns: tuple[tuple[ResourceType, PatternType, str], ...]
    hosts: tuple[str, ...]
    operations: tuple[Operation, ...]
    askers: tuple[str, ...]
    asked_from: tuple[str | None, ...]
    asked_operations: tuple[Operation, ...]
    resources: tuple[tuple[ResourceType, str], ...]
    is_closed: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(name for kind, name in self.resources if kind is ResourceType.TOPIC)

    def draw_acl(self, chance: Random) -> Acl:
        kind, pattern, name = chance.choice(self.patterns)
        is_open = not self.is_closed or (kind, name) in self.resources
        return Acl(
            kind, name, pattern, chance.choice(self.users if is_open else self.askers),
            chance.choice(self.hosts), chance.choice(self.operations), chance.choice(_PERMISSIONS),
        )  # fmt: skip

    def draw_pool(self, chance: Random, size: int) -> list[Acl]:
        pool: dict[Acl, None] = {}
        while len(pool) < size:
            pool[self.draw_acl(chance)] = None
        return [*pool]

    def draw_question(self, chance: Random) -> Question:
        kind, name = chance.choice(self.resources)
        operations = _GROUP_OPERATIONS if kind is ResourceType.GROUP else self.asked_operations
        asker, host = chance.choice(self.askers), chance.choice(self.asked_from)
        return Question(asker, host, chance.choice(operations), kind, name)

    def draw_change(self, chance: Random, acls: Collection[Acl]) -> tuple[list[Acl], list[Acl]]:
        """Return ACLs to add, or ACLs to remove, so that their number stays near ``HOT_MAX``."""
        if chance.random() * HOT_MAX * 2 < len(acls):
            ordered = sorted(acls, key=repr)  # a set's order would not follow from the seed
            return [], chance.sample(ordered, min(len(ordered), chance.randint(1, 3)))
        new: set[Acl] = set()
        while not new:
            new = {self.draw_acl(chance) for _ in range(chance.randint(1, 3))} - {*acls}
        return sorted(new, key=repr), []


_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_LITERAL, _PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
_USERS: Final = tuple(f"User:u{number}" for number in range(6))
_RESOURCES: Final = (
    *((_TOPIC, f"hot-{number}") for number in range(8)),
    (_GROUP, "hot-group"),
    (_GROUP, "hot-other"),
)

DAEMON: Final = Universe(
    users=(*_USERS, "User:*"),
    patterns=(
        *((kind, _LITERAL, name) for kind, name in _RESOURCES),
        *((_TOPIC, _PREFIXED, name) for name in ("hot-", "hot-1", "ho")),
        (_TOPIC, _LITERAL, "*"),
    ),
    hosts=("*", "*", "127.0.0.1", "10.0.0.2"),
    operations=(Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE),
    askers=_USERS,
    asked_from=("127.0.0.1", "10.0.0.2", None),
    asked_operations=TOPIC_OPERATIONS,
    resources=_RESOURCES,
    is_closed=True,
)
"""That of real daemons."""


def make_ballast(count: int) -> list[Acl]:
    """Return ACLs on topics that nobody asks about."""
    return [
        acl(f"User:b{number % _BALLAST_USERS}", topic=f"ballast-{number:05}")
        for number in range(count)
    ]


def is_hot(each: Acl) -> bool:
    return each.principal in DAEMON.users


def named(acls: frozenset[Acl], topic: str | None) -> frozenset[Acl]:
    """Return the literal ACLs of this name, or all of them without a name."""
    if topic is None:
        return acls
    literal = PatternType.LITERAL
    return frozenset(a for a in acls if (a.pattern_type, a.resource_name) == (literal, topic))
