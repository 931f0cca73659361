"""Every metric that the daemon itself exports: what it is, and what to do about it.

Law: it says no more and no less than the daemon exports; a test scrapes one and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEntry:
    """One metric.

    ``name`` is a sample's, a counter's ``_total`` included, except that a histogram's is that of
    the family. ``tells`` is the help text of the exposition, word for word. ``unit`` is what one
    of the number is. ``condition`` says when it is exported, where that is not always.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    unit: str
    tells: str
    advice: str
    condition: str = ""


_REFUSED: Final = "Requests refused for want of time or of room: overload."
_ENDED: Final = (
    "Connections refused for being too many, or ended: evicted for a newcomer, timed_out, or "
    "broken by what was sent on them or by a fault."
)
_ACCEPTS_FAILED: Final = "Connections that could not be accepted, for want of files or memory."
_OPEN: Final = "Connections open now."
_AUDIT: Final = "with `authorizerd.audit.log`"
_WORKERS: Final = "with `authorizerd.workers` above 1"

CATALOGUE: Final = (
    MetricEntry(
        name="authorizerd_acls",
        kind="gauge",
        unit="ACLs",
        tells="ACLs in force, -1 until loaded (the AclCount of KIP-801).",
        advice="A fall that nobody ordered: look into the audit of whoever may ALTER the cluster.",
    ),
    MetricEntry(
        name="authorizerd_snapshot_offset",
        kind="gauge",
        unit="log offset",
        tells="Log offset up to which decisions know the metadata, -1 until loaded.",
        advice="-1 for long: `/readyz` says how far the load has come.",
    ),
    MetricEntry(
        name="authorizerd_high_watermark",
        kind="gauge",
        unit="log offset",
        tells="Last committed log offset that the source has read, -1 before the first.",
        advice="Above `authorizerd_snapshot_offset` for long: changes are read and not applied.",
    ),
    MetricEntry(
        name="authorizerd_metadata_version",
        kind="gauge",
        unit="feature level",
        tells="Level of the log's metadata.version, -1 where it names none.",
        advice="Above `authorizerd_metadata_version_known`: upgrade the daemon.",
    ),
    MetricEntry(
        name="authorizerd_metadata_version_known",
        kind="gauge",
        unit="feature level",
        tells="Highest level of metadata.version that this version knows.",
        advice="For comparison alone.",
    ),
    MetricEntry(
        name="authorizerd_decisions_total",
        kind="counter",
        labels=("surface", "result"),
        unit="questions",
        tells="Questions put, by surface and by how they ended.",
        advice="Much `denied`: read the audit. `not_ready`: `/readyz`. `invalid`: a client errs.",
    ),
    MetricEntry(
        name="authorizerd_endpoint_open",
        kind="gauge",
        labels=("listener",),
        unit="1 or 0",
        tells="Whether the endpoint is accepted from: 1 open, 0 waiting for the ACLs to be loaded.",
        advice="0 for long: the load, or an authorizer of your own, has not finished.",
    ),
    MetricEntry(
        name="authorizerd_audit_dropped_total",
        kind="counter",
        labels=("reason",),
        unit="lines",
        tells="Audit lines lost: the queue was full, or the output could not be written.",
        advice="`queue`: audit less, or raise `authorizerd.audit.queue.max`. `output`: the disk.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_failing",
        kind="gauge",
        unit="processes",
        tells="Processes that cannot write their audit lines now: 0 where all is well.",
        advice="The daemon's own log names the error: a full disk, a folder that is gone.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_written_total",
        kind="counter",
        unit="lines",
        tells="Audit lines handed to the output.",
        advice="For the size of what must be kept.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_filtered_total",
        kind="counter",
        unit="decisions",
        tells="Decisions not audited for their principal or resource.",
        advice="Compare with what `authorizerd.audit.*.exclude` is meant to leave out.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_audit_sampled_total",
        kind="counter",
        unit="decisions",
        tells="Allowed decisions not audited since only a share of them is.",
        advice="Compare with `authorizerd.audit.sample.allowed`.",
        condition=_AUDIT,
    ),
    MetricEntry(
        name="authorizerd_purgatory_size",
        kind="gauge",
        labels=("operation",),
        unit="items",
        tells="Items of creations and deletions that are waited for.",
        advice="Growing: the disk, or a worker, does not keep up with changes.",
    ),
    MetricEntry(
        name="authorizerd_delayed_operations",
        kind="gauge",
        labels=("operation",),
        unit="requests",
        tells="Requests of creations and deletions that wait for their items.",
        advice="As `authorizerd_purgatory_size`.",
    ),
    MetricEntry(
        name="authorizerd_updates_waiting",
        kind="gauge",
        unit="requests",
        tells="Requests that the update queue has accepted and not answered.",
        advice="Near `queued.max.requests`: further changes are refused.",
    ),
    MetricEntry(
        name="authorizerd_log_flushes_total",
        kind="counter",
        unit="appends",
        tells="Appends to the log, each with one sync.",
        advice="Standing still while updates wait: the disk hangs.",
    ),
    MetricEntry(
        name="authorizerd_log_batches_total",
        kind="counter",
        unit="batches",
        tells="Batches written to the log, one a request of changes.",
        advice="Batches a flush say how much is written together.",
    ),
    MetricEntry(
        name="authorizerd_checkpoints_total",
        kind="counter",
        unit="checkpoints",
        tells="Checkpoints written.",
        advice="None for days under changes: the log grows, and so does the time of a start.",
    ),
    MetricEntry(
        name="authorizerd_checkpoint_failures_total",
        kind="counter",
        unit="checkpoints",
        tells="Checkpoints that could not be written, to be tried again.",
        advice="The daemon's own log names the error; mostly the disk is full.",
    ),
    MetricEntry(
        name="authorizerd_request_local_seconds",
        kind="histogram",
        labels=("request",),
        unit="seconds",
        tells="Kafka requests: the daemon's own time, in seconds (Kafka's LocalTimeMs).",
        advice="Slow: too much load, or requests on very many ACLs.",
    ),
    MetricEntry(
        name="authorizerd_request_remote_seconds",
        kind="histogram",
        labels=("request",),
        unit="seconds",
        tells="Kafka requests: time waited in purgatory, in seconds (Kafka's RemoteTimeMs).",
        advice="Slow: the disk syncs slowly, or a worker lags.",
    ),
    MetricEntry(
        name="authorizerd_http_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        tells=_OPEN,
        advice="Near `max.connections`: callers do not reuse connections, or there are too many.",
    ),
    MetricEntry(
        name="authorizerd_http_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        tells=_ENDED,
        advice=(
            "`refused`: raise `max.connections` or `max.connections.per.ip`. `evicted`: the same,"
            " or somebody holds connections. `timed_out`: slow or broken callers."
        ),
    ),
    MetricEntry(
        name="authorizerd_http_accepts_failed_total",
        kind="counter",
        labels=("listener",),
        unit="tries",
        tells=_ACCEPTS_FAILED,
        advice="Raise the limit of open files, or see who uses up the system's.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells="Whole requests received.",
        advice="Requests without decisions: callers ask for something else.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_bad_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells="Requests refused unread: no HTTP, or too large.",
        advice="A client is wrong, or somebody is trying things out.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_failed_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells="Requests answered with 500: a fault of the daemon's own.",
        advice="The log has the trace. Report it.",
    ),
    MetricEntry(
        name="authorizerd_http_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells=_REFUSED,
        advice="Add workers, or ask more questions a request.",
    ),
    MetricEntry(
        name="authorizerd_kafka_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        tells=_OPEN,
        advice="As `authorizerd_http_connections`.",
    ),
    MetricEntry(
        name="authorizerd_kafka_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        tells=_ENDED,
        advice="`broken`: a client that does not speak Kafka, or not to this kind of listener.",
    ),
    MetricEntry(
        name="authorizerd_kafka_accepts_failed_total",
        kind="counter",
        labels=("listener",),
        unit="tries",
        tells=_ACCEPTS_FAILED,
        advice="Raise the limit of open files, or see who uses up the system's.",
    ),
    MetricEntry(
        name="authorizerd_kafka_requests_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells="Requests read.",
        advice="For the load by listener.",
    ),
    MetricEntry(
        name="authorizerd_kafka_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="requests",
        tells=_REFUSED,
        advice="Spread administration over time; `queued.max.request.bytes` is the room.",
    ),
    MetricEntry(
        name="authorizerd_kafka_logins_failed_total",
        kind="counter",
        labels=("listener",),
        unit="log-ins",
        tells="Log-ins that failed, whatever for.",
        advice="Many: a password is old somewhere, or is being guessed.",
    ),
    MetricEntry(
        name="authorizerd_stream_connections",
        kind="gauge",
        labels=("listener",),
        unit="connections",
        tells=_OPEN,
        advice="As `authorizerd_http_connections`.",
    ),
    MetricEntry(
        name="authorizerd_stream_connections_ended_total",
        kind="counter",
        labels=("listener", "reason"),
        unit="connections",
        tells=_ENDED,
        advice="`broken`: a client of another version, or frames that are too large.",
    ),
    MetricEntry(
        name="authorizerd_stream_accepts_failed_total",
        kind="counter",
        labels=("listener",),
        unit="tries",
        tells=_ACCEPTS_FAILED,
        advice="Raise the limit of open files, or see who uses up the system's.",
    ),
    MetricEntry(
        name="authorizerd_stream_requests_total",
        kind="counter",
        labels=("listener",),
        unit="frames",
        tells="Frames read, hellos among them.",
        advice="Decisions a frame say how well callers batch.",
    ),
    MetricEntry(
        name="authorizerd_stream_requests_refused_total",
        kind="counter",
        labels=("listener",),
        unit="frames",
        tells=_REFUSED,
        advice="Add workers, or put fewer frames in flight.",
    ),
    MetricEntry(
        name="authorizerd_workers",
        kind="gauge",
        unit="processes",
        tells="Workers that listen.",
        advice="Below `authorizerd.workers` for long: the daemon's own log says why they end.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_workers_offset",
        kind="gauge",
        unit="log offset",
        tells="Lowest log offset up to which a worker knows the metadata, -1 where none listens.",
        advice="Below `authorizerd_snapshot_offset` for long: a worker hangs, to be replaced.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_worker_restarts_total",
        kind="counter",
        unit="processes",
        tells="Workers that had ended, or did not keep up, and were replaced.",
        advice="Look for memory that ran out, and at `authorizerd.worker.timeout.ms`.",
        condition=_WORKERS,
    ),
    MetricEntry(
        name="authorizerd_log_lines_dropped_total",
        kind="counter",
        unit="lines",
        tells="Lines of the daemon's own log lost: standard error did not take them in time.",
        advice="Look at what reads standard error: a pipe nobody reads, a slow log collector.",
    ),
)
