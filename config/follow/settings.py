"""How the daemon follows a live cluster: its settings and the keys for them.

They are Kafka's keys of a controller quorum, and our own.

Source: Kafka 4.3 QuorumConfig, KRaftConfigs, BrokerSecurityConfigs, ClientUtils, SaslConfigs,
Utils.getHost; KIP-853 for bootstrap servers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import ClassVar, Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.kerberos import TicketLogIn
from authorizerd.config.key import OWN_PREFIX, Key, list_keys, select_settings, setting
from authorizerd.config.oauth import TokenLogIn
from authorizerd.config.oauth_keys import LOGIN_KEYS
from authorizerd.config.tls import TlsSettings
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS, ENDPOINT_IDENTIFICATION, secret_text
from authorizerd.config.values import (
    INT32_MAX,
    INT64_MAX,
    IntegerParser,
    SecurityProtocol,
    boolean,
    choice,
    invalid,
    parse_principals,
    trim,
    words,
)

SOURCE: Final = "authorizerd.source"
SOURCE_PREFIX: Final = "authorizerd.source."
WRITES: Final = "authorizerd.writes"
ENFORCE: Final = "authorizerd.grants.enforce"
FORWARD_PRINCIPALS: Final = "authorizerd.writes.forward.principals"
FORWARD_PRIVILEGED: Final = "authorizerd.writes.forward.privileged"
BOOTSTRAP_SERVERS: Final = "controller.quorum.bootstrap.servers"
VOTERS: Final = "controller.quorum.voters"
REQUEST_TIMEOUT: Final = "controller.quorum.request.timeout.ms"
WRITE_TIMEOUT: Final = "controller.socket.timeout.ms"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
CONTROLLER_NAMES: Final = "controller.listener.names"
JAAS: Final = "sasl.jaas.config"
STALE_MAX: Final = "authorizerd.source.stale.max.ms"
CLUSTER_ID: Final = "authorizerd.source.cluster.id"
POLL: Final = "authorizerd.source.poll.ms"

KAFKAS_DEFAULT_MECHANISM: Final = "GSSAPI"

AS_CLIENTS: Final = "As {} in Kafka's clients, for connections to brokers."
"""The description of a key that has no meaning of its own."""
_PORT_MAX: Final = 65535
# As in Kafka, a scheme is ignored, and an IPv6 address may lack its brackets.
_ADDRESS: Final = re.compile(
    r"(?:[0-9a-zA-Z\-%._]*://)?\[?(?P<host>[0-9a-zA-Z\-%._:]+)\]?:(?P<port>[0-9]{1,5})"
)
_CLUSTER_ID: Final = re.compile("[0-9A-Za-z_-]{1,200}")
_NODE_ID: Final = IntegerParser(0, INT32_MAX)


class SourceKind(StrEnum):
    """Where the ACLs come from, as in ``authorizerd.source``."""

    LOG = "log"
    QUORUM = "quorum"
    BROKERS = "brokers"


class Writes(StrEnum):
    """What happens to changes of ACLs that clients send to a daemon that follows a cluster."""

    REFUSE = "refuse"
    AS_SELF = "as-self"
    FORWARD = "forward"


class Privileged(StrEnum):
    """Kinds of principals that are forwarded only if they are named.

    The controllers trust the principal of a forwarded request, so these callers would get more
    rights than they should have.
    """

    ANONYMOUS = "anonymous"
    SUPER_USERS = "super-users"
    LOCAL_USERS = "local-users"


@dataclass(frozen=True, slots=True)
class Server:
    """An address to connect to first. ``node_id`` is known in ``controller.quorum.voters`` only."""

    host: str
    port: int
    node_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """A user with a password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: str = field(repr=False)


AnyLogIn = LogIn | TokenLogIn | TicketLogIn
"""How the daemon, or a command, logs in to a cluster."""


def servers(text: str) -> tuple[Server, ...]:
    """Return the addresses of a comma list of host:port, each once."""
    return tuple(dict.fromkeys(_server(entry, "host:port") for entry in words(text)))


def voters(text: str) -> tuple[Server, ...]:
    """Return the voters of a comma list of id@host:port. Each id occurs once."""
    servers: dict[int, Server] = {}
    for entry in words(text):
        number, at, address = entry.partition("@")
        try:
            node_id = _NODE_ID(trim(number))
        except InvalidValueError:
            at = ""
        if not at:
            raise invalid(entry, "id@host:port", what="voter")
        if node_id in servers:
            raise InvalidValueError(f"the voter {node_id} occurs twice")
        servers[node_id] = _server(trim(address), "id@host:port", node_id)
    return tuple(servers.values())


