"""The table of the keys that are Kafka's and mean something here.

Law: each means what it means to Kafka. What cannot be done here is refused with its reason, never
passed over.
"""

from __future__ import annotations

from authorizerd.config.endpoints import parse_advertised_listeners, parse_listeners
from authorizerd.config.key import Key
from authorizerd.config.values import (
    STANDARD_AUTHORIZER,
    address_limits,
    authorizer_class,
    boolean,
    integer,
    path,
    paths,
    refused,
    sasl_mechanisms,
    security_protocols,
    some_words,
    super_users,
    words,
)

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

KAFKA_KEYS = (
    Key(
        name="node.id",
        parse=integer(0, _INT32_MAX),
        required=True,
        doc="The id of this node in the metadata log. Required, as in Kafka.",
    ),
    Key(
        name="metadata.log.dir",
        parse=path,
        doc="The directory that holds __cluster_metadata-0; without it the first of log.dirs.",
    ),
    Key(
        name="log.dirs",
        parse=paths,
        doc="Comma list of directories; the first one holds the metadata log.",
    ),
    Key(
        name="log.dir",
        parse=paths,
        doc="What log.dirs is, read only where log.dirs is absent.",
    ),
    Key(
        name="listeners",
        parse=parse_listeners,
        default="PLAINTEXT://127.0.0.1:9092",
        doc="Comma list of NAME://host:port to listen on; an empty host is every interface.",
    ),
    Key(
        name="advertised.listeners",
        parse=parse_advertised_listeners,
        doc="Comma list of NAME://host:port that clients are told; without it, listeners.",
    ),
    Key(
        name="listener.security.protocol.map",
        parse=security_protocols,
        default="PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        doc=(
            "Comma list of NAME:PROTOCOL, one for each listener. Without it controller listeners"
            " are PLAINTEXT, provided that no listener is named after an SSL or SASL protocol."
        ),
    ),
    Key(
        name="controller.listener.names",
        parse=some_words,
        doc="Comma list of the names, in upper case, of those listeners that are the controller's.",
    ),
    Key(
        name="early.start.listeners",
        parse=words,
        doc=(
            "Comma list of the names, in upper case, of the listeners that open before the ACLs"
            " are loaded (KIP-801). Without it the controller listeners; empty: none."
        ),
    ),
    Key(
        name="super.users",
        parse=super_users,
        default="",
        reloadable=True,
        doc="Semicolon list of the principals, each Type:name, who are allowed everything.",
    ),
    Key(
        name="allow.everyone.if.no.acl.found",
        parse=boolean,
        default="false",
        reloadable=True,
        doc="Whether a resource that no ACL's pattern matches is open to everyone.",
    ),
    Key(
        name="authorizer.class.name",
        parse=authorizer_class,
        default=STANDARD_AUTHORIZER,
        doc=(
            "The authorizer: the built-in one by Kafka's name for it, or a class in Python with"
            " KIP-504's protocol (actors.authorizer), as module.Class. Empty: none, and every check"
            " passes."
        ),
    ),
    Key(
        name="zookeeper.connect",
        parse=refused("StandardAuthorizer does not run with ZooKeeper (KIP-801): remove this key"),
        doc="Refused: StandardAuthorizer does not run with ZooKeeper (KIP-801).",
    ),
    Key(
        name="controller.quorum.bootstrap.servers",
        parse=refused(
            "following a quorum is not available in this version: remove this key only if"
            " this daemon is to own its metadata log",
            unless_empty=True,
        ),
        doc="Refused unless empty: following a quorum is not available in this version.",
    ),
    Key(
        name="max.connections",
        parse=integer(1, _INT32_MAX),
        default="1024",
        reloadable=True,
        wire_minimum=64,
        doc=(
            "How many connections each endpoint may have open at once, in each process, but for"
            " the admin port, which has 64 of its own; the limit of open files is raised to the"
            " sum. SASL listeners, and PLAINTEXT ones that start early, have 8 more: on SASL"
            " listeners for super users only. For one listener, fewer:"
            " listener.name.NAME.max.connections, NAME in lower case. Where all are taken, a"
            " newcomer gets the place of the oldest connection that has not logged in, else of one"
            " that has been idle for 10 seconds, else it is refused. Kafka's default, 2147483647,"
            " is no bound. A client may set no less than 64."
        ),
    ),
    Key(
        name="max.connections.per.ip",
        parse=integer(1, _INT32_MAX),
        default="512",
        reloadable=True,
        wire_minimum=64,
        doc=(
            "How many connections one address may have open at once at each endpoint, in each"
            " process. Loopback addresses, which all users of a machine share, are limited by"
            " max.connections.per.ip.overrides only. Kafka's default, 2147483647, is no bound. A"
            " client may set no less than 64."
        ),
    ),
    Key(
        name="max.connections.per.ip.overrides",
        parse=address_limits,
        default="",
        reloadable=True,
        doc=(
            "Comma list of ADDRESS:NUMBER, each in place of max.connections.per.ip for one address;"
            " host names, which Kafka takes as well, are refused."
        ),
    ),
    Key(
        name="connections.max.idle.ms",
        parse=integer(1, _INT64_MAX),
        default="600000",
        reloadable=True,
        wire_minimum=10_000,
        doc=(
            "How long a connection may stand idle before it is closed, in milliseconds. A client"
            " may set no less than 10000."
        ),
    ),
    Key(
        name="socket.request.max.bytes",
        parse=integer(1024, _INT32_MAX),
        default="16777216",
        doc=(
            "The largest Kafka request that is read, in bytes. Kafka's default is 104857600; no"
            " request on ACLs comes near this one."
        ),
    ),
    Key(
        name="queued.max.request.bytes",
        parse=integer(1024 * 1024, _INT64_MAX),
        default="16777216",
        doc=(
            "How many bytes of requests and answers each endpoint may hold at once, in each"
            " process, a few of each connection's not counted; a request that finds no room is"
            " refused. Never less than its largest request needs. Kafka's default is no bound."
        ),
    ),
    Key(
        name="queued.max.requests",
        parse=integer(1, 1_000_000),
        default="500",
        doc="How many creations and deletions may wait to be written; more are refused.",
    ),
    Key(
        name="sasl.enabled.mechanisms",
        parse=sasl_mechanisms,
        default="PLAIN",
        doc=(
            "Comma list of the mechanisms of SASL listeners; PLAIN is the one there is. For one"
            " listener: listener.name.NAME.sasl.enabled.mechanisms, NAME in lower case. Its users"
            " stand in listener.name.NAME.plain.sasl.jaas.config, Kafka's JAAS line."
        ),
    ),
    Key(
        name="metadata.log.segment.bytes",
        parse=integer(1024, _INT32_MAX),
        default="1073741824",
        doc="How large a segment of the log may grow before the next one is begun, in bytes.",
    ),
    Key(
        name="metadata.log.max.record.bytes.between.snapshots",
        parse=integer(1, _INT64_MAX),
        default="20971520",
        doc="How many bytes of log may follow a checkpoint before the next one is written.",
    ),
    Key(
        name="metadata.log.max.snapshot.interval.ms",
        parse=integer(0, _INT64_MAX),
        default="3600000",
        doc=(
            "How long changes may stand in the log alone before a checkpoint is written, in"
            " milliseconds; 0: no checkpoint is written for the time alone."
        ),
    ),
    Key(
        name="metadata.max.retention.bytes",
        parse=integer(-1, _INT64_MAX),
        default="104857600",
        doc=(
            "How much log and checkpoints may hold before the oldest checkpoint, and what only it"
            " needed, is removed, in bytes; -1: no bound."
        ),
    ),
    Key(
        name="metadata.max.retention.ms",
        parse=integer(-1, _INT64_MAX),
        default="604800000",
        doc="How old a checkpoint may be once a newer one stands, in milliseconds; -1: no bound.",
    ),
)
