"""The table of the Kafka configuration keys that the daemon supports.

**Invariant:** a key means here what it means in Kafka. A value that asks for an unsupported
feature is rejected with the reason, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from authorizerd.config.endpoints import Endpoint, parse_advertised_listeners, parse_listeners
from authorizerd.config.follow.settings import QUORUM_KEYS
from authorizerd.config.key import Key, by_rule, list_keys, setting
from authorizerd.config.oauth_keys import TOKEN_KEYS
from authorizerd.config.tls_keys import REJECTED_SSL_KEYS, ssl_keys
from authorizerd.config.values import (
    INT32_MAX,
    INT64_MAX,
    STANDARD_AUTHORIZER,
    IntegerParser,
    address_limits,
    authorizer_class,
    boolean,
    parse_principals,
    path,
    paths,
    reject,
    sasl_mechanisms,
    security_protocols,
    some_words,
    words,
)


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """The node, its listeners, and its authorizer."""

    node_id: int = by_rule(IntegerParser(0, INT32_MAX))
    """The id of this node in the metadata log. Required, as in Kafka, unless the daemon follows a
    cluster: it then has no log of its own, and tells clients the id 1000000."""
    metadata_log_dir: str = by_rule(path)
    """Directory that contains __cluster_metadata-0. Default: the first entry of log.dirs."""
    log_dirs: ClassVar = Key(paths)
    """Comma-separated list of directories. The first one contains the metadata log."""
    log_dir: ClassVar = Key(paths)
    """Used in place of log.dirs if log.dirs is not set."""
    listeners: tuple[Endpoint, ...] = by_rule(parse_listeners, "PLAINTEXT://127.0.0.1:9092")
    """Comma-separated list of NAME://host:port to listen on. An empty host means all interfaces."""
    advertised_listeners: tuple[Endpoint, ...] = by_rule(parse_advertised_listeners)
    """Comma-separated list of NAME://host:port that the daemon returns to clients. Default: the
    value of listeners."""
    listener_security_protocol_map: ClassVar = Key(
        security_protocols,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    )
    """Comma-separated list of NAME:PROTOCOL, one entry per listener. If this key is not set,
    controller listeners use PLAINTEXT, unless a listener is named after an SSL or SASL protocol."""
    controller_listener_names: tuple[str, ...] = by_rule(some_words)
    """Comma-separated list of the listeners, in upper case, that act as controller listeners."""
    early_start_listeners: frozenset[str] = by_rule(words)
    """Comma-separated list of the listeners, in upper case, that open before the ACLs are loaded
    (KIP-801). Default: the controller listeners. An empty value means none."""
    super_users: frozenset[str] = setting(parse_principals, "", reloadable=True)
    """Semicolon-separated list of principals (Type:name) who are allowed every operation."""
    allow_everyone_if_no_acl_found: ClassVar = Key(boolean, "false", reloadable=True)
    """If true, everyone may access a resource that no ACL's pattern matches."""
    authorizer_class_name: str = setting(authorizer_class, STANDARD_AUTHORIZER)
    """The authorizer: Kafka's class name for the built-in one, or module.Class for a Python class
    (`authorizerd docs authorizers`). An empty value disables authorization: everyone may do
    anything."""
    zookeeper_connect: ClassVar = Key(
        reject("StandardAuthorizer does not run with ZooKeeper (KIP-801): remove this key")
    )
    """Rejected: StandardAuthorizer does not run with ZooKeeper (KIP-801)."""


