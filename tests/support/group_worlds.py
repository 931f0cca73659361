"""Small worlds of groups, members and ACLs that collide, and a judge that knows groups."""

from typing import NamedTuple

from hypothesis import strategies as st

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)

USERS = ("User:a", "User:b", "User:c")
GROUPS = ("g", "h")
NAMES = ("a", "ab", "*")
HOSTS = ("*", "10.0.0.1")


class World(NamedTuple):
    """ACLs, some of groups, and the members of each group."""

    acls: list[Acl]
    members: dict[str, set[str]]


def _acls(principals: tuple[str, ...]) -> st.SearchStrategy[Acl]:
    return st.builds(
        Acl, st.just(ResourceType.TOPIC), st.sampled_from(NAMES),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)), st.sampled_from(principals),
        st.sampled_from(HOSTS), st.sampled_from((Operation.ALL, Operation.READ)),
        st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
    )  # fmt: skip


hand_made_acls = st.sets(_acls(USERS), max_size=4)
worlds = st.builds(
    World,
    st.lists(_acls((*USERS[:2], "User:*", "Group:g", "Group:h")), max_size=6, unique=True),
    st.fixed_dictionaries({group: st.sets(st.sampled_from(USERS)) for group in GROUPS}),
)
QUESTIONS = [
    Question(principal, host, operation, ResourceType.TOPIC, name)
    for principal in (*USERS, "User:d")
    for host in ("10.0.0.1", "10.0.0.2")
    for operation in (Operation.READ, Operation.DESCRIBE)
    for name in ("a", "ab", "b")
]


def allows_with_groups(world: World, question: Question, *, is_open: bool) -> bool:
    """Judge as Kafka would if it knew groups: by plain scan, without the code that is tested."""
    named = [each for each in world.acls if _matches_name(each, question.resource_name)]
    if not any(_who(each, world) for each in named):
        return is_open
    found = [
        each
        for each in named
        if _is_for(each, question.principal, world) and each.host in ("*", question.host)
    ]
    denies = (Operation.ALL, question.operation)
    allows = (*denies, Operation.READ) if question.operation == Operation.DESCRIBE else denies
    if any(
        each.permission_type == PermissionType.DENY and each.operation in denies for each in found
    ):
        return False
    return any(
        each.permission_type == PermissionType.ALLOW and each.operation in allows for each in found
    )


def _who(acl: Acl, world: World) -> bool:
    """Return True if an ACL is for anybody: an empty group has no ACL."""
    kind, _, name = acl.principal.partition(":")
    return kind != "Group" or bool(world.members[name])


def _is_for(acl: Acl, principal: str, world: World) -> bool:
    kind, _, name = acl.principal.partition(":")
    if kind == "Group":
        return principal in world.members[name]
    return acl.principal in ("User:*", principal)


def _matches_name(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)
