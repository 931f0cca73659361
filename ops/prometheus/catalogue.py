"""The catalogue of the metrics that the daemon exports, with advice for operators.

**Invariant:** it lists exactly the metrics that the daemon exports; a test compares it with a
scrape.
"""

from __future__ import annotations

from typing import Final

from ops.prometheus.entry import MetricEntry
from ops.prometheus.source_entries import SOURCE_ENTRIES

_REFUSED: Final = "Requests refused because of overload or the memory limit."
_ENDED: Final = (
    "Connections refused at a limit, evicted for a new connection, timed out, outliving "
    "the client's certificate (expired), or broken by invalid data or a fault."
)
_OPEN: Final = "Open connections."
_AUDIT: Final = "with `authorizerd.audit.log`"
_SASL: Final = "on SASL listeners"
_WORKERS: Final = "with `authorizerd.workers` above 1"


def _entries_of_every_port(protocol: str) -> tuple[MetricEntry, ...]:
    """Return the metrics of limits and handshakes, which every port has."""
    return (
        MetricEntry(
            name=f"authorizerd_{protocol}_connections_refused_total",
            kind="counter",
            labels=("listener", "reason"),
            unit="connections",
            help="Connections refused, by the key whose limit was reached.",
            advice="Raise the limit that `reason` names, or let clients share connections.",
        ),
        MetricEntry(
            name=f"authorizerd_{protocol}_connections_never_established_total",
            kind="counter",
            labels=("listener",),
            unit="connections",
            help=(
                "Connections that timed out before a log-in (including the TLS handshake), a hello"
                " or an answered request."
            ),
            advice="Clients or probes connect and send nothing, or are too slow to log in.",
        ),
        MetricEntry(
            name=f"authorizerd_{protocol}_accepts_failed_total",
            kind="counter",
            labels=("listener",),
            unit="attempts",
            help=(
                "Failed attempts to accept a connection, usually for lack of file descriptors or"
                " memory."
            ),
            advice="Raise the limit of open files, or find the process that uses them up.",
        ),
        MetricEntry(
            name=f"authorizerd_{protocol}_handshakes_total",
            kind="counter",
            labels=("listener",),
            unit="handshakes",
            help="TLS handshakes that succeeded.",
            advice="If it grows as fast as the requests, clients do not reuse connections.",
        ),
        MetricEntry(
            name=f"authorizerd_{protocol}_handshakes_failed_total",
            kind="counter",
            labels=("listener",),
            unit="handshakes",
            help="TLS handshakes that failed, for any reason.",
            advice=(
                "The daemon's log names the reason: no TLS, an unknown CA, an expired certificate."
            ),
        ),
    )