@dataclass(frozen=True, kw_only=True)
class KafkaLimits:
    """The limits of connections, of requests and of the metadata log."""

    max_connections: int = setting(
        IntegerParser(1, INT32_MAX), "1024", reloadable=True, wire_minimum=64
    )
    """Maximum number of open connections per endpoint and process. The admin and metrics ports have
    their own limit of 64. The daemon raises its limit of open files to fit all endpoints. SASL
    listeners accept 8 more connections for super users; PLAINTEXT listeners that start early accept
    8 more for everyone. When an endpoint is full, a new connection replaces the oldest one without
    an answer yet, then a quiet one of a client without authentication, token or certificate, then
    one that has been idle for 10 seconds (`authorizerd docs limits`). If there is none, the daemon
    refuses the new connection. To set a lower limit for one listener, use
    listener.name.NAME.max.connections (NAME in lower case). Kafka's default, 2147483647, means no
    limit. A client cannot set a value below 64."""
    max_connections_per_ip: int = setting(
        IntegerParser(1, INT32_MAX), "512", reloadable=True, wire_minimum=64
    )
    """Maximum number of open connections per client address, endpoint and process. IPv6 addresses
    of one network of 64 bits count together, unlike in Kafka. For loopback addresses, which all
    users of a machine share, only max.connections.per.ip.overrides applies. Kafka's default,
    2147483647, means no limit. A client cannot set a value below 64."""
    max_connections_per_ip_overrides: Mapping[str, int] = setting(
        address_limits, "", reloadable=True
    )
    """Comma-separated list of ADDRESS:NUMBER. Each entry replaces max.connections.per.ip for one
    address. Host names, which Kafka accepts, are rejected."""
    max_connection_creation_rate: int = setting(
        IntegerParser(1, INT32_MAX), "2147483647", reloadable=True, wire_minimum=10
    )
    """Maximum number of new connections per second, of all Kafka listeners together. Above it, the
    daemon delays new connections; it refuses none. After a quiet time, it accepts as many at once
    as the rate allows in (quota.window.num - 1) * quota.window.size.seconds. To set a limit for one
    listener, use listener.name.NAME.max.connection.creation.rate (NAME in lower case), which SIGHUP
    reloads too. No listener is exempt from the common limit. The decision ports have no such limit,
    and Kafka's quota connection_creation_rate per IP address is not supported. The default, as in
    Kafka, means no limit. A client cannot set a value below 10."""
    quota_window_num: int = setting(IntegerParser(1, INT32_MAX), "11")
    """Number of windows, which sets how many connections max.connection.creation.rate accepts at
    once after a quiet time."""
    quota_window_size_seconds: int = setting(IntegerParser(1, INT32_MAX), "1")
    """Length in seconds of a window of quota.window.num."""
    connections_max_idle_ms: int = setting(
        IntegerParser(1, INT64_MAX), "600000", reloadable=True, wire_minimum=10000
    )
    """Time in milliseconds after which the daemon closes an idle connection. A client cannot set a
    value below 10000."""
    socket_request_max_bytes: int = setting(IntegerParser(1024, INT32_MAX), "16777216")
    """Maximum size of a Kafka request in bytes. The default is lower than Kafka's, which is
    104857600, because ACL requests are small."""
    queued_max_request_bytes: int = setting(IntegerParser(1024 * 1024, INT64_MAX), "16777216")
    """Maximum total size in bytes of the requests and responses that an endpoint holds at once, per
    process. A small amount per connection is not counted. Requests above this limit are refused.
    The limit is raised if the largest allowed request needs more. Kafka's default is unlimited."""
    queued_max_requests: int = setting(IntegerParser(1, 1000000), "500")
    """Maximum number of ACL creation and deletion requests that wait to be written. Further
    requests are refused."""
    sasl_enabled_mechanisms: ClassVar = Key(sasl_mechanisms, "PLAIN")
    """Comma-separated list of SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. To
    set it for one listener, use listener.name.NAME.sasl.enabled.mechanisms (NAME in lower case).
    PLAIN's users are set in listener.name.NAME.plain.sasl.jaas.config, as a JAAS line in Kafka's
    format. SCRAM's users are in the metadata log: add the first ones with authorizerd format
    --add-scram. SCRAM does not need a JAAS line, but it may have one as in Kafka
    (listener.name.NAME.scram-sha-256.sasl.jaas.config). OAUTHBEARER needs the issuer's keys
    (sasl.oauthbearer.jwks.endpoint.url)."""
    # Kafka fails on longer times, because it counts nanoseconds.
    connections_max_reauth_ms: ClassVar = Key(IntegerParser(-(2**63), INT64_MAX // 1_000_000), "0")
    """Time in milliseconds after which a client must log in again on its open connection (KIP-368).
    The daemon tells clients this time when they log in. If a client has not logged in again by
    then, its next request closes the connection. 0 means that a session lasts as long as its
    connection, even if the user's password changes or the user is removed. To set it for one
    listener, use listener.name.NAME.connections.max.reauth.ms; for one mechanism, use
    listener.name.NAME.MECHANISM.connections.max.reauth.ms (both in lower case)."""
    connection_failed_authentication_delay_ms: int = setting(IntegerParser(0, INT32_MAX), "100")
    """Time in milliseconds by which the daemon delays its answer to failed authentication on a
    Kafka listener. It must be less than connections.max.idle.ms."""
    metadata_log_segment_bytes: int = setting(IntegerParser(1024, INT32_MAX), "1073741824")
    """Maximum size of a log segment in bytes."""
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        IntegerParser(1, INT64_MAX), "20971520"
    )
    """Number of log bytes after which the daemon writes a new checkpoint."""
    metadata_log_max_snapshot_interval_ms: int = setting(IntegerParser(0, INT64_MAX), "3600000")
    """Maximum time in milliseconds between a change and the next checkpoint. 0 disables checkpoints
    by time."""
    metadata_max_retention_bytes: int = setting(IntegerParser(-1, INT64_MAX), "104857600")
    """Maximum total size in bytes of log and checkpoints. Above it, the daemon deletes the oldest
    checkpoint and the log segments that only it needs. -1 means no limit."""
    metadata_max_retention_ms: int = setting(IntegerParser(-1, INT64_MAX), "604800000")
    """Maximum age in milliseconds of a checkpoint that a newer one has replaced. -1 means no
    limit."""


KAFKA_SETTINGS = list_keys(KafkaSettings)
KAFKA_LIMITS = list_keys(KafkaLimits)
KAFKA_KEYS = (
    *KAFKA_SETTINGS.values(),
    *QUORUM_KEYS,
    *KAFKA_LIMITS.values(),
    *TOKEN_KEYS,
    *ssl_keys(of=" of SSL and SASL_SSL listeners"),
    *REJECTED_SSL_KEYS,
)
