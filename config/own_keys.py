"""The table of the keys that are ours, all of one prefix.

Law: whatever begins with the prefix and is not in this table is refused, never ignored.
"""

from __future__ import annotations

from authorizerd.acl.audit_mask import Masking
from authorizerd.config.audit_values import principal_patterns, resource_patterns, share
from authorizerd.config.endpoints import (
    parse_http_endpoint,
    parse_loopback_http_endpoint,
    parse_stream_endpoint,
)
from authorizerd.config.key import Key
from authorizerd.config.values import (
    AuditFormat,
    LogFormat,
    LogLevel,
    audit_level,
    boolean,
    choice,
    integer,
    path,
    resource_types,
    subject_types,
)

OWN_PREFIX = "authorizerd."

_HOUR_MS = 3_600_000

OWN_KEYS = (
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
        name="authorizerd.login.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="10000",
        reloadable=True,
        wire_minimum=1000,
        doc=(
            "How long a new connection may take to log in or to say its hello, or, where neither is"
            " asked for, to send its first request, in milliseconds; then it is closed. A"
            " client may set no less than 1000."
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
        wire_minimum=1000,
        doc=(
            "How long the head of an HTTP request may take to arrive, in milliseconds. A client may"
            " set no less than 1000."
        ),
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
