"""The table of authorizerd's own configuration keys.

**Invariant:** every key has the prefix `authorizerd.`; an unknown key with that prefix is
rejected, never ignored.
"""

from __future__ import annotations

from authorizerd.acl.audit_mask import Masking
from authorizerd.config.audit_values import principal_patterns, resource_patterns, share
from authorizerd.config.endpoints import (
    parse_http_endpoint,
    parse_optional_http_endpoint,
    parse_stream_endpoint,
)
from authorizerd.config.follow_keys import FOLLOW_KEYS
from authorizerd.config.key import Key
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.config.values import (
    AuditFormat,
    KafkaRelease,
    LogFormat,
    LogLevel,
    UnknownRelease,
    audit_level,
    base_url,
    boolean,
    choice,
    integer,
    path,
    resource_types,
    subject_types,
    super_users,
)

OWN_PREFIX = "authorizerd."
CALLERS_PREFIX = f"{OWN_PREFIX}callers."

_HOUR_MS = 3_600_000

OWN_KEYS = (
    Key(
        name="authorizerd.update.timeout.ms",
        parse=integer(100, _HOUR_MS),
        default="30000",
        reloadable=True,
        doc=(
            "Maximum time in milliseconds that an ACL creation or deletion waits until its"
            " changes are durable and applied. Unfinished items are answered with"
            " REQUEST_TIMED_OUT and may still be applied. The same limit applies to a frame of the"
            " decision stream that waits for its offset. At least 100, since no change would be"
            " answered in time otherwise, not even the one that raises the limit again."
        ),
    ),
    Key(
        name="authorizerd.login.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="10000",
        reloadable=True,
        wire_minimum=1000,
        doc=(
            "Maximum time in milliseconds for a new connection to log in or send its hello. Where"
            " neither is required, its first request must be answered without an error within this"
            " time. Otherwise the daemon closes the connection. A client cannot set a value below"
            " 1000."
        ),
    ),
    Key(
        name="authorizerd.decision.http",
        parse=parse_http_endpoint,
        default="http://127.0.0.1:8181",
        doc=(
            "Address of the HTTP decision port (docs/decisions.md): http://host:port, or"
            " https://host:port for TLS. Port 0 selects a free port; an empty host means all"
            " interfaces. Binding to a non-loopback address requires authorizerd.tokens.file, or"
            " TLS with client certificates."
        ),
    ),
    Key(
        name="authorizerd.decision.stream",
        parse=parse_stream_endpoint,
        default="tcp://127.0.0.1:8183",
        doc=(
            "Address of the decision stream (docs/stream.md): tcp://host:port, where port 0"
            " selects a free port, tls://host:port for TLS, or unix:PATH. An empty value disables"
            " the stream. Binding to a non-loopback address requires authorizerd.tokens.file, or"
            " TLS with client certificates."
        ),
    ),
    Key(
        name="authorizerd.stream.frame.max.bytes",
        parse=integer(1024, 16 * 1024 * 1024),
        default="131072",
        doc=(
            "Maximum size in bytes of a frame that the decision stream accepts. The event loop"
            " decodes a frame in one step, which takes about 2 ms at the default."
        ),
    ),
    Key(
        name="authorizerd.overload.turn.ms",
        parse=integer(1, _HOUR_MS),
        default="25",
        doc=(
            "Load shedding: maximum CPU time in milliseconds that the daemon spends on others while"
            " a pipelined decision request waits for its connection's turn. After a longer wait,"
            " the daemon refuses the request. A client that waits for each answer is never refused."
        ),
    ),
    Key(
        name="authorizerd.workers",
        parse=integer(1, 64),
        default="1",
        doc=(
            "Number of processes that share the decision ports (docs/workers.md); with 1 there is"
            " only the daemon. max.connections and authorizerd.audit.queue.max apply to each"
            " process."
        ),
    ),
    Key(
        name="authorizerd.worker.timeout.ms",
        parse=integer(100, _HOUR_MS),
        default="10000",
        doc=(
            "Maximum time in milliseconds that a worker may take for one order of the daemon. A"
            " slower worker is killed and replaced. Updates that wait for it are then acknowledged."
            " If the daemon hangs or is killed, its workers stop deciding after twice this time, at"
            " most 20 s."
        ),
    ),
    Key(
        name="authorizerd.watch.max.connections",
        parse=integer(0, 10_000),
        default="64",
        doc=(
            "Maximum number of clients that watch changes of ACLs (docs/watch.md), in each process."
            " One principal may have at most half of them, rounded up. max.connections counts them,"
            " too. With 0, nobody may watch."
        ),
    ),
    Key(
        name="authorizerd.watch.journal.bytes",
        parse=integer(64 * 1024, 1024 * 1024 * 1024),
        default="16777216",
        doc=(
            "Memory in bytes, in each process, for the latest changes of ACLs. A client can resume"
            " a watch from any of them. A change takes about 700 bytes."
        ),
    ),
    Key(
        name="authorizerd.admin.http",
        parse=parse_http_endpoint,
        default="http://127.0.0.1:8182",
        doc=(
            "Address that serves metrics and health: a loopback address, or https://host:port with"
            " authorizerd.tokens.file or client certificates."
        ),
    ),
    Key(
        name="authorizerd.console",
        parse=boolean,
        default="false",
        doc=(
            "If true, the admin port also serves the web console, at /console/ (docs/console.md)."
            " With authorizerd.tokens.file or client certificates, its visitors log in, on a"
            " loopback address too."
        ),
    ),
    Key(
        name="authorizerd.metrics.http",
        parse=parse_optional_http_endpoint,
        doc=(
            "Address (http://host:port or https://host:port, on any interface) that serves"
            " /metrics, /healthz and /readyz to everyone and nothing else, for Prometheus and for"
            " probes (docs/monitoring.md). Clients need no certificate. Port 0 selects a free port;"
            " an empty host means all interfaces. Without it, only the admin port serves them."
        ),
    ),
    Key(
        name="authorizerd.tokens.file",
        parse=path,
        doc=(
            "File of the tokens that callers of the decision ports must present"
            " (docs/decisions.md). It must exist when the daemon starts. SIGHUP reads the file"
            " again, for added and removed tokens; to set this key or another path needs a restart."
            " Without this key, every caller that reaches a decision port is trusted."
        ),
    ),
    *(
        Key(
            name=f"{CALLERS_PREFIX}{right}",
            parse=super_users,
            default="",
            reloadable=True,
            doc=(
                f"Semicolon-separated list of principals (Type:name) of callers that may {meaning}"
                " ACLs never give this right, and it implies no other one; super users have it"
                " (docs/security-model.md)."
            ),
        )
        for right, meaning in (
            (
                "ask",
                "have decisions made about any principal, on all decision ports. Without it, a"
                " caller may ask about itself only.",
            ),
            (
                "search",
                "search what other principals may do, and get explanations, which show ACLs of"
                " others. Without it, a caller may search its own rights only.",
            ),
            (
                "read",
                "list and watch ACLs, ask about the past, even about itself, and see the console's"
                " lists.",
            ),
        )
    ),
    Key(
        name="authorizerd.http.request.max.bytes",
        parse=integer(1024, 16 * 1024 * 1024),
        default="262144",
        doc="Maximum size of an HTTP request in bytes.",
    ),
    Key(
        name="authorizerd.http.header.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="10000",
        reloadable=True,
        wire_minimum=1000,
        doc=(
            "Maximum time in milliseconds for the head of an HTTP request to arrive. A client"
            " cannot set a value below 1000."
        ),
    ),
    Key(
        name="authorizerd.http.drain.timeout.ms",
        parse=integer(0, _HOUR_MS),
        default="10000",
        reloadable=True,
        doc="Maximum time in milliseconds that a shutdown waits for requests in progress.",
    ),
    Key(
        name="authorizerd.log.format",
        parse=choice(LogFormat),
        default="text",
        doc=(
            "Format of the daemon's log, one event per line: text, or json (an object with time,"
            " level, logger, pid and message). In the systemd journal, each line carries its"
            " priority (docs/systemd.md)."
        ),
    ),
    Key(
        name="authorizerd.log.level",
        parse=choice(LogLevel),
        default="INFO",
        reloadable=True,
        doc="Lowest level that the daemon logs to standard error: DEBUG, INFO, WARNING or ERROR.",
    ),
    Key(
        name="authorizerd.audit.log",
        parse=path,
        doc=(
            "Destination of audit lines (docs/audit.md): stdout, stderr, or a file to append to."
            " Without it, nothing is audited."
        ),
    ),
    Key(
        name="authorizerd.audit.format",
        parse=choice(AuditFormat),
        default="kafka",
        doc="Format of audit lines: kafka (Kafka's authorizer log) or json.",
    ),
    Key(
        name="authorizerd.audit.level",
        parse=audit_level,
        default="INFO",
        reloadable=True,
        doc=(
            "Decisions to audit: INFO audits denials only, as in Kafka; DEBUG and TRACE also"
            " audit allowed decisions."
        ),
    ),
    Key(
        name="authorizerd.audit.queue.max",
        parse=integer(1, 1_000_000),
        default="10000",
        doc=(
            "Maximum number of audit lines that wait to be written. Further lines are dropped and"
            " counted."
        ),
    ),
    Key(
        name="authorizerd.audit.required",
        parse=boolean,
        default="false",
        reloadable=True,
        doc=(
            "If true, the daemon stops deciding while it can neither write nor queue audit lines;"
            " callers get the same answer as before the ACLs are loaded."
        ),
    ),
    Key(
        name="authorizerd.audit.sample.allowed",
        parse=share,
        default="1",
        reloadable=True,
        doc=(
            "Share of allowed decisions to audit, such as 0.01 or 1/100. Sampling never skips a"
            " denial."
        ),
    ),
    Key(
        name="authorizerd.audit.principals.include",
        parse=principal_patterns,
        default="*",
        reloadable=True,
        doc=(
            "Semicolon-separated list of the principals whose decisions are audited: Type:name,"
            " Type:prefix* or *. Denials are always audited unless authorizerd.audit.filter.denied"
            " is true."
        ),
    ),
    Key(
        name="authorizerd.audit.principals.exclude",
        parse=principal_patterns,
        default="",
        reloadable=True,
        doc=(
            "Semicolon-separated list of principals, such as the brokers, that are not audited"
            " even if they are included."
        ),
    ),
    Key(
        name="authorizerd.audit.resources.include",
        parse=resource_patterns,
        default="*",
        reloadable=True,
        doc=(
            "Semicolon-separated list of the resources on which decisions are audited: TYPE:name,"
            " TYPE:prefix* or *. Denials are always audited unless authorizerd.audit.filter.denied"
            " is true."
        ),
    ),
    Key(
        name="authorizerd.audit.resources.exclude",
        parse=resource_patterns,
        default="",
        reloadable=True,
        doc=(
            "Semicolon-separated list of resources that are not audited even if they are included."
        ),
    ),
    Key(
        name="authorizerd.audit.filter.denied",
        parse=boolean,
        default="false",
        reloadable=True,
        doc=(
            "If true, the lists of included and excluded principals and resources apply to"
            " denials too."
        ),
    ),
    *(
        Key(
            name=f"authorizerd.audit.mask.{what}",
            parse=choice(Masking),
            default="none",
            doc=(
                f"How audit lines show {names}: none (unchanged), hash (hashed with the secret in"
                " authorizerd.audit.mask.secret.file) or cut (replaced by three asterisks)."
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
            "File with the secret (16 to 4096 bytes) that keys the hashes in audit lines. Only"
            " its owner and group may have access to it. SIGHUP reloads it."
        ),
    ),
    Key(
        name="authorizerd.authzen.subject.types",
        parse=subject_types,
        default="user=User",
        doc="Comma-separated list of pairs: AuthZEN subject type=Kafka principal type.",
    ),
    Key(
        name="authorizerd.authzen.resource.types",
        parse=resource_types,
        default=(
            "topic=TOPIC,group=GROUP,cluster=CLUSTER,transactional_id=TRANSACTIONAL_ID,"
            "delegation_token=DELEGATION_TOKEN,user=USER"
        ),
        doc=(
            "Comma-separated list of pairs: AuthZEN resource type (in any case)=Kafka resource"
            " type."
        ),
    ),
    Key(
        name="authorizerd.search.timeout.ms",
        parse=integer(1, _HOUR_MS),
        default="10000",
        doc=(
            "Maximum time in milliseconds of a search or an explanation, including its wait for"
            " others. One that takes longer is answered with status 503."
        ),
    ),
    Key(
        name="authorizerd.authzen.base.url",
        parse=base_url,
        default="",
        doc=(
            "The URL at which clients reach authorizerd.decision.http, for AuthZEN's discovery."
            " Empty: the URL that the client has used. Set it if a proxy is in between."
        ),
    ),
    Key(
        name="authorizerd.kafka.release",
        parse=choice(KafkaRelease),
        default="auto",
        doc=(
            "The Kafka release by whose rules ACLs are judged (docs/following.md): 4.3 means the"
            " rules of 4.0 to 4.3, 4.4 those of 4.4, which reads a host with a slash as a range of"
            " addresses. auto means the releases that the followed cluster runs, and for the"
            " daemon's own log the release of its metadata.version. While releases are mixed or"
            " unknown, a question is allowed only if each of them allows it."
        ),
    ),
    Key(
        name="authorizerd.kafka.release.unknown",
        parse=choice(UnknownRelease),
        default="warn",
        doc=(
            "What the daemon does while the cluster or the log uses a Kafka release that is newer"
            " than those tested: warn means that it says so everywhere, and allows only what all"
            " known releases allow; stop means that it stops decisions, and is not ready."
        ),
    ),
    *FOLLOW_KEYS,
    *ssl_keys(f"{OWN_PREFIX}http.", of=" of the ports with https:// or tls://"),
)
