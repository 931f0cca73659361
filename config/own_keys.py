"""The table of authorizerd's own configuration keys.

**Invariant:** every key has the prefix `authorizerd.`; an unknown key with that prefix is
rejected, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from authorizerd.acl.audit.filter import NamePatterns, ResourcePatterns
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.audit.mask import Masking
from authorizerd.acl.model import ResourceType
from authorizerd.config.audit_values import principal_patterns, resource_patterns, share, time_zone
from authorizerd.config.endpoints import (
    HttpEndpoint,
    StreamEndpoint,
    parse_http_endpoint,
    parse_optional_http_endpoint,
    parse_stream_endpoint,
)
from authorizerd.config.follow.settings import FOLLOW_KEYS
from authorizerd.config.key import OWN_PREFIX, list_keys, setting
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.config.values import (
    AuditFormat,
    IntegerParser,
    KafkaRelease,
    LogFormat,
    LogLevel,
    UnknownRelease,
    base_url,
    boolean,
    choice,
    parse_audit_level,
    parse_principals,
    path,
    resource_types,
    subject_types,
    trim,
    words,
)

CALLERS_PREFIX = f"{OWN_PREFIX}callers."

_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    """The settings that Kafka does not have."""

    update_timeout_ms: int = setting(IntegerParser(100, _HOUR_MS), "30000", reloadable=True)
    """Maximum time in milliseconds that an ACL creation or deletion waits until its changes are
    durable and applied. Unfinished items are answered with REQUEST_TIMED_OUT and may still be
    applied. The same limit applies to a frame of the decision stream that waits for its offset. At
    least 100: with a lower limit, every change would time out, even one that raises the limit
    again."""
    login_timeout_ms: int = setting(
        IntegerParser(1, _HOUR_MS), "10000", reloadable=True, wire_minimum=1000
    )
    """Maximum time in milliseconds for a new connection to log in or send its hello. Where neither
    is required, its first request must be answered without an error within this time. Otherwise the
    daemon closes the connection. A client cannot set a value below 1000."""
    decision_http: HttpEndpoint = setting(parse_http_endpoint, "http://127.0.0.1:8181")
    """Address of the HTTP decision port (`authorizerd docs decisions`): http://host:port, or
    https://host:port for TLS. Port 0 selects a free port; an empty host means all interfaces.
    Binding to a non-loopback address requires authorizerd.tokens.file, or TLS with client
    certificates."""
    decision_stream: StreamEndpoint | None = setting(parse_stream_endpoint, "tcp://127.0.0.1:8183")
    """Address of the decision stream (`authorizerd docs stream`): tcp://host:port, where port 0
    selects a free port, tls://host:port for TLS, or unix:PATH. An empty value disables the stream.
    Binding to a non-loopback address requires authorizerd.tokens.file, or TLS with client
    certificates."""
    stream_frame_max_bytes: int = setting(IntegerParser(1024, 16 * 1024 * 1024), "131072")
    """Maximum size in bytes of a frame that the decision stream accepts. The event loop decodes a
    frame in one step, which takes about 2 ms at the default."""
    overload_turn_ms: int = setting(IntegerParser(1, _HOUR_MS), "25")
    """Load shedding: maximum CPU time in milliseconds that the daemon spends on others while a
    pipelined decision request waits for its connection's turn. After a longer wait, the daemon
    refuses the request. A client that waits for each answer is never refused."""
    workers: int = setting(IntegerParser(1, 64), "1")
    """Number of processes that share the decision ports (`authorizerd docs high-availability`);
    with 1 there is only the daemon. max.connections and authorizerd.audit.queue.max apply to each
    process."""
    worker_timeout_ms: int = setting(IntegerParser(100, _HOUR_MS), "10000")
    """Maximum time in milliseconds that a worker may take for one order of the daemon. A slower
    worker is killed and replaced. Updates that wait for it are then acknowledged. If the daemon
    hangs or is killed, its workers stop deciding after twice this time, at most 20 s."""
    watch_max_connections: int = setting(IntegerParser(0, 10_000), "64")
    """Maximum number of clients that watch changes of ACLs (`authorizerd docs watch`), in each
    process. One principal may have at most half of them, rounded up. They also count for
    max.connections. 0 disables watching."""
    watch_journal_bytes: int = setting(IntegerParser(64 * 1024, 1024 * 1024 * 1024), "16777216")
    """Memory in bytes, in each process, for the latest changes of ACLs. A client can resume a watch
    from any of them. A change takes about 700 bytes."""
    admin_http: HttpEndpoint = setting(parse_http_endpoint, "http://127.0.0.1:8182")
    """Address that serves metrics and health: a loopback address, or https://host:port with
    authorizerd.tokens.file or client certificates."""
    console: bool = setting(boolean, "false")
    """If true, the admin port also serves the web console, at /console/
    (`authorizerd docs console`). With authorizerd.tokens.file or client certificates, its visitors
    log in, even on a loopback address."""
    console_name: str = setting(trim, "")
    """Name of the cluster, such as production, that every page of the console shows beside the
    cluster's id."""
    console_verify_state: str | None = setting(path)
    """The file of `authorizerd verify --follow --state`, whose findings the page Verify of the
    console shows. The daemon must be able to read it."""
    console_usage_file: str | None = setting(path)
    """A `usage.json` of `authorizerd replay usage`, whose unused grants the page Risks of the
    console shows. The daemon must be able to read it."""
    metrics_http: HttpEndpoint | None = setting(parse_optional_http_endpoint)
    """Address (http://host:port or https://host:port, on any interface) that serves /metrics,
    /healthz and /readyz to everyone and nothing else, for Prometheus and for probes
    (`authorizerd docs monitoring`). Clients need no certificate. Port 0 selects a free port; an
    empty host means all interfaces. Without it, only the admin port serves them."""
    tokens_file: str | None = setting(path)
    """File of the tokens that callers of the decision ports must present
    (`authorizerd docs decisions`). It must exist when the daemon starts. SIGHUP reads the file
    again, for added and removed tokens. A change of this key itself needs a restart. Without this
    key, every caller that reaches a decision port is trusted."""
    routes_file: str | None = setting(path)
    """File of the routes that map a gateway's requests to questions (`authorizerd docs gateways`).
    With it, the decision port answers /v1/forward-auth. It must exist when the daemon starts.
    SIGHUP reads the file again; a change of this key itself needs a restart."""
    callers_ask: frozenset[str] = setting(parse_principals, "", reloadable=True)
    """Semicolon-separated list of principals (Type:name) of callers that may ask for decisions
    about any principal, on all decision ports. Other callers may ask about themselves only. ACLs
    never give this right, and it implies no other right; super users have it
    (`authorizerd docs security-model`)."""
    callers_search: frozenset[str] = setting(parse_principals, "", reloadable=True)
    """Semicolon-separated list of principals (Type:name) of callers that may search what other
    principals may do, and get explanations, which show ACLs of others. Without it, a caller may
    search its own rights only. ACLs never give this right, and it implies no other right; super
    users have it (`authorizerd docs security-model`)."""
    callers_read: frozenset[str] = setting(parse_principals, "", reloadable=True)
    """Semicolon-separated list of principals (Type:name) of callers that may list and watch ACLs,
    ask about the past, even about itself, and see the console's lists. ACLs never give this right,
    and it implies no other right; super users have it (`authorizerd docs security-model`)."""
    http_request_max_bytes: int = setting(IntegerParser(1024, 16 * 1024 * 1024), "262144")
    """Maximum size of an HTTP request in bytes."""
    http_header_timeout_ms: int = setting(
        IntegerParser(1, _HOUR_MS), "10000", reloadable=True, wire_minimum=1000
    )
    """Maximum time in milliseconds for the head of an HTTP request to arrive. A client cannot set a
    value below 1000."""
    http_drain_timeout_ms: int = setting(IntegerParser(0, _HOUR_MS), "10000", reloadable=True)
    """Maximum time in milliseconds that a shutdown waits for requests in progress."""
    log_format: LogFormat = setting(choice(LogFormat), "text")
    """Format of the daemon's log, one event per line: text, or json (an object with time, level,
    logger, pid and message). In the systemd journal, each line carries its priority
    (`authorizerd docs ops-systemd`)."""
    log_level: LogLevel = setting(choice(LogLevel), "INFO", reloadable=True)
    """Lowest level that the daemon logs to standard error: DEBUG, INFO, WARNING or ERROR."""
    audit_log: str | None = setting(path)
    """Destination of audit lines (`authorizerd docs audit`): stdout, stderr, or a file to append
    to. Without it, nothing is audited."""
    audit_format: AuditFormat = setting(choice(AuditFormat), "kafka")
    """Format of audit lines: kafka (Kafka's authorizer log) or json."""
    audit_level: AuditLevel = setting(parse_audit_level, "INFO", reloadable=True)
    """Decisions to audit: INFO audits denials only, as in Kafka; DEBUG and TRACE also audit allowed
    decisions."""
    audit_queue_max: int = setting(IntegerParser(1, 1_000_000), "10000")
    """Maximum number of audit lines that wait to be written. Further lines are dropped and
    counted."""
    audit_required: bool = setting(boolean, "false", reloadable=True)
    """If true, the daemon stops deciding while it can neither write nor queue audit lines; callers
    get the same answer as before the ACLs are loaded."""
    audit_sample_allowed: float = setting(share, "1", reloadable=True)
    """Share of allowed decisions to audit, such as 0.01 or 1/100. Sampling never skips a denial."""
    audit_principals_include: NamePatterns = setting(principal_patterns, "*", reloadable=True)
    """Semicolon-separated list of the principals whose decisions are audited: Type:name,
    Type:prefix* or *. Denials are always audited unless authorizerd.audit.filter.denied is true."""
    audit_principals_exclude: NamePatterns = setting(principal_patterns, "", reloadable=True)
    """Semicolon-separated list of principals, such as the brokers, that are not audited even if
    they are included."""
    audit_resources_include: ResourcePatterns = setting(resource_patterns, "*", reloadable=True)
    """Semicolon-separated list of the resources on which decisions are audited: TYPE:name,
    TYPE:prefix* or *. Denials are always audited unless authorizerd.audit.filter.denied is true."""
    audit_resources_exclude: ResourcePatterns = setting(resource_patterns, "", reloadable=True)
    """Semicolon-separated list of resources that are not audited even if they are included."""
    audit_filter_denied: bool = setting(boolean, "false", reloadable=True)
    """If true, the lists of included and excluded principals and resources apply to denials too."""
    audit_mask_principal: Masking = setting(choice(Masking), "none")
    """How audit lines show the names of principals: none (unchanged), hash (hashed with the secret
    in authorizerd.audit.mask.secret.file) or cut (replaced by three asterisks)."""
    audit_mask_host: Masking = setting(choice(Masking), "none")
    """How audit lines show hosts: none (unchanged), hash (hashed with the secret in
    authorizerd.audit.mask.secret.file) or cut (replaced by three asterisks)."""
    audit_mask_resource: Masking = setting(choice(Masking), "none")
    """How audit lines show the names of resources: none (unchanged), hash (hashed with the secret
    in authorizerd.audit.mask.secret.file) or cut (replaced by three asterisks)."""
    audit_mask_secret_file: str | None = setting(path)
    """File with the secret (16 to 4096 bytes) that keys the hashes in audit lines. Only its owner
    and group may have access to it. SIGHUP reloads it."""
    history_audit_files: tuple[str, ...] = setting(words, "")
    """Comma-separated list of audit logs of the cluster's controllers: paths, directories or globs.
    By them, answers about the past name the author of a change (`authorizerd docs governance`). The
    daemon's own audit log is used without being listed."""
    history_audit_timezone: tzinfo = setting(time_zone, "UTC")
    """Time zone of times without one in authorizerd.history.audit.files, such as Europe/Berlin or
    +02:00."""
    history_audit_latency_ms: int = setting(IntegerParser(0, _HOUR_MS), "10000")
    """Longest time in milliseconds from the audit line of a request to its change of ACLs. A larger
    value names fewer authors."""
    history_audit_skew_ms: int = setting(IntegerParser(0, _HOUR_MS), "1000")
    """How far the clocks of two nodes may differ, in milliseconds."""
    authzen_subject_types: Mapping[str, str] = setting(subject_types, "user=User")
    """Comma-separated list of pairs: AuthZEN subject type=Kafka principal type."""
    authzen_resource_types: Mapping[str, ResourceType] = setting(
        resource_types,
        "topic=TOPIC,group=GROUP,cluster=CLUSTER,transactional_id=TRANSACTIONAL_ID,delegation_token=DELEGATION_TOKEN,user=USER",
    )
    """Comma-separated list of pairs: AuthZEN resource type (in any case)=Kafka resource type."""
    search_timeout_ms: int = setting(IntegerParser(1, _HOUR_MS), "10000")
    """Maximum time in milliseconds of a search or an explanation, including its wait for others.
    One that takes longer is answered with status 503."""
    authzen_base_url: str = setting(base_url, "")
    """The URL at which clients reach authorizerd.decision.http, for AuthZEN's discovery. Empty: the
    URL that the client has used. Set it if a proxy is in between."""
    kafka_release: KafkaRelease = setting(choice(KafkaRelease), "auto")
    """The Kafka release by whose rules ACLs are judged (`authorizerd docs following`): 4.3 means
    the rules of 4.0 to 4.3, 4.4 those of 4.4, which reads a host with a slash as a range of
    addresses. auto means the releases that the followed cluster runs, and for the daemon's own log
    the release of its metadata.version. While releases are mixed or unknown, a question is allowed
    only if each of them allows it."""
    kafka_release_unknown: UnknownRelease = setting(choice(UnknownRelease), "warn")
    """What the daemon does while the cluster or the log uses a Kafka release that is newer than
    those tested: warn means that it says so everywhere, and allows only what all known releases
    allow; stop means that it stops decisions, and is not ready."""


OWN_SETTINGS = list_keys(OwnSettings, OWN_PREFIX)
OWN_KEYS = (
    *OWN_SETTINGS.values(),
    *FOLLOW_KEYS,
    *ssl_keys(f"{OWN_PREFIX}http.", of=" of the ports with https:// or tls://"),
)
