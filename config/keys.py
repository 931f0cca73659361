"""Every key that the daemon reads, in one table: its parser, its default and what it means.

Law: a default is text that goes through the key's own parser, so the reference shows what a file
would say. A key outside this table is refused if it is ours and ignored if it is Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acl.audit_mask import Masking
from config.audit_values import principal_patterns, resource_patterns, share
from config.endpoints import (
    parse_advertised_listeners,
    parse_http_endpoint,
    parse_listeners,
    parse_loopback_http_endpoint,
    parse_stream_endpoint,
)
from config.values import (
    STANDARD_AUTHORIZER,
    AuditFormat,
    LogFormat,
    LogLevel,
    audit_level,
    authorizer_class,
    boolean,
    choice,
    integer,
    path,
    paths,
    refused,
    resource_types,
    sasl_mechanisms,
    security_protocols,
    some_words,
    subject_types,
    super_users,
    words,
)

OWN_PREFIX = "authorizerd."

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key: ``parse`` takes its trimmed text, ``default`` None leaves it without a value.

    ``parse`` raises InvalidValueError. A reloadable key is read again on reload, any other one
    only when the daemon starts.
    """

    name: str
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    required: bool = False
    reloadable: bool = False


KEYS = (
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
        doc=(
            "How many connections each endpoint may have open at once, in each process; the limit"
            " of open files is raised to that. Kafka's default, 2147483647, is no bound."
        ),
    ),
    Key(
        name="connections.max.idle.ms",
        parse=integer(1, _INT64_MAX),
        default="600000",
        reloadable=True,
        doc="How long a connection may stand idle before it is closed, in milliseconds.",
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
    Key(
        name="authorizerd.update.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="30000",
        reloadable=True,
        doc=(
            "How long a request of creations or deletions waits for its items, in milliseconds;"
            " those not done then are answered REQUEST_TIMED_OUT, and may still apply. So long,"
            " too, a frame of the decision stream waits for the offset that it names."
        ),
    ),
    Key(
        name="authorizerd.decision.http",
        parse=parse_http_endpoint,
        default="http://127.0.0.1:8181",
        doc=(
            "Where decisions are asked for over HTTP (docs/decisions.md), port 0 for a free one; an"
            " empty host is every interface. What is no loopback address needs"
            " authorizerd.tokens.file."
        ),
    ),
    Key(
        name="authorizerd.decision.stream",
        parse=parse_stream_endpoint,
        default="tcp://127.0.0.1:8183",
        doc=(
            "Where many decisions a frame are asked for (docs/stream.md): tcp://host:port, port 0"
            " for a free one, or unix:PATH. Empty: nowhere."
        ),
    ),
    Key(
        name="authorizerd.stream.frame.max.bytes",
        parse=integer(1024, 16 * 1024 * 1024),
        default="131072",
        doc=(
            "The largest frame of the decision stream that is read, in bytes. A frame is decoded in"
            " one go: this one takes the event loop some 2 ms."
        ),
    ),
    Key(
        name="authorizerd.overload.turn.ms",
        parse=integer(1, _HOUR_MS),
        default="25",
        doc=(
            "How much work, in milliseconds of CPU time, may be done for other connections before a"
            " decision that is asked for at the same time: beyond it there is more to do than can"
            " be done, and it is refused."
        ),
    ),
    Key(
        name="authorizerd.workers",
        parse=integer(1, 64),
        default="1",
        doc=(
            "How many processes share the decision ports (docs/workers.md); 1: the daemon alone."
            " max.connections and authorizerd.audit.queue.max count in each."
        ),
    ),
    Key(
        name="authorizerd.worker.timeout.ms",
        parse=integer(100, _HOUR_MS),
        default="10000",
        doc=(
            "How long a worker may take for what the daemon hands down, in milliseconds, before it"
            " is killed and replaced. An update waits for it no longer than that."
        ),
    ),
    Key(
        name="authorizerd.admin.http",
        parse=parse_loopback_http_endpoint,
        default="http://127.0.0.1:8182",
        doc="Where metrics and health are served over HTTP; a loopback address.",
    ),
    Key(
        name="authorizerd.tokens.file",
        parse=path,
        doc=(
            "The file of the tokens that callers of the decision ports show (docs/decisions.md);"
            " SIGHUP reads it again. Without it whoever reaches them is trusted to ask."
        ),
    ),
    Key(
        name="authorizerd.http.request.max.bytes",
        parse=integer(1024, 16 * 1024 * 1024),
        default="262144",
        doc="The largest HTTP request that is read, in bytes.",
    ),
    Key(
        name="authorizerd.http.header.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="10000",
        reloadable=True,
        doc="How long the head of an HTTP request may take to arrive, in milliseconds.",
    ),
    Key(
        name="authorizerd.http.drain.timeout.ms",
        parse=integer(0, _HOUR_MS),
        default="10000",
        reloadable=True,
        doc="How long a shutdown waits for requests that are under way, in milliseconds.",
    ),
    Key(
        name="authorizerd.log.format",
        parse=choice(LogFormat),
        default="text",
        doc=(
            "How the daemon says it, one event a line: text, or json, an object with time, level,"
            " logger, pid and message. In the journal each line has its priority"
            " (docs/systemd.md)."
        ),
    ),
    Key(
        name="authorizerd.log.level",
        parse=choice(LogLevel),
        default="INFO",
        reloadable=True,
        doc="What the daemon says of itself on standard error: DEBUG, INFO, WARNING or ERROR.",
    ),
    Key(
        name="authorizerd.audit.log",
        parse=path,
        doc=(
            "Where audit lines go (docs/audit.md): a file that they are appended to, or stdout or"
            " stderr; without it there are none."
        ),
    ),
    Key(
        name="authorizerd.audit.format",
        parse=choice(AuditFormat),
        default="kafka",
        doc="The shape of an audit line: kafka, as Kafka's authorizer log, or json.",
    ),
    Key(
        name="authorizerd.audit.level",
        parse=audit_level,
        default="INFO",
        reloadable=True,
        doc="What is audited: INFO denials only, as in Kafka; DEBUG and TRACE allowed ones too.",
    ),
    Key(
        name="authorizerd.audit.queue.max",
        parse=integer(1, 1_000_000),
        default="10000",
        doc="How many audit lines may wait to be written; what does not fit is dropped, counted.",
    ),
    Key(
        name="authorizerd.audit.required",
        parse=boolean,
        default="false",
        reloadable=True,
        doc=(
            "Whether nothing is decided, as before the ACLs are loaded, while audit lines can be"
            " neither written nor kept to be."
        ),
    ),
    Key(
        name="authorizerd.audit.sample.allowed",
        parse=share,
        default="1",
        reloadable=True,
        doc="The share that is audited of what is allowed, as 0.01 or 1/100; denials all are.",
    ),
    Key(
        name="authorizerd.audit.principals.include",
        parse=principal_patterns,
        default="*",
        reloadable=True,
        doc=(
            "Semicolon list of the principals whose decisions are audited: Type:name,"
            " Type:beginning* or *. Denials are, unless"
            " authorizerd.audit.filter.denied says otherwise."
        ),
    ),
    Key(
        name="authorizerd.audit.principals.exclude",
        parse=principal_patterns,
        default="",
        reloadable=True,
        doc="Semicolon list of those that are not, though included: the brokers, perhaps.",
    ),
    Key(
        name="authorizerd.audit.resources.include",
        parse=resource_patterns,
        default="*",
        reloadable=True,
        doc=(
            "Semicolon list of the resources on which decisions are audited: TYPE:name,"
            " TYPE:beginning* or *. Denials are, unless"
            " authorizerd.audit.filter.denied says otherwise."
        ),
    ),
    Key(
        name="authorizerd.audit.resources.exclude",
        parse=resource_patterns,
        default="",
        reloadable=True,
        doc="Semicolon list of those on which they are not, though included.",
    ),
    Key(
        name="authorizerd.audit.filter.denied",
        parse=boolean,
        default="false",
        reloadable=True,
        doc="Whether the lists of principals and resources hold for denials too.",
    ),
    *(
        Key(
            name=f"authorizerd.audit.mask.{what}",
            parse=choice(Masking),
            default="none",
            doc=(
                f"How {names} stand in audit lines: none, as they are; hash, hashed with the secret"
                " of authorizerd.audit.mask.secret.file; cut, not at all."
            ),
        )
        for what, names in (
            ("principal", "the names of principals"),
            ("host", "hosts"),
            ("resource", "the names of resources"),
        )
    ),
    Key(
        name="authorizerd.audit.mask.secret.file",
        parse=path,
        doc=(
            "The file whose content, 16 to 4096 bytes, keys the hashes of audit lines; nobody but"
            " owner and group may read it. SIGHUP reads it again."
        ),
    ),
    Key(
        name="authorizerd.authzen.subject.types",
        parse=subject_types,
        default="user=User",
        doc="Comma list of AuthZEN subject type=Kafka principal type.",
    ),
    Key(
        name="authorizerd.authzen.resource.types",
        parse=resource_types,
        default=(
            "topic=TOPIC,group=GROUP,cluster=CLUSTER,transactional_id=TRANSACTIONAL_ID,"
            "delegation_token=DELEGATION_TOKEN,user=USER"
        ),
        doc="Comma list of AuthZEN resource type (any case)=Kafka resource type.",
    ),
)

KEYS_BY_NAME = {key.name: key for key in KEYS}
