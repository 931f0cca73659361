"""The calls of an admin client, in one vocabulary that every client is adapted to.

**Invariant:** a client of the matrix uses only its public interface, and reports only what that
returned. An operation that it lacks raises NotOfferedError, and never returns an empty answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from authorizerd.acl.model import Acl, PatternType

NODE_ID: Final = 1
CONFIG_SOURCES: Final = {
    "DYNAMIC_BROKER_CONFIG": 2,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": 3,
    "STATIC_BROKER_CONFIG": 4,
    "DEFAULT_CONFIG": 5,
}


class Call(StrEnum):
    """The columns of the matrix."""

    CREATE_ACLS = "create ACLs"
    DESCRIBE_ACLS = "describe ACLs"
    DELETE_ACLS = "delete ACLs"
    DESCRIBE_CLUSTER = "describe cluster"
    LIST_GROUPS = "list groups"
    DESCRIBE_GROUPS = "describe groups"
    DESCRIBE_TOPICS = "describe topics"
    DESCRIBE_CONFIGS = "describe configs"
    ALTER_CONFIGS = "alter configs"
    DESCRIBE_QUORUM = "describe quorum"


class Protocol(StrEnum):
    """How a client connects; its name is that of the listener."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"


class NotOfferedError(Exception):
    """The client has no call for this operation; the text says what it offers."""


class RefusedError(Exception):
    """The server's error, as the client reports it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with error {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a SASL mechanism."""

    username: str
    password: str
    mechanism: str = "PLAIN"


Operations = frozenset[str]
Reported = Mapping[str, "Operations | int | None"]
"""By name: the authorized operations, or an error code; None if the client reports neither."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The ids of the nodes, and the authorized operations if the client reports them."""

    node_ids: Sequence[int]
    operations: Operations | None


@dataclass(frozen=True, slots=True)
class Config:
    """The value of a key, and Kafka's code of its source."""

    value: str | None
    source: int


class AdminClient:
    """A client of one user, connected to one server.

    ``hides`` has the calls that return nothing when they are refused, instead of an error.
    ``reported_instead`` has what a call reports in place of authorized operations. ``notes``
    explain both, and other peculiarities, to readers of the matrix.

    Raises (all methods): NotOfferedError and RefusedError.
    """

    hides: ClassVar[frozenset[Call]] = frozenset()
    reported_instead: ClassVar[Mapping[Call, int | None]] = {}
    notes: ClassVar[Mapping[Call, str]] = {}
    offers_no_acls: ClassVar[str] = "no call for ACLs"
    offers_no_more: ClassVar[str] = "no call for it"

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        """Return each creation's error code."""
        raise NotOfferedError(self.offers_no_acls)

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        """Return the ACLs whose pattern matches a topic's name."""
        raise NotOfferedError(self.offers_no_acls)

    def delete_acls(self, topic: str, pattern_type: PatternType) -> set[Acl] | None:
        """Return the deleted ACLs, or None if the client does not report them."""
        raise NotOfferedError(self.offers_no_acls)

    def describe_cluster(self) -> Cluster:
        raise NotOfferedError(self.offers_no_more)

    def list_groups(self) -> list[str]:
        raise NotOfferedError(self.offers_no_more)

    def describe_groups(self, names: Sequence[str]) -> Reported:
        raise NotOfferedError(self.offers_no_more)

    def describe_topics(self, names: Sequence[str]) -> Reported:
        raise NotOfferedError(self.offers_no_more)

    def describe_configs(self) -> Mapping[str, Config]:
        """Return the configs of the node."""
        raise NotOfferedError(self.offers_no_more)

    def alter_config(self, name: str, value: str | None) -> None:
        """Set a config of the node, or reset it."""
        raise NotOfferedError(self.offers_no_more)

    def describe_quorum(self) -> tuple[int, list[int]]:
        """Return the id of the leader, and the ids of the voters."""
        raise NotOfferedError(self.offers_no_more)

    def close(self) -> None:
        """Close the client's connections."""


def python_settings(address: str, login: Login | None) -> dict[str, Any]:
    """Return the settings that kafka-python and aiokafka have in common."""
    settings = {"bootstrap_servers": address}
    if login is None:
        return settings
    return settings | {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.username,
        "sasl_plain_password": login.password,
    }


def check_code(code: int) -> None:
    """Raise RefusedError for an error code."""
    if code:
        raise RefusedError(code)


Open = Callable[[str, Login | None], AdminClient]
"""Opens a client of an address, ``host:port``, with a log-in or anonymously."""


def report_each(
    names: Sequence[str], tell: Callable[[str], Operations | int | None]
) -> dict[str, Operations | int | None]:
    """Ask about one name at a time, so that a refusal affects only that name."""
    reported: dict[str, Operations | int | None] = {}
    for name in names:
        try:
            reported[name] = tell(name)
        except RefusedError as error:
            reported[name] = error.code
    return reported