CATALOGUE: Final = (
    MetricEntry(
        name="authorizerd_ready",
        kind="gauge",
        unit="1 or 0",
        help="1 while `/readyz` says ready, else 0.",
        advice="If it is 0, `/readyz` on the admin port names the reason.",
    ),
    MetricEntry(
        name="authorizerd_build_info",
        kind="gauge",
        labels=("version", "build"),
        unit="1",
        help="Version of the daemon, and a hash of its modules.",
        advice="Daemons with another `build` run other code; `authorizerd --version` shows both.",
    ),
    MetricEntry(
        name="authorizerd_acls",
        kind="gauge",
        unit="ACLs",
        help="Number of ACLs in force, -1 until they are loaded (AclCount of KIP-801).",
        advice="After an unexpected drop, search the audit log for ALTER on the cluster.",
    ),
    MetricEntry(
        name="authorizerd_acls_failing",
        kind="gauge",
        unit="ACLs",
        help="Number of ACLs that Kafka cannot judge, because their principal has no colon.",
        advice="If it is above 0, `authorizerd doctor` and the start of the log name them.",
    ),
    MetricEntry(
        name="authorizerd_snapshot_offset",
        kind="gauge",
        unit="log offset",
        help="Log offset of the ACLs that decisions use, -1 until they are loaded.",
        advice="If it stays at -1, check `/readyz` for the progress of the load.",
    ),
    MetricEntry(
        name="authorizerd_high_watermark",
        kind="gauge",
        unit="log offset",
        help="Last committed log offset that the daemon has read, -1 before the first.",
        advice="If it stays above `authorizerd_snapshot_offset`, changes are not applied.",
    ),
    MetricEntry(
        name="authorizerd_metadata_version",
        kind="gauge",
        unit="feature level",
        help="Level of metadata.version in the log, -1 if the log does not set it.",
        advice="If it is above `authorizerd_metadata_version_known`, upgrade the daemon.",
    ),
    MetricEntry(
        name="authorizerd_metadata_version_known",
        kind="gauge",
        unit="feature level",
        help="Highest level of metadata.version that this version of the daemon supports.",
        advice="Compare with `authorizerd_metadata_version`.",
    ),
    MetricEntry(
        name="authorizerd_kafka_release",
        kind="gauge",
        labels=("release",),
        unit="releases",
        help="1 for a Kafka release whose rules are in force; for several while they are mixed.",
        advice="If the sum stays above 1, `authorizerd doctor` names what keeps releases mixed.",
    ),
    MetricEntry(
        name="authorizerd_kafka_release_newer",
        kind="gauge",
        unit="1 or 0",
        help="1 while a Kafka release is in use that is newer than those tested, else 0.",
        advice="If it is 1, upgrade the daemon: rules may have changed that it does not know.",
    ),
    MetricEntry(
        name="authorizerd_decisions_total",
        kind="counter",
        labels=("surface", "result"),
        unit="questions",
        help="Questions asked, by surface and result.",
        advice="`denied`: read the audit. `not_ready`: check `/readyz`. `invalid`: fix the client.",
    ),
    MetricEntry(
        name="authorizerd_endpoint_open",
        kind="gauge",
        labels=("listener",),
        unit="1 or 0",
        help="1 if the endpoint accepts connections, 0 while it waits for the ACLs to load.",
        advice="If it stays at 0, the load or a custom authorizer's start has not finished.",
    ),
    MetricEntry(
        name="authorizerd_audit_dropped_total",
        kind="counter",
        labels=("reason",),
        unit="lines",
        help="Audit lines lost because the queue was full or the output could not be written.",
        advice=(
            "`queue`: audit less or raise `authorizerd.audit.queue.max`. `output`: check the disk."
        ),
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_failing",
        kind="gauge",
        unit="processes",
        help="Processes that currently cannot write their audit lines.",
        advice="The daemon's log names the error, such as a full disk or a missing folder.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_written_total",
        kind="counter",
        unit="lines",
        help="Audit lines written to the output.",
        advice="Use it to plan storage for the audit.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_filtered_total",
        kind="counter",
        unit="decisions",
        help="Decisions not audited because a filter excludes their principal or resource.",
        advice="If it is too high, check `authorizerd.audit.*.include` and `.exclude`.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_sampled_total",
        kind="counter",
        unit="decisions",
        help="Allowed decisions not audited because of sampling.",
        advice="Compare with `authorizerd.audit.sample.allowed`.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_purgatory_size",
        kind="gauge",
        labels=("operation",),
        unit="requests",
        help="Creation and deletion requests that wait for their items to finish.",
        advice="If it grows, the disk or a worker does not keep up with changes.",
    ),
    MetricEntry(
        name="authorizerd_delayed_operations",
        kind="gauge",
        labels=("operation",),
        unit="requests",
        help="Creation and deletion requests that wait for their items to finish.",
        advice="KIP-504 has both metrics, and they are always equal here.",
    ),
    MetricEntry(
        name="authorizerd_updates_waiting",
        kind="gauge",
        unit="requests",
        help="Requests that the update queue has accepted but not answered.",
        advice="At `queued.max.requests`, the daemon refuses further changes.",
    ),
    MetricEntry(
        name="authorizerd_updates_timed_out_total",
        kind="counter",
        unit="requests",
        help="Creation and deletion requests answered after authorizerd.update.timeout.ms, before"
        " their items finished.",
        advice="The changes may still be applied: list the ACLs before you repeat them.",
    ),
    MetricEntry(
        name="authorizerd_log_flushes_total",
        kind="counter",
        unit="appends",
        help="Appends to the log; each one includes one sync.",
        advice="If it stops while updates wait, the disk hangs.",
    ),
    MetricEntry(
        name="authorizerd_log_batches_total",
        kind="counter",
        unit="batches",
        help="Batches written to the log; each change request is one batch.",
        advice="Divide by `authorizerd_log_flushes_total` to get the batches per sync.",
    ),
    MetricEntry(
        name="authorizerd_checkpoints_total",
        kind="counter",
        unit="checkpoints",
        help="Checkpoints written.",
        advice="If it stops for days despite changes, the log grows and the daemon takes longer to "
        "start.",
    ),
    MetricEntry(
        name="authorizerd_checkpoint_failures_total",
        kind="counter",
        unit="checkpoints",
        help="Failed attempts to write a checkpoint; the daemon retries.",
        advice="The daemon's log names the error; usually the disk is full.",
    ),
    MetricEntry(
        name="authorizerd_request_local_seconds",
        kind="histogram",
        labels=("request",),
        unit="seconds",
        help="Kafka requests: processing time in the daemon, in seconds (Kafka's LocalTimeMs).",
        advice="If it is high, there is too much load, or requests concern very many ACLs. As in "
        "Kafka, a forwarded request counts under its own API.",
    ),
    MetricEntry(
        name="authorizerd_request_remote_seconds",
        kind="histogram",
        labels=("request",),
        unit="seconds",
        help="Kafka requests: waiting time in purgatory, in seconds (Kafka's RemoteTimeMs).",
        advice="If it is high, the disk syncs slowly, or a worker lags.",
    ),
    MetricEntry(
        name="authorizerd_http_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        help=_OPEN,
        advice="If it is near `max.connections`, there are too many callers, or they do not reuse "
        "connections.",
    ),
    MetricEntry(
        name="authorizerd_http_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        help=_ENDED,
        advice=(
            "`refused`: raise `max.connections` or `max.connections.per.ip`. `evicted`: the same,"
            " or a client holds idle connections. `timed_out`: callers are slow or broken."
        ),
    ),
    *_entries_of_every_port("http"),
    MetricEntry(
        name="authorizerd_http_requests_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help="Complete requests received.",
        advice="If it grows but decisions do not, callers use the wrong paths.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_bad_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help="Requests rejected because they are invalid HTTP or too large.",
        advice="A client has a bug, or somebody probes the port.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_failed_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help="Requests answered with status 500: an internal error.",
        advice="The daemon's log has the traceback. Report it.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help=_REFUSED,
        advice="Add workers, or send more questions per request.",
    ),
    MetricEntry(
        name="authorizerd_kafka_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        help=_OPEN,
        advice="See `authorizerd_http_connections`.",
    ),
    MetricEntry(
        name="authorizerd_kafka_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        help=_ENDED,
        advice="`broken`: the client does not speak Kafka, or uses the wrong kind of listener.",
    ),
    *_entries_of_every_port("kafka"),
    MetricEntry(
        name="authorizerd_kafka_requests_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help="Requests received.",
        advice="Shows the load of each listener.",
    ),
    MetricEntry(
        name="authorizerd_kafka_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        help=_REFUSED,
        advice="Spread administration over time, or raise `queued.max.request.bytes`.",
    ),
    MetricEntry(
        name="authorizerd_kafka_accepts_delayed_total",
        kind="counter",
        labels=("listener",),
        unit="connections",
        help="Connections delayed by max.connection.creation.rate.",
        advice="Let clients reuse connections, or raise the rate.",
    ),
    MetricEntry(
        name="authorizerd_kafka_accept_delay_seconds_total",
        kind="counter",
        labels=("listener",),
        unit="seconds",
        help="Time by which max.connection.creation.rate delayed connections, in seconds.",
        advice="If it grows by a second per second, connections arrive faster than the rate.",
    ),
    MetricEntry(
        name="authorizerd_kafka_logins_failed_total",
        kind="counter",
        labels=("listener",),
        unit="log-ins",
        help="Failed log-ins, for any reason.",
        advice="If there are many, a client uses an old password, or somebody guesses passwords.",
    ),
    MetricEntry(
        name="authorizerd_kafka_logins_total",
        kind="counter",
        labels=("listener", "mechanism", "result"),
        unit="log-ins",
        help="Log-ins on new connections, by SASL mechanism and result.",
        advice=(
            "Before you disable a mechanism, check that nobody uses it. Log-ins with a mechanism"
            " that the listener does not enable count only in"
            " `authorizerd_kafka_logins_failed_total`."
        ),
        condition=_SASL,
    ),
    MetricEntry(
        name="authorizerd_kafka_reauthentications_total",
        kind="counter",
        labels=("listener", "mechanism", "result"),
        unit="log-ins",
        help="Re-authentications on open connections, by SASL mechanism and result.",
        advice="A failure means that the user was removed, or that the password has changed.",
        condition=_SASL,
    ),
    MetricEntry(
        name="authorizerd_kafka_sessions_expired_total",
        kind="counter",
        labels=("listener",),
        unit="connections",
        help="Connections closed because the client did not log in again in time.",
        advice="If it grows, a client does not support re-authentication (KIP-368): update it.",
    ),
    MetricEntry(
        name="authorizerd_stream_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        help=_OPEN,
        advice="See `authorizerd_http_connections`.",
    ),
    MetricEntry(
        name="authorizerd_stream_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        help=_ENDED,
        advice="`broken`: the client has another version, or sends frames that are too large.",
    ),
    *_entries_of_every_port("stream"),
    MetricEntry(
        name="authorizerd_stream_requests_total",
        kind="counter",
        labels=("listener",),
        unit="frames",
        help="Frames received, including hellos.",
        advice="Compare with decisions to see how well callers batch.",
    ),
    MetricEntry(
        name="authorizerd_stream_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="frames",
        help=_REFUSED,
        advice="Add workers, or keep fewer frames in flight.",
    ),
    MetricEntry(
        name="authorizerd_watchers",
        kind="gauge",
        unit="clients",
        help="Clients that watch changes of ACLs now.",
        advice="If it is near `authorizerd.watch.max.connections`, raise it, or check who watches.",
    ),
    MetricEntry(
        name="authorizerd_watchers_refused_total",
        kind="counter",
        unit="requests",
        help="Watches refused because authorizerd.watch.max.connections was reached.",
        advice="Raise the limit, or let consumers share a watch.",
    ),
    MetricEntry(
        name="authorizerd_watch_events_total",
        kind="counter",
        unit="batches",
        help="Batches of changes sent to watchers, counted once for each watcher.",
        advice="If it stays at 0 while ACLs change, nobody watches.",
    ),
    MetricEntry(
        name="authorizerd_watchers_ended_total",
        kind="counter",
        labels=("reason",),
        unit="watches",
        help="Watches that have ended, by reason.",
        advice="`slow`, `expired`: clients read too slowly; raise"
        " `authorizerd.watch.journal.bytes`. `forbidden`: a token or DESCRIBE was taken away.",
    ),
    MetricEntry(
        name="authorizerd_workers",
        kind="gauge",
        unit="processes",
        help="Workers that accept connections.",
        advice="If it stays below `authorizerd.workers`, the daemon's log says why workers end.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_workers_offset",
        kind="gauge",
        unit="log offset",
        help="Lowest log offset that all workers have applied, -1 if none accepts connections.",
        advice="If it stays below `authorizerd_snapshot_offset`, a worker hangs.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_worker_restarts_total",
        kind="counter",
        unit="processes",
        help="Workers replaced because they ended or fell behind.",
        advice="Check for out-of-memory kills, and check `authorizerd.worker.timeout.ms`.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_certificate_expiry_timestamp_seconds",
        kind="gauge",
        labels=("listener", "store", "position", "serial"),
        unit="Unix time in seconds",
        help="Time at which a certificate in use expires. Position 0 is the server's certificate.",
        advice=(
            "Replace the certificate before that time, then reload. `listener` is a Kafka listener,"
            " or `http` for the ports of `authorizerd.http.ssl.*`. `store` is `keystore` or"
            " `truststore`. `serial` is hexadecimal, as openssl prints it. Each store shows the 20"
            " certificates that expire first."
        ),
        condition="with TLS",
    ),
    MetricEntry(
        name="authorizerd_reloads_total",
        kind="counter",
        labels=("result",),
        unit="reloads",
        help="Reloads of the configuration and the files that it names, by result.",
        advice="`failed`: the daemon's log names the key, the file and the reason.",
    ),
    MetricEntry(
        name="authorizerd_reload_failing",
        kind="gauge",
        unit="1 or 0",
        help="1 if the last reload failed, so that the previous settings are still in force.",
        advice="Fix what the daemon's log names, and send SIGHUP again.",
    ),
    MetricEntry(
        name="authorizerd_log_lines_dropped_total",
        kind="counter",
        unit="lines",
        help="Log lines dropped because standard error was not read fast enough.",
        advice="Check what reads standard error: a pipe without a reader, or a slow log collector.",
    ),
    MetricEntry(
        name="authorizerd_tasks",
        kind="gauge",
        unit="tasks",
        help="Tasks of the event loop, in the daemon's own process.",
        advice=(
            "A few dozen, and a few for each open connection. If it grows while connections do not,"
            " report it."
        ),
    ),
    *SOURCE_ENTRIES,
)
