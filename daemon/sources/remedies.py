"""Remedies for an unusable node of the followed cluster: a key to change, or a right to grant."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Set
from typing import Final

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.config.follow.settings import SourceKind
from authorizerd.kafka_client.errors import Cause

_KEYS: Final[Mapping[SourceKind, Mapping[str, str]]] = {
    SourceKind.QUORUM: {
        "servers": "controller.quorum.bootstrap.servers (or controller.quorum.voters)",
        "protocol": "listener.security.protocol.map, for the first of controller.listener.names,",
        "mechanism": "sasl.mechanism.controller.protocol",
        "jaas": "listener.name.NAME.MECHANISM.sasl.jaas.config (or sasl.jaas.config)",
        "keys": "",
        "ssl": "listener.name.NAME.ssl",
    },
    SourceKind.BROKERS: {
        "servers": "authorizerd.source.bootstrap.servers",
        "protocol": "authorizerd.source.security.protocol",
        "mechanism": "authorizerd.source.sasl.mechanism",
        "jaas": "authorizerd.source.sasl.jaas.config",
        "keys": "authorizerd.source.",
        "ssl": "authorizerd.source.ssl",
    },
}

_REMEDIES: Final[Mapping[Cause, str]] = {
    Cause.LOG_IN_REQUIRED: "change {protocol} to that protocol, and set {mechanism} and {jaas}",
    Cause.LOG_IN_UNEXPECTED: (
        "the listener has no authentication: change {protocol} to PLAINTEXT or SSL, or name another"
        " listener in {servers}"
    ),
    Cause.MECHANISM: "set {mechanism} to one of the enabled mechanisms",
    Cause.CREDENTIALS: "check the credentials in {jaas}, and {mechanism}",
    Cause.ISSUER: (
        "check {keys}sasl.oauthbearer.token.endpoint.url, the client id, its secret and the scope"
    ),
    Cause.TICKET: (
        "check keyTab and principal in {jaas}, {keys}sasl.kerberos.service.name, and the KDC in"
        " /etc/krb5.conf"
    ),
    Cause.IMPOSTOR: "check {servers}: the node may be an impostor; the password was not sent",
    Cause.TLS_REQUIRED: "change {protocol} to that protocol, and set {ssl}.truststore.location",
    Cause.TLS_UNEXPECTED: "change {protocol} to the protocol that the listener expects",
    Cause.CERTIFICATE_EXPIRED: "renew the node's certificate, or correct this machine's clock",
    Cause.UNKNOWN_CA: "set {ssl}.truststore.location to the CA that issued the certificate",
    Cause.WRONG_HOST: (
        "connect to a host of the certificate ({servers}, and advertised.listeners of the nodes),"
        " or issue one for this host"
    ),
    Cause.CERTIFICATE_INVALID: "replace the node's certificate",
    Cause.CLIENT_CERTIFICATE_REQUIRED: "set {ssl}.keystore.location to a key and its certificate",
    Cause.CLIENT_CERTIFICATE_REJECTED: (
        "check {ssl}.keystore.location: its certificate must be valid now, and issued by a CA in"
        " the node's truststore"
    ),
    Cause.TLS_PARAMETERS: (
        "compare {ssl}.enabled.protocols and {ssl}.cipher.suites with those of the listener"
    ),
}

WRONG_NODES: Final[Mapping[SourceKind, tuple[str, str]]] = {
    SourceKind.QUORUM: (
        "expected a controller's listener, found a broker's",
        "name controllers in controller.quorum.bootstrap.servers",
    ),
    SourceKind.BROKERS: (
        "expected a broker's listener, found a controller's",
        "name brokers in authorizerd.source.bootstrap.servers",
    ),
}
"""The reason and the remedy if an address belongs to a node of the other kind."""

_RIGHTS: Final[Mapping[SourceKind, Operation]] = {
    SourceKind.QUORUM: Operation.CLUSTER_ACTION,
    SourceKind.BROKERS: Operation.DESCRIBE,
}


def remedy(kind: SourceKind, cause: Cause | None) -> str:
    """Return the settings to change, or an empty text if none can help."""
    template = "" if cause is None else _REMEDIES.get(cause, "")
    return template.format_map(_KEYS[kind])


_COMMAND: Final = "kafka-acls --{verb} --cluster --operation {operations} --allow-principal {user}"
_WORTH: Final[Mapping[SourceKind, str]] = {
    SourceKind.QUORUM: (
        "; with this right, the user reads topics and acts as anyone, while"
        " authorizerd.source=brokers needs DESCRIBE alone"
    ),
    SourceKind.BROKERS: "",
}


def missing_right(kind: SourceKind, user: str | None) -> str:
    """Return the reason and the remedy for a node's CLUSTER_AUTHORIZATION_FAILED.

    Args:
        user: the name that the daemon logs in with; None if it does not log in.
    """
    return _describe_lack(_RIGHTS[kind], user) + _WORTH[kind]


def missing_alter(user: str | None) -> str:
    """Return both for a change of ACLs that the daemon sends under its own name."""
    return _describe_lack(Operation.ALTER, user)


def excess_rights(user: str | None, held: Set[Operation], excess: Set[Operation]) -> str:
    """Return how to revoke excess operations on the cluster from the daemon's user.

    A super user holds every operation, and so does a user with an ACL for ALL.
    """
    if held >= set(SUPPORTED[ResourceType.CLUSTER]):
        return (
            "remove the user from super.users of the nodes, or its ACL for ALL, and grant only what"
            " it needs"
        )
    return f"remove the ACLs, of this user or of User:* ({_write_command('remove', user, excess)})"


def _describe_lack(right: Operation, user: str | None) -> str:
    who = "the daemon's principal" if user is None else f"User:{user}"
    command = _write_command("add", user, {right})
    return f"{who} lacks {right.name} on the cluster: grant it ({command})"


def _write_command(verb: str, user: str | None, operations: Set[Operation]) -> str:
    names = sorted(operation.name.title().replace("_", "") for operation in operations)
    return _COMMAND.format(
        verb=verb,
        operations=" --operation ".join(names),
        user="PRINCIPAL" if user is None else shlex.quote(f"User:{user}"),
    )
