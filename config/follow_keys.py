"""The keys for following a cluster: Kafka's keys of a controller quorum, and our own.

Source: Kafka 4.3 QuorumConfig, KRaftConfigs, BrokerSecurityConfigs, ClientUtils, Utils.getHost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow import Privileged, Server, SourceKind, Writes
from authorizerd.config.key import Key
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS, ENDPOINT_IDENTIFICATION, secret_text
from authorizerd.config.values import (
    SecurityProtocol,
    boolean,
    choice,
    integer,
    invalid,
    super_users,
    trim,
    words,
)

SOURCE: Final = "authorizerd.source"
SOURCE_PREFIX: Final = "authorizerd.source."
WRITES: Final = "authorizerd.writes"
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
SERVE_COPY: Final = "authorizerd.source.serve.copy"
POLL: Final = "authorizerd.source.poll.ms"

KAFKAS_DEFAULT_MECHANISM: Final = "GSSAPI"

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_PORT_MAX: Final = 65535
# As in Kafka, a scheme is ignored, and an IPv6 address may lack its brackets.
_ADDRESS: Final = re.compile(
    r"(?:[0-9a-zA-Z\-%._]*://)?\[?(?P<host>[0-9a-zA-Z\-%._:]+)\]?:(?P<port>[0-9]{1,5})"
)
_CLUSTER_ID: Final = re.compile("[0-9A-Za-z_-]{1,200}")
_NODE_ID: Final = integer(0, _INT32_MAX)


def servers(text: str) -> tuple[Server, ...]:
    """Return the addresses of a comma list of host:port, each once."""
    return tuple(dict.fromkeys(_server(entry, "host:port") for entry in words(text)))


def voters(text: str) -> tuple[Server, ...]:
    """Return the voters of a comma list of id@host:port. Each id occurs once."""
    found: dict[int, Server] = {}
    for entry in words(text):
        number, at, address = entry.partition("@")
        try:
            node_id = _NODE_ID(trim(number))
        except InvalidValueError:
            at = ""
        if not at:
            raise invalid(entry, "id@host:port", what="voter")
        if node_id in found:
            raise InvalidValueError(f"the voter {node_id} occurs twice")
        found[node_id] = _server(trim(address), "id@host:port", node_id)
    return tuple(found.values())


def _server(text: str, shape: str, node_id: int | None = None) -> Server:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise invalid(text, f"{shape} (an IPv6 host in brackets)", what="address")
    if not 1 <= int(match["port"]) <= _PORT_MAX:
        raise invalid(text, f"a port from 1 to {_PORT_MAX}", what="address")
    return Server(match["host"], int(match["port"]), node_id)


def cluster_id(text: str) -> str:
    """Return a cluster's id, which is usually a UUID in base64."""
    if _CLUSTER_ID.fullmatch(text) is None:
        raise invalid(text, "1 to 200 letters, digits, '-' or '_'", what="cluster id")
    return text


def security_protocol(text: str) -> SecurityProtocol:
    """Return the security protocol with this name, in any case, as Kafka's clients read it."""
    return choice(SecurityProtocol)(text.upper())


def privileged_kinds(text: str) -> frozenset[Privileged]:
    """Return the kinds of principals in a comma list."""
    return frozenset(map(choice(Privileged), words(text)))


QUORUM_KEYS: Final = (
    Key(
        name=BOOTSTRAP_SERVERS,
        parse=servers,
        default="",
        doc=(
            "Comma-separated list of host:port of controllers. If it is set, the daemon follows"
            " their cluster (authorizerd.source) and finds the leader and the other controllers"
            " through them."
        ),
    ),
    Key(
        name=VOTERS,
        parse=voters,
        default="",
        doc=(
            "Comma-separated list of id@host:port: the controllers of a static quorum. If it names"
            " others than this node, the daemon follows their cluster (authorizerd.source). It is"
            " not used if controller.quorum.bootstrap.servers is set."
        ),
    ),
    Key(
        name=REQUEST_TIMEOUT,
        parse=integer(1, _INT32_MAX),
        default="2000",
        doc=(
            "Maximum time in milliseconds that the daemon waits for a controller's answer, when it"
            " reads the metadata log."
        ),
    ),
    Key(
        name=WRITE_TIMEOUT,
        parse=integer(1, _INT32_MAX),
        default="30000",
        doc=(
            "Maximum time in milliseconds that the daemon waits for a controller's answer, when it"
            " passes on changes of ACLs (authorizerd.writes)."
        ),
    ),
    Key(
        name=CONTROLLER_MECHANISM,
        parse=str,
        default=KAFKAS_DEFAULT_MECHANISM,
        doc=(
            "SASL mechanism with which the daemon logs in to controllers: PLAIN, SCRAM-SHA-256 or"
            " SCRAM-SHA-512. Required if their listener uses SASL, since Kafka's default is not"
            " supported. The user is in listener.name.NAME.MECHANISM.sasl.jaas.config (both in"
            " lower case; NAME is that of controller.listener.names)."
        ),
    ),
    Key(
        name=JAAS,
        parse=secret_text,
        doc=(
            "A JAAS line in Kafka's format with the username and password with which the daemon"
            " logs in to controllers. It is used if neither"
            " listener.name.NAME.MECHANISM.sasl.jaas.config nor listener.name.NAME.sasl.jaas.config"
            " is set."
        ),
    ),
    ENDPOINT_IDENTIFICATION,
)
"""Kafka's keys for the quorum to follow. A broker reads the same keys."""

