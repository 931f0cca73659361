"""The table of the Kafka configuration keys that the daemon supports.

**Invariant:** a key means here what it means in Kafka. A value that asks for an unsupported
feature is rejected with the reason, never ignored.
"""

from __future__ import annotations

from authorizerd.config.endpoints import parse_advertised_listeners, parse_listeners
from authorizerd.config.follow_keys import QUORUM_KEYS
from authorizerd.config.key import Key
from authorizerd.config.tls_keys import REJECTED_SSL_KEYS, ssl_keys
from authorizerd.config.values import (
    STANDARD_AUTHORIZER,
    address_limits,
    authorizer_class,
    boolean,
    integer,
    path,
    paths,
    reject,
    sasl_mechanisms,
    security_protocols,
    some_words,
    super_users,
    words,
)

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
REAUTHENTICATION_MS_KEY = "connections.max.reauth.ms"
REAUTHENTICATION_MS = integer(-(2**63), _INT64_MAX // 1_000_000)
"""The parser of session lengths. Kafka fails on longer ones, because it counts nanoseconds."""

KAFKA_KEYS = (
    Key(
        name="node.id",
        parse=integer(0, _INT32_MAX),
        doc=(
            "The id of this node in the metadata log. Required, as in Kafka, unless the daemon"
            " follows a cluster: it then has no log of its own, and tells clients the id 1000000."
        ),
    ),
    Key(
        name="metadata.log.dir",
        parse=path,
        doc="Directory that contains __cluster_metadata-0. Default: the first entry of log.dirs.",
    ),
    Key(
        name="log.dirs",
        parse=paths,
        doc="Comma-separated list of directories. The first one contains the metadata log.",
    ),
    Key(
        name="log.dir",
        parse=paths,
        doc="Used in place of log.dirs if log.dirs is not set.",
    ),
    Key(
        name="listeners",
        parse=parse_listeners,
        default="PLAINTEXT://127.0.0.1:9092",
        doc=(
            "Comma-separated list of NAME://host:port to listen on. An empty host means all"
            " interfaces."
        ),
    ),
    Key(
        name="advertised.listeners",
        parse=parse_advertised_listeners,
        doc=(
            "Comma-separated list of NAME://host:port that the daemon returns to clients."
            " Default: the value of listeners."
        ),
    ),
    Key(
        name="listener.security.protocol.map",
        parse=security_protocols,
        default="PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        doc=(
            "Comma-separated list of NAME:PROTOCOL, one entry per listener. If this key is not"
            " set, controller listeners use PLAINTEXT, unless a listener is named after an SSL or"
            " SASL protocol."
        ),
    ),
    Key(
        name="controller.listener.names",
        parse=some_words,
        doc=(
            "Comma-separated list of the listeners, in upper case, that act as controller"
            " listeners."
        ),
    ),
    Key(
        name="early.start.listeners",
        parse=words,
        doc=(
            "Comma-separated list of the listeners, in upper case, that open before the ACLs are"
            " loaded (KIP-801). Default: the controller listeners. An empty value"
            " means none."
        ),
    ),
    Key(
        name="super.users",
        parse=super_users,
        default="",
        reloadable=True,
        doc="Semicolon-separated list of principals (Type:name) who are allowed every operation.",
    ),
    Key(
        name="allow.everyone.if.no.acl.found",
        parse=boolean,
        default="false",
        reloadable=True,
        doc="If true, everyone may access a resource that no ACL's pattern matches.",
    ),
    Key(
        name="authorizer.class.name",
        parse=authorizer_class,
        default=STANDARD_AUTHORIZER,
        doc=(
            "The authorizer: Kafka's class name for the built-in one, or module.Class for a"
            " Python class (docs/authorizers.md). An empty value disables authorization:"
            " everyone may do anything."
        ),
    ),
    Key(
        name="zookeeper.connect",
        parse=reject("StandardAuthorizer does not run with ZooKeeper (KIP-801): remove this key"),
        doc="Rejected: StandardAuthorizer does not run with ZooKeeper (KIP-801).",
    ),
    *QUORUM_KEYS,
    Key(
        name="max.connections",
        parse=integer(1, _INT32_MAX),
        default="1024",
        reloadable=True,
        wire_minimum=64,
        doc=(
            "Maximum number of open connections per endpoint and process. The admin and metrics"
            " ports have their own limit of 64. The daemon raises its limit of open files to fit"
            " all endpoints. SASL listeners accept 8 more connections for super users; PLAINTEXT"
            " listeners that start early accept 8 more for everyone. When an endpoint is full, a"
            " new connection replaces the oldest one without an answer yet, then a quiet one of a"
            " client without log-in, token or certificate, then one that has been idle for 10"
            " seconds (docs/limits.md). If there is none, the daemon refuses the new connection. To"
            " set a lower limit for one listener, use"
            " listener.name.NAME.max.connections (NAME in lower case). Kafka's default,"
            " 2147483647, means no limit. A client cannot set a value below 64."
        ),
    ),
    Key(
        name="max.connections.per.ip",
        parse=integer(1, _INT32_MAX),
        default="512",
        reloadable=True,
        wire_minimum=64,
        doc=(
            "Maximum number of open connections per client address, endpoint and process. IPv6"
            " addresses of one network of 64 bits count together, unlike in Kafka. For loopback"
            " addresses, which all users of a machine share, only max.connections.per.ip.overrides"
            " applies. Kafka's default, 2147483647, means no limit. A client cannot set a value"
            " below 64."
        ),
    ),
    Key(
        name="max.connections.per.ip.overrides",
        parse=address_limits,
        default="",
        reloadable=True,
        doc=(
            "Comma-separated list of ADDRESS:NUMBER. Each entry replaces max.connections.per.ip"
            " for one address. Host names, which Kafka accepts, are rejected."
        ),
    ),
    Key(
        name="max.connection.creation.rate",
        parse=integer(1, _INT32_MAX),
        default="2147483647",
        reloadable=True,
        wire_minimum=10,
        doc=(
            "Maximum number of new connections per second, of all Kafka listeners together. Above"
            " it, the daemon delays new connections; it refuses none. After a quiet time, it"
            " accepts as many at once as the rate allows in (quota.window.num - 1) *"
            " quota.window.size.seconds. To set a limit for one listener, use"
            " listener.name.NAME.max.connection.creation.rate (NAME in lower case), which SIGHUP"
            " reloads too. No listener is exempt from the common limit. The decision ports have no"
            " such limit, and Kafka's quota connection_creation_rate per IP address is not"
            " supported. The default, as in Kafka, means no limit. A client cannot set a value"
            " below 10."
        ),
    ),
    Key(
        name="quota.window.num",
        parse=integer(1, _INT32_MAX),
        default="11",
        doc=(
            "Number of windows, which sets how many connections max.connection.creation.rate"
            " accepts at once after a quiet time."
        ),
    ),
    Key(
        name="quota.window.size.seconds",
        parse=integer(1, _INT32_MAX),
        default="1",
        doc="Length in seconds of a window of quota.window.num.",
    ),
    Key(
        name="connections.max.idle.ms",
        parse=integer(1, _INT64_MAX),
        default="600000",
        reloadable=True,
        wire_minimum=10_000,
        doc=(
            "Time in milliseconds after which the daemon closes an idle connection. A client"
            " cannot set a value below 10000."
        ),
    ),
    Key(
        name="socket.request.max.bytes",
        parse=integer(1024, _INT32_MAX),
        default="16777216",
        doc=(
            "Maximum size of a Kafka request in bytes. The default is lower than Kafka's, which is"
            " 104857600, because ACL requests are small."
        ),
    ),
    Key(
        name="queued.max.request.bytes",
        parse=integer(1024 * 1024, _INT64_MAX),
        default="16777216",
        doc=(
            "Maximum total size in bytes of the requests and responses that an endpoint holds at"
            " once, per process. A small amount per connection is not counted. Requests above this"
            " limit are refused. The limit is raised if the largest allowed request needs more."
            " Kafka's default is unlimited."
        ),
    ),
    Key(
        name="queued.max.requests",
        parse=integer(1, 1_000_000),
        default="500",
        doc=(
            "Maximum number of ACL creation and deletion requests that wait to be written."
            " Further requests are refused."
        ),
    ),
    Key(
        name="sasl.enabled.mechanisms",
        parse=sasl_mechanisms,
        default="PLAIN",
        doc=(
            "Comma-separated list of SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. To set"
            " it for one listener, use listener.name.NAME.sasl.enabled.mechanisms (NAME in lower"
            " case). PLAIN's users are set in listener.name.NAME.plain.sasl.jaas.config, as a JAAS"
            " line in Kafka's format. SCRAM's users are in the metadata log: add the first ones"
            " with authorizerd format --add-scram. SCRAM does not need a JAAS line, but it may have"
            " one as in Kafka (listener.name.NAME.scram-sha-256.sasl.jaas.config)."
        ),
    ),
    Key(
        name=REAUTHENTICATION_MS_KEY,
        parse=REAUTHENTICATION_MS,
        default="0",
        doc=(
            "Time in milliseconds after which a client must log in again on its open connection"
            " (KIP-368). The daemon tells clients this time when they log in. If a client has not"
            " logged in again by then, its next request closes the connection. 0 means that a"
            " log-in lasts as long as its connection, even if the user's password changes or the"
            " user is removed. To set it for one listener, use"
            " listener.name.NAME.connections.max.reauth.ms; for one mechanism, use"
            " listener.name.NAME.MECHANISM.connections.max.reauth.ms (both in lower case)."
        ),
    ),
    Key(
        name="connection.failed.authentication.delay.ms",
        parse=integer(0, _INT32_MAX),
        default="100",
        doc=(
            "Time in milliseconds by which the daemon delays its answer to a failed log-in on a"
            " Kafka listener. It must be less than connections.max.idle.ms."
        ),
    ),
    Key(
        name="metadata.log.segment.bytes",
        parse=integer(1024, _INT32_MAX),
        default="1073741824",
        doc="Maximum size of a log segment in bytes.",
    ),
    Key(
        name="metadata.log.max.record.bytes.between.snapshots",
        parse=integer(1, _INT64_MAX),
        default="20971520",
        doc="Number of log bytes after which the daemon writes a new checkpoint.",
    ),
    Key(
        name="metadata.log.max.snapshot.interval.ms",
        parse=integer(0, _INT64_MAX),
        default="3600000",
        doc=(
            "Maximum time in milliseconds between a change and the next checkpoint. 0 disables"
            " checkpoints by time."
        ),
    ),
    Key(
        name="metadata.max.retention.bytes",
        parse=integer(-1, _INT64_MAX),
        default="104857600",
        doc=(
            "Maximum total size in bytes of log and checkpoints. Above it, the daemon deletes the"
            " oldest checkpoint and the log segments that only it needs. -1 means no limit."
        ),
    ),
    Key(
        name="metadata.max.retention.ms",
        parse=integer(-1, _INT64_MAX),
        default="604800000",
        doc=(
            "Maximum age in milliseconds of a checkpoint that a newer one has replaced. -1 means"
            " no limit."
        ),
    ),
    *ssl_keys(of=" of SSL and SASL_SSL listeners"),
    *REJECTED_SSL_KEYS,
)
