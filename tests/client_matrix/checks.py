"""The checks behind the cells of the matrix: each operation is carried out, and its effect checked.

**Invariant:** a cell is "ok" only if the effect is visible to the client that caused it, and a
client without the right is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.client_matrix.deeds import (
    NODE_ID,
    AdminClient,
    Cluster,
    Config,
    Deed,
    NotOfferedError,
    Operations,
    RefusedError,
    Told,
)

SEEN, HIDDEN = "seen", "hidden"
"""A topic, or a group, that whoever may only describe some may describe; and another."""

OK: Final = "ok"
NOT_OFFERED: Final = "not offered: "
DYNAMIC_BROKER, STATIC_BROKER, DEFAULT = 2, 4, 5
IDLE: Final = "connections.max.idle.ms"
IDLE_DEFAULT: Final = Config("600000", DEFAULT)

DESCRIBE: Final[Operations] = frozenset({"DESCRIBE"})
ALL_OF_GROUPS: Final = DESCRIBE | {"READ", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
ALL_OF_TOPICS: Final = ALL_OF_GROUPS | {"WRITE", "CREATE", "ALTER"}
ALL_OF_CLUSTER: Final = DESCRIBE | {
    "CREATE", "ALTER", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
}  # fmt: skip


class Role(StrEnum):
    """The rights of a client's user on its server."""

    SUPER_USER = "super user"
    DESCRIBER = "may describe the cluster, a topic and a group"
    NOBODY = "has no rights"


AsRole = Callable[[Role], AdminClient]
"""Returns one client's connection as a user with a role, each at a server of its own."""


def acl_on(name: str, pattern_type: PatternType) -> Acl:
    return Acl(
        ResourceType.TOPIC, name, pattern_type, "User:alice", "*", Operation.READ,
        PermissionType.ALLOW,
    )  # fmt: skip


def acls_of(topic: str) -> tuple[Acl, Acl]:
    """Return an ACL on a topic's name, and one on a prefix of it."""
    return acl_on(topic, PatternType.LITERAL), acl_on(topic[:-1], PatternType.PREFIXED)


def refusal_of(ask: Callable[[], object]) -> int:
    """Return the error code of a request that must be refused."""
    try:
        told = ask()
    except RefusedError as error:
        return error.code
    raise AssertionError(f"not refused, but told {told!r}")


def check_refusal(client: AdminClient, deed: Deed, ask: Callable[[], object]) -> None:
    """Check that the user lacks the right; some clients report nothing instead of the error."""
    if deed in client.hides:
        assert not ask()
    else:
        assert refusal_of(ask) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_creation(as_role: AsRole, topic: str) -> None:
    """Literal, prefixed, and a repeated one; none by a user without ALTER on the cluster."""
    literal, prefixed = acls_of(topic)
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    assert admin.create_acls([literal, prefixed, literal]) == [0, 0, 0]
    assert admin.describe_acls(topic, PatternType.MATCH) == {literal, prefixed}
    denied = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert other.create_acls([literal, prefixed]) == [denied, denied]
    assert other.describe_acls(topic, PatternType.MATCH) == set()


def check_description(as_role: AsRole, topic: str) -> None:
    """By name, by prefix, by MATCH; only for a user with DESCRIBE on the cluster."""
    admin = as_role(Role.SUPER_USER)
    literal, prefixed = acls_of(topic)
    assert admin.create_acls([literal, prefixed]) == [0, 0]
    assert admin.describe_acls(topic, PatternType.LITERAL) == {literal}
    assert admin.describe_acls(topic[:-1], PatternType.PREFIXED) == {prefixed}
    assert admin.describe_acls(topic, PatternType.ANY) == {literal}
    assert admin.describe_acls(topic, PatternType.MATCH) == {literal, prefixed}
    assert as_role(Role.DESCRIBER).describe_acls(topic, PatternType.MATCH) == set()
    nobody = as_role(Role.NOBODY)
    check_refusal(
        nobody, Deed.DESCRIBE_ACLS, lambda: nobody.describe_acls(topic, PatternType.MATCH)
    )


