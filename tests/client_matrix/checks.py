"""The checks behind the cells of the matrix: make each call, then check its effect.

**Invariant:** a cell is "ok" only if the effect is visible to the client that caused it, and a
client without the right is refused and changes nothing.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from authorizerd.acl.model import Acl, PatternType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism
from tests.client_matrix.calls import (
    NODE_ID,
    AdminClient,
    Call,
    Cluster,
    Config,
    NotOfferedError,
    Operations,
    RefusedError,
    Reported,
)
from tests.support.acls import acl

SEEN, HIDDEN = "seen", "hidden"
"""A DESCRIBER may describe the topic and the group named SEEN, but not those named HIDDEN."""

NAME: Final = "bob"
"""The user of every connection."""
ITERATIONS: Final = 4096
SCRAM_MECHANISMS: Final = tuple(mechanism.text for mechanism in ScramMechanism)

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
"""Returns the client as a user with this role; each role has a separate server."""


def acls_of(topic: str) -> tuple[Acl, Acl]:
    return acl(topic=topic), acl(topic=topic[:-1], pattern="PREFIXED")


def refusal_of(ask: Callable[[], object]) -> int:
    """Return the error code of a request that must be refused."""
    try:
        reported = ask()
    except RefusedError as error:
        return error.code
    raise AssertionError(f"expected a refusal, found {reported!r}")


def check_refusal(client: AdminClient, call: Call, ask: Callable[[], object]) -> None:
    """Check that the call is refused. Some clients return nothing then, and some would crash."""
    if call in client.hides:
        assert not ask()
    elif call not in client.crashes:
        assert refusal_of(ask) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_creation(as_role: AsRole, topic: str) -> None:
    """Create a literal, a prefixed and a repeated ACL; a user without ALTER creates none."""
    literal, prefixed = acls_of(topic)
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    assert admin.create_acls([literal, prefixed, literal]) == [0, 0, 0]
    assert admin.describe_acls(topic, PatternType.MATCH) == {literal, prefixed}
    denied = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert other.create_acls([literal, prefixed]) == [denied, denied]
    assert other.describe_acls(topic, PatternType.MATCH) == set()


def check_description(as_role: AsRole, topic: str) -> None:
    """Describe by name, by prefix and by MATCH; a user without DESCRIBE is refused."""
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
        nobody, Call.DESCRIBE_ACLS, lambda: nobody.describe_acls(topic, PatternType.MATCH)
    )


def check_deletion(as_role: AsRole, topic: str) -> None:
    """Matching ACLs are deleted and reported, others stay; a user without ALTER deletes none."""
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    literal, prefixed = acls_of(topic)
    other_acl = acl(topic=f"{topic}-other")
    assert admin.create_acls([literal, prefixed, other_acl]) == [0, 0, 0]
    assert admin.delete_acls(topic, PatternType.MATCH) in ({literal, prefixed}, None)
    assert admin.describe_acls(topic, PatternType.MATCH) == set()
    assert admin.describe_acls(other_acl.resource_name, PatternType.MATCH) == {other_acl}
    denied = refusal_of(lambda: other.delete_acls(topic, PatternType.MATCH))
    assert denied == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def check_cluster(as_role: AsRole, _: str) -> None:
    """Every user sees the node, and the operations that the ACLs allow."""
    for role, operations in (
        (Role.SUPER_USER, ALL_OF_CLUSTER),
        (Role.DESCRIBER, DESCRIBE),
        (Role.NOBODY, frozenset[str]()),
    ):
        client = as_role(role)
        reported = None if Call.DESCRIBE_CLUSTER in client.reported_instead else operations
        assert client.describe_cluster() == Cluster([NODE_ID], reported), role


def check_group_list(as_role: AsRole, _: str) -> None:
    """The list is empty for every user."""
    for role in Role:
        assert as_role(role).list_groups() == [], role


def check_each(as_role: AsRole, call: Call, everything: Operations, denied: ErrorCode) -> None:
    """Check what each user sees of two resources: operations, or a denial."""
    for role, seen, hidden in (
        (Role.SUPER_USER, everything, everything),
        (Role.DESCRIBER, DESCRIBE, int(denied)),
        (Role.NOBODY, int(denied), int(denied)),
    ):
        client = as_role(role)
        expected = {
            name: each if isinstance(each, int) else client.reported_instead.get(call, each)
            for name, each in ((SEEN, seen), (HIDDEN, hidden))
        }
        ask = client.describe_topics if call is Call.DESCRIBE_TOPICS else client.describe_groups
        reported: Reported = ask([SEEN, HIDDEN])
        assert reported == expected, role


def check_groups(as_role: AsRole, _: str) -> None:
    """Expect the operations that the ACLs allow; without DESCRIBE, GROUP_AUTHORIZATION_FAILED."""
    check_each(as_role, Call.DESCRIBE_GROUPS, ALL_OF_GROUPS, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def check_topics(as_role: AsRole, _: str) -> None:
    """Expect the operations that the ACLs allow; without DESCRIBE, TOPIC_AUTHORIZATION_FAILED."""
    check_each(as_role, Call.DESCRIBE_TOPICS, ALL_OF_TOPICS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def check_configs(as_role: AsRole, _: str) -> None:
    """Expect values and their sources; a user without DESCRIBE_CONFIGS sees nothing."""
    configs = as_role(Role.SUPER_USER).describe_configs()
    assert configs["node.id"] == Config(str(NODE_ID), STATIC_BROKER)
    assert configs[IDLE] == IDLE_DEFAULT
    other = as_role(Role.DESCRIBER)
    check_refusal(other, Call.DESCRIBE_CONFIGS, other.describe_configs)


def check_alteration(as_role: AsRole, _: str) -> None:
    """A value is in force until it is reset; a user without ALTER_CONFIGS sets nothing."""
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
    """The node is its own leader; a user without DESCRIBE is refused."""
    for role in (Role.SUPER_USER, Role.DESCRIBER):
        assert as_role(role).describe_quorum() == (NODE_ID, [NODE_ID])
    nobody = as_role(Role.NOBODY)
    check_refusal(nobody, Call.DESCRIBE_QUORUM, nobody.describe_quorum)


def check_credential_alteration(as_role: AsRole, topic: str) -> None:
    """Credentials are added, replaced and deleted; a user without ALTER changes none."""
    admin, other = as_role(Role.SUPER_USER), as_role(Role.DESCRIBER)
    user = f"{topic}-user"
    first, second = SCRAM_MECHANISMS
    admin.alter_credential(user, first, 4096)
    admin.alter_credential(user, first, 8192)
    admin.alter_credential(user, second, 16_384)
    assert admin.describe_credentials(user) == {first: 8192, second: 16_384}
    admin.alter_credential(user, first, None)
    denied = refusal_of(lambda: other.alter_credential(user, second, 4096))
    assert denied == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert admin.describe_credentials(user) == {second: 16_384}


def check_credential_description(as_role: AsRole, _: str) -> None:
    """The credentials in the log are described; a user without DESCRIBE is refused."""
    expected = dict.fromkeys(SCRAM_MECHANISMS, ITERATIONS)
    assert as_role(Role.SUPER_USER).describe_credentials(NAME) == expected
    nobody = as_role(Role.NOBODY)
    check_refusal(nobody, Call.DESCRIBE_CREDENTIALS, lambda: nobody.describe_credentials(NAME))


CHECKS: Final[Mapping[Call, Callable[[AsRole, str], None]]] = {
    Call.CREATE_ACLS: check_creation,
    Call.DESCRIBE_ACLS: check_description,
    Call.DELETE_ACLS: check_deletion,
    Call.DESCRIBE_CLUSTER: check_cluster,
    Call.LIST_GROUPS: check_group_list,
    Call.DESCRIBE_GROUPS: check_groups,
    Call.DESCRIBE_TOPICS: check_topics,
    Call.DESCRIBE_CONFIGS: check_configs,
    Call.ALTER_CONFIGS: check_alteration,
    Call.DESCRIBE_QUORUM: check_quorum,
    Call.ALTER_CREDENTIALS: check_credential_alteration,
    Call.DESCRIBE_CREDENTIALS: check_credential_description,
}


def check_cell(call: Call, as_role: AsRole, topic: str) -> str:
    """Check a call; return its cell's text: ok, or why it is not offered. ``topic`` is its own."""
    try:
        CHECKS[call](as_role, topic)
    except NotOfferedError as error:
        return f"{NOT_OFFERED}{error}"
    return OK