def _server(text: str, shape: str, node_id: int | None = None) -> Server:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise invalid(text, f"{shape} (an IPv6 host in brackets)", what="address")
    if not 1 <= int(match["port"]) <= _PORT_MAX:
        raise invalid(text, f"a port from 1 to {_PORT_MAX}", what="address")
    return Server(match["host"], int(match["port"]), node_id)


def parse_cluster_id(text: str) -> str:
    """Return a cluster's id, which is usually a UUID in base64."""
    if _CLUSTER_ID.fullmatch(text) is None:
        raise invalid(text, "1 to 200 letters, digits, '-' or '_'", what="cluster id")
    return text


def parse_security_protocol(text: str) -> SecurityProtocol:
    """Return the security protocol with this name, in any case, as Kafka's clients read it."""
    return choice(SecurityProtocol)(text.upper())


def privileged_kinds(text: str) -> frozenset[Privileged]:
    """Return the kinds of principals in a comma list."""
    return frozenset(map(choice(Privileged), words(text)))


class _QuorumKeys:
    """Kafka's keys for the quorum to follow. A broker reads the same keys."""

    controller_quorum_bootstrap_servers = Key(servers, "")
    """Comma-separated list of host:port of controllers. If it is set, the daemon follows their
    cluster (authorizerd.source) and finds the leader and the other controllers through them."""
    controller_quorum_voters = Key(voters, "")
    """Comma-separated list of id@host:port: the controllers of a static quorum. If it names nodes
    other than this one, the daemon follows their cluster (authorizerd.source). It is not used if
    controller.quorum.bootstrap.servers is set."""
    controller_quorum_request_timeout_ms = Key(IntegerParser(1, INT32_MAX), "2000")
    """Maximum time in milliseconds that the daemon waits for a controller's answer, when it reads
    the metadata log."""
    controller_socket_timeout_ms = Key(IntegerParser(1, INT32_MAX), "30000")
    """Maximum time in milliseconds that the daemon waits for a controller's answer, when it passes
    on changes of ACLs (authorizerd.writes)."""
    sasl_mechanism_controller_protocol = Key(str, KAFKAS_DEFAULT_MECHANISM)
    """SASL mechanism with which the daemon logs in to controllers: PLAIN, SCRAM-SHA-256,
    SCRAM-SHA-512, OAUTHBEARER or GSSAPI (`authorizerd docs own-user`). The user is in
    listener.name.NAME.MECHANISM.sasl.jaas.config (both in lower case; NAME is that of
    controller.listener.names)."""
    sasl_jaas_config = Key(secret_text)
    """A JAAS line in Kafka's format with the credentials with which the daemon logs in to
    controllers. It is used if neither listener.name.NAME.MECHANISM.sasl.jaas.config nor
    listener.name.NAME.sasl.jaas.config is set."""


@dataclass(frozen=True, kw_only=True)
class BrokersSettings:
    """The keys of Kafka's clients, with a prefix, for the connection to brokers."""

    bootstrap_servers: ClassVar = Key(servers, "")
    """Comma-separated list of host:port of brokers. Required with authorizerd.source=brokers."""
    security_protocol: ClassVar = Key(parse_security_protocol, "PLAINTEXT")
    """Security protocol of the brokers' listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    sasl_mechanism: ClassVar = Key(str, KAFKAS_DEFAULT_MECHANISM)
    """SASL mechanism with which the daemon logs in to brokers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,
    OAUTHBEARER or GSSAPI (`authorizerd docs own-user`)."""
    sasl_jaas_config: ClassVar = Key(secret_text)
    """A JAAS line in Kafka's format with the credentials with which the daemon logs in to
    brokers."""
    client_id: str = setting(str, "authorizerd")
    """Name of the daemon in the brokers' logs and quotas."""
    request_timeout_ms: int = setting(IntegerParser(1, INT32_MAX), "30000")
    """Maximum time in milliseconds that the daemon waits for a broker's answer."""
    poll_ms: int = setting(IntegerParser(100, INT32_MAX), "5000")
    """Time in milliseconds between two listings of the ACLs with authorizerd.source=brokers. The
    daemon waits longer after large answers, and when a broker throttles it."""


class _SourceKey:
    """The key that selects what is followed."""

    source = Key(choice(SourceKind))
    """Where the ACLs come from: log (a log of the daemon's own), quorum (the controllers of a Kafka
    cluster) or brokers (a cluster whose controllers cannot be reached). Default: quorum if
    controller.quorum.bootstrap.servers is set, or if controller.quorum.voters names nodes other
    than this one; log otherwise. Kafka's keys for a broker apply to quorum; the keys
    authorizerd.source.* that Kafka's clients have apply to brokers."""