def check_deletion(as_role: AsRole, topic: str) -> None:
    """Matches are deleted and reported, others stay; none by a user without ALTER."""
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    literal, prefixed = acls_of(topic)
    beside = acl_on(f"{topic}-beside", PatternType.LITERAL)
    assert admin.create_acls([literal, prefixed, beside]) == [0, 0, 0]
    assert admin.delete_acls(topic, PatternType.MATCH) in ({literal, prefixed}, None)
    assert admin.describe_acls(topic, PatternType.MATCH) == set()
    assert admin.describe_acls(beside.resource_name, PatternType.MATCH) == {beside}
    denied = refusal_of(lambda: other.delete_acls(topic, PatternType.MATCH))
    assert denied == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_cluster(as_role: AsRole, _: str) -> None:
    """Every user sees the node; operations are those that the ACLs allow."""
    for role, operations in (
        (Role.SUPER_USER, ALL_OF_CLUSTER),
        (Role.DESCRIBER, DESCRIBE),
        (Role.NOBODY, frozenset[str]()),
    ):
        client = as_role(role)
        told = None if Deed.DESCRIBE_CLUSTER in client.told_instead else operations
        assert client.describe_cluster() == Cluster([NODE_ID], told), role


def check_group_list(as_role: AsRole, _: str) -> None:
    """The list is empty for every user."""
    for role in Role:
        assert as_role(role).list_groups() == [], role


def check_told(as_role: AsRole, deed: Deed, everything: Operations, denied: ErrorCode) -> None:
    """Check what each user sees of two resources: operations, or a denial."""
    for role, seen, hidden in (
        (Role.SUPER_USER, everything, everything),
        (Role.DESCRIBER, DESCRIBE, int(denied)),
        (Role.NOBODY, int(denied), int(denied)),
    ):
        client = as_role(role)
        expected = {
            name: each if isinstance(each, int) else client.told_instead.get(deed, each)
            for name, each in ((SEEN, seen), (HIDDEN, hidden))
        }
        ask = client.describe_topics if deed is Deed.DESCRIBE_TOPICS else client.describe_groups
        told: Told = ask([SEEN, HIDDEN])
        assert told == expected, role


def check_groups(as_role: AsRole, _: str) -> None:
    """Operations according to the ACLs, GROUP_AUTHORIZATION_FAILED without DESCRIBE."""
    check_told(as_role, Deed.DESCRIBE_GROUPS, ALL_OF_GROUPS, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def check_topics(as_role: AsRole, _: str) -> None:
    """Operations according to the ACLs, TOPIC_AUTHORIZATION_FAILED without DESCRIBE."""
    check_told(as_role, Deed.DESCRIBE_TOPICS, ALL_OF_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def check_configs(as_role: AsRole, _: str) -> None:
    """Values and their sources; nothing without DESCRIBE_CONFIGS."""
    configs = as_role(Role.SUPER_USER).describe_configs()
    assert configs["node.id"] == Config(str(NODE_ID), STATIC_BROKER)
    assert configs[IDLE] == IDLE_DEFAULT
    other = as_role(Role.DESCRIBER)
    check_refusal(other, Deed.DESCRIBE_CONFIGS, other.describe_configs)


def check_alteration(as_role: AsRole, _: str) -> None:
    """A value is in force until it is reset; nothing is set without ALTER_CONFIGS."""
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    admin.alter_config(IDLE, "54321")
    try:
        assert admin.describe_configs()[IDLE] == Config("54321", DYNAMIC_BROKER)
    finally:
        admin.alter_config(IDLE, None)
    assert admin.describe_configs()[IDLE] == IDLE_DEFAULT
    denied = refusal_of(lambda: other.alter_config(IDLE, "54321"))
    assert denied == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_quorum(as_role: AsRole, _: str) -> None:
    """The node is its own leader; nothing without DESCRIBE."""
    for role in (Role.SUPER_USER, Role.DESCRIBER):
        assert as_role(role).describe_quorum() == (NODE_ID, [NODE_ID])
    nobody = as_role(Role.NOBODY)
    check_refusal(nobody, Deed.DESCRIBE_QUORUM, nobody.describe_quorum)


CHECKS: Final[Mapping[Deed, Callable[[AsRole, str], None]]] = {
    Deed.CREATE_ACLS: check_creation,
    Deed.DESCRIBE_ACLS: check_description,
    Deed.DELETE_ACLS: check_deletion,
    Deed.DESCRIBE_CLUSTER: check_cluster,
    Deed.LIST_GROUPS: check_group_list,
    Deed.DESCRIBE_GROUPS: check_groups,
    Deed.DESCRIBE_TOPICS: check_topics,
    Deed.DESCRIBE_CONFIGS: check_configs,
    Deed.ALTER_CONFIGS: check_alteration,
    Deed.DESCRIBE_QUORUM: check_quorum,
}


def check_cell(deed: Deed, as_role: AsRole, topic: str) -> str:
    """Carry out an operation and return its cell's text: ok, or why it is not offered.

    Raise any error that occurs.

    Args:
        topic: a name that no other cell uses.
    """
    try:
        CHECKS[deed](as_role, topic)
    except NotOfferedError as error:
        return f"{NOT_OFFERED}{error}"
    return OK