_SERVER_ONLY: Final = ("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.allow.")
SOURCE_SSL_KEYS: Final = tuple(
    key for key in CLIENT_SSL_KEYS if not key.name.startswith(_SERVER_ONLY)
)
"""Kafka's keys for TLS that a client uses."""

_CLIENT_KEYS: Final[tuple[tuple[str, Callable[[str], object], str | None, str], ...]] = (
    (
        "bootstrap.servers",
        servers,
        "",
        "Comma-separated list of host:port of brokers. Required with authorizerd.source=brokers.",
    ),
    (
        "security.protocol",
        security_protocol,
        "PLAINTEXT",
        "Security protocol of the brokers' listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    (
        "sasl.mechanism",
        str,
        KAFKAS_DEFAULT_MECHANISM,
        "SASL mechanism with which the daemon logs in to brokers: PLAIN, SCRAM-SHA-256 or"
        " SCRAM-SHA-512. Required if their listener uses SASL, since Kafka's default is not"
        " supported.",
    ),
    (
        JAAS,
        secret_text,
        None,
        "A JAAS line in Kafka's format with the username and password with which the daemon logs in"
        " to brokers.",
    ),
    ("client.id", str, "authorizerd", "Name of the daemon in the brokers' logs and quotas."),
    (
        "request.timeout.ms",
        integer(1, _INT32_MAX),
        "30000",
        "Maximum time in milliseconds that the daemon waits for a broker's answer.",
    ),
)

BROKERS_KEYS: Final = (
    *(
        Key(name=SOURCE_PREFIX + name, parse=parse, default=default, doc=doc)
        for name, parse, default, doc in _CLIENT_KEYS
    ),
    Key(
        name=POLL,
        parse=integer(100, _INT32_MAX),
        default="5000",
        doc=(
            "Time in milliseconds between two listings of the ACLs with authorizerd.source=brokers."
            " The daemon waits longer after large answers, and when a broker throttles it."
        ),
    ),
    *(
        Key(
            name=SOURCE_PREFIX + key.name,
            parse=key.parse,
            default=key.default,
            doc=f"As {key.name} in Kafka's clients, for connections to brokers.",
        )
        for key in SOURCE_SSL_KEYS
    ),
)
"""The keys that only ``authorizerd.source=brokers`` reads."""

FORWARD_KEYS: Final = (
    Key(
        name=FORWARD_PRINCIPALS,
        parse=super_users,
        default="",
        doc=(
            "Semicolon-separated list of principals (Type:name) whose changes are forwarded."
            " Required with authorizerd.writes=forward."
        ),
    ),
    Key(
        name=FORWARD_PRIVILEGED,
        parse=privileged_kinds,
        default="",
        doc=(
            "Comma-separated list of the kinds of principals that may be forwarded although the"
            " controllers would trust this daemon with more rights than it could check: anonymous"
            " (User:ANONYMOUS), super-users (those of super.users), local-users (PLAIN users of"
            " this configuration)."
        ),
    ),
)
"""The keys that only ``authorizerd.writes=forward`` reads."""

FOLLOW_KEYS: Final = (
    Key(
        name=SOURCE,
        parse=choice(SourceKind),
        doc=(
            "Where the ACLs come from: log (a log of the daemon's own), quorum (the controllers of"
            " a Kafka cluster) or brokers (a cluster whose controllers cannot be reached). Default:"
            " quorum if controller.quorum.bootstrap.servers is set, or if controller.quorum.voters"
            " names others than this node; log otherwise. Kafka's keys for a broker apply to"
            " quorum; the keys authorizerd.source.* that Kafka's clients have apply to brokers."
        ),
    ),
    Key(
        name=CLUSTER_ID,
        parse=cluster_id,
        doc=(
            "Id of the cluster to follow (kafka-cluster cluster-id shows it). The daemon then"
            " follows no other cluster, not even at first. Controllers tell their cluster's id only"
            " to users with ALTER, which the daemon does not need otherwise."
        ),
    ),
    Key(
        name=STALE_MAX,
        parse=integer(1000, _INT64_MAX),
        default="300000",
        doc=(
            "Time in milliseconds for which a daemon that follows a cluster goes on deciding after"
            " it has lost contact. After it, the daemon is not ready until contact is back."
        ),
    ),
    Key(
        name=SERVE_COPY,
        parse=boolean,
        default="false",
        doc=(
            "If true, a daemon that follows a cluster decides by its local copy from the start,"
            " before the first contact."
        ),
    ),
    *BROKERS_KEYS,
    Key(
        name=WRITES,
        parse=choice(Writes),
        default="refuse",
        doc=(
            "What a daemon that follows a cluster does with changes of ACLs: refuse; as-self"
            " (check the caller's right here, then change the cluster with the daemon's own"
            " credentials); forward (to the controllers, as the caller; only with the source"
            " quorum)."
        ),
    ),
    *FORWARD_KEYS,
)
"""Our own keys for following a cluster."""