@dataclass(frozen=True, kw_only=True)
class ContactSettings:
    """Which cluster is followed, and what is decided without contact to it."""

    cluster_id: str | None = setting(parse_cluster_id)
    """Id of the cluster to follow (kafka-cluster cluster-id shows it). The daemon then never
    follows another cluster, even at its first start. Controllers tell their cluster's id only to
    users with ALTER, which the daemon does not need otherwise."""
    stale_max_ms: int = setting(IntegerParser(1000, INT64_MAX), "300000")
    """Time in milliseconds for which a daemon that follows a cluster continues to decide after it
    has lost contact. After it, the daemon is not ready until contact is back."""
    serve_copy: bool = setting(boolean, "false")
    """If true, a daemon that follows a cluster decides by its local copy from the start, before the
    first contact."""


@dataclass(frozen=True, kw_only=True)
class WriteSettings:
    """What happens to changes of ACLs. All but the first are for ``authorizerd.writes=forward``."""

    writes: Writes = setting(choice(Writes), "refuse")
    """What a daemon that follows a cluster does with changes of ACLs: refuse; as-self (check the
    caller's right here, then change the cluster with the daemon's own credentials); forward (to the
    controllers, as the caller; only with the source quorum)."""
    writes_forward_principals: frozenset[str] = setting(parse_principals, "")
    """Semicolon-separated list of principals (Type:name) whose changes are forwarded. Required with
    authorizerd.writes=forward."""
    writes_forward_privileged: frozenset[Privileged] = setting(privileged_kinds, "")
    """Comma-separated list of the kinds of principals that may be forwarded although only this
    daemon vouches for them: anonymous (User:ANONYMOUS), super-users (those of super.users),
    local-users (PLAIN users of this configuration)."""


@dataclass(frozen=True, kw_only=True)
class GrantSettings:
    """Whether this daemon begins and ends the grants of the cluster that it follows."""

    grants_enforce: bool = setting(boolean, "false")
    """If true, a daemon that follows a cluster begins and ends the grants of `authorizerd acls
    grant` with its own credentials, which need ALTER on the cluster. A daemon with a log of its own
    always does."""


@dataclass(frozen=True, kw_only=True)
class FollowSettings(ContactSettings, BrokersSettings, WriteSettings, GrantSettings):
    """How to follow a cluster: the keys with a field, and values that rules derive from others.

    ``request_timeout_ms`` is for requests that read, ``write_timeout_ms`` for those that change.
    ``log_in`` and ``tls`` are None if the security protocol has none.
    """

    kind: SourceKind
    servers: tuple[Server, ...]
    log_in: AnyLogIn | None = None
    tls: TlsSettings | None = None
    write_timeout_ms: int = 30_000

    @property
    def username(self) -> str | None:
        """The name to log in with; None without authentication, or if a token has it."""
        return None if self.log_in is None else self.log_in.username


_CONTACT: Final = list_keys(ContactSettings, SOURCE_PREFIX)
_BROKERS: Final = list_keys(BrokersSettings, SOURCE_PREFIX)
_WRITES: Final = list_keys(WriteSettings, OWN_PREFIX)
_GRANTS: Final = list_keys(GrantSettings, OWN_PREFIX)
FOLLOW_SETTINGS: Final = select_settings(
    FollowSettings, {**_CONTACT, **_BROKERS, **_WRITES, **_GRANTS}
)
"""The key of each field that has one."""

QUORUM_KEYS: Final = (*list_keys(_QuorumKeys).values(), *LOGIN_KEYS, ENDPOINT_IDENTIFICATION)

_SERVER_ONLY: Final = ("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.allow.")
SOURCE_SSL_KEYS: Final = tuple(
    key for key in CLIENT_SSL_KEYS if not key.name.startswith(_SERVER_ONLY)
)
"""Kafka's keys for TLS that a client uses."""

BROKERS_KEYS: Final = (
    *_BROKERS.values(),
    *(
        replace(
            key,
            name=SOURCE_PREFIX + key.name,
            describe=partial(AS_CLIENTS.format, key.name),
        )
        for key in (*LOGIN_KEYS, *SOURCE_SSL_KEYS)
    ),
)
"""The keys that only ``authorizerd.source=brokers`` reads."""

FORWARD_KEYS: Final = (*_WRITES.values(),)[1:]
"""The keys that only ``authorizerd.writes=forward`` reads."""

FOLLOW_KEYS: Final = (
    *list_keys(_SourceKey, OWN_PREFIX).values(),
    *_CONTACT.values(),
    *BROKERS_KEYS,
    *_WRITES.values(),
    *_GRANTS.values(),
)
"""Our own keys for following a cluster."""
