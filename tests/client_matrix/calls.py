"""The calls of an admin client, in one vocabulary that every client is adapted to.

**Invariant:** a client of the matrix uses only its public interface, and reports only what that
returned. An operation that it lacks raises NotOfferedError, and never returns an empty answer.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final

from authorizerd.acl.model import Acl, PatternType

NODE_ID: Final = 1
PASSWORD: Final = "new-secret"
"""The password of new SCRAM credentials."""
CONFIG_SOURCES: Final = {
    "DYNAMIC_BROKER_CONFIG": 2,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": 3,
    "STATIC_BROKER_CONFIG": 4,
    "DEFAULT_CONFIG": 5,
}


class Call(StrEnum):
    """The operations of the matrix."""

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
    ALTER_CREDENTIALS = "alter SCRAM credentials"
    DESCRIBE_CREDENTIALS = "describe SCRAM credentials"


class Protocol(StrEnum):
    """How a client connects: the security protocol, and the mechanism of authentication."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL, client auth none"
    MUTUAL_SSL = "SSL, client auth required"
    PLAIN = "SASL_PLAINTEXT, PLAIN"
    SCRAM_SHA_256 = "SASL_PLAINTEXT, SCRAM-SHA-256"
    SCRAM_SHA_512 = "SASL_PLAINTEXT, SCRAM-SHA-512"
    PLAIN_OVER_SSL = "SASL_SSL, PLAIN"
    SCRAM_SHA_256_OVER_SSL = "SASL_SSL, SCRAM-SHA-256"
    SCRAM_SHA_512_OVER_SSL = "SASL_SSL, SCRAM-SHA-512"

    @property
    def security_protocol(self) -> str:
        return self.value.partition(", ")[0]

    @property
    def mechanism(self) -> str | None:
        """The mechanism of authentication, or None if the protocol has no authentication."""
        is_sasl = self.security_protocol.startswith("SASL_")
        return self.value.partition(", ")[2] if is_sasl else None


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


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the CA that the client trusts, and the client's key with its certificate."""

    authority: Path
    keystore: Path | None = None


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

    ``hides`` has the calls that return nothing when they are refused, instead of an error, and
    ``crashes`` those that then end the process.
    ``reported_instead`` has what a call reports in place of authorized operations. ``notes``
    explain both, and other peculiarities, to readers of the matrix.

    Raises (all methods): NotOfferedError and RefusedError.
    """

    hides: ClassVar[frozenset[Call]] = frozenset()
    crashes: ClassVar[frozenset[Call]] = frozenset()
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
        raise NotOfferedError(self.offers_no_more)

    def alter_config(self, name: str, value: str | None) -> None:
        """Set a config of the node, or reset it."""
        raise NotOfferedError(self.offers_no_more)

    def describe_quorum(self) -> tuple[int, list[int]]:
        """Return the id of the leader, and the ids of the voters."""
        raise NotOfferedError(self.offers_no_more)

    def alter_credential(self, user: str, mechanism: str, iterations: int | None) -> None:
        """Set a user's credential for PASSWORD, or delete it if ``iterations`` is None."""
        raise NotOfferedError(self.offers_no_more)

    def describe_credentials(self, user: str) -> Mapping[str, int]:
        """Return the iterations of a user's credentials by mechanism."""
        raise NotOfferedError(self.offers_no_more)

    def close(self) -> None:
        """Close the client's connections."""


def security_protocol(login: Login | None, tls: Tls | None) -> str:
    """Return Kafka's name of a client's security protocol."""
    if login is None:
        return "PLAINTEXT" if tls is None else "SSL"
    return "SASL_PLAINTEXT" if tls is None else "SASL_SSL"


def python_settings(address: str, login: Login | None, tls: Tls | None) -> dict[str, Any]:
    """Return the settings that kafka-python and aiokafka have in common."""
    settings: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": security_protocol(login, tls),
    }
    if tls is not None:
        settings["ssl_context"] = context = ssl.create_default_context(cafile=tls.authority)
        if tls.keystore is not None:
            context.load_cert_chain(tls.keystore)
    if login is not None:
        settings |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.username,
            "sasl_plain_password": login.password,
        }
    return settings


def check_code(code: int) -> None:
    """Raise RefusedError for an error code."""
    if code:
        raise RefusedError(code)


Open = Callable[[str, Login | None, Tls | None], AdminClient]
"""Open a client of an address (``host:port``), with or without authentication and TLS."""


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
