"""The metrics of the ACLs, of the decisions and of their audit, and of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Final

from authorizerd.acl.explanation.failing_acls import count_failing
from authorizerd.acl.releases import Release
from authorizerd.actors.audit_log import AuditStatistics
from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.daemon.telemetry.build import read_build, read_version
from authorizerd.daemon.telemetry.family import MetricFamily, Values
from authorizerd.daemon.telemetry.metric_sources import Scrape
from authorizerd.image.features import METADATA_VERSION_KNOWN

_AUDIT: Final = "with `authorizerd.audit.log`"


def _of_audit(read: Callable[[AuditStatistics], Values]) -> Callable[[Scrape], Values | None]:
    return lambda scrape: None if scrape.audit is None else read(scrape.audit)


def _count_decisions(scrape: Scrape) -> Mapping[tuple[str, str], float]:
    return {
        (surface, field.name): getattr(counts, field.name)
        for surface, counts in scrape.decisions.items()
        for field in fields(DecisionCounts)
    }


def _list_open_endpoints(scrape: Scrape) -> Mapping[str, float]:
    gate = scrape.daemon.gate
    return {endpoint: gate.is_open(endpoint) for endpoint in sorted(gate.endpoints)}


def _count_delayed(scrape: Scrape) -> Mapping[str, float]:
    return {"acl-update": scrape.daemon.purgatory.requests_waiting}


STATE_METRICS: Final = (
    MetricFamily(
        name="authorizerd_ready",
        unit="1 or 0",
        help="1 while `/readyz` says ready, else 0.",
        advice="If it is 0, `/readyz` on the admin port names the reason.",
        read=lambda scrape: scrape.daemon.is_ready(),
    ),
    MetricFamily(
        name="authorizerd_build_info",
        labels=(
            "version",
            "build",
        ),
        unit="1",
        help="Version of the daemon, and a hash of its modules.",
        advice="Daemons with a different `build` run different code: see `authorizerd --version`.",
        read=lambda scrape: {(read_version(), read_build()): 1},
    ),
    MetricFamily(
        name="authorizerd_acls",
        unit="ACLs",
        help="Number of ACLs in force, -1 until they are loaded (AclCount of KIP-801).",
        advice="After an unexpected drop, search the audit log for ALTER on the cluster.",
        read=lambda scrape: scrape.daemon.authorizer.acl_count(),
    ),
    MetricFamily(
        name="authorizerd_acls_failing",
        unit="ACLs",
        help="Number of ACLs that Kafka cannot judge, because their principal has no colon.",
        advice="If it is above 0, `authorizerd doctor` and the start of the log name them.",
        read=lambda scrape: 0 if scrape.snapshot is None else count_failing(scrape.snapshot),
    ),
    MetricFamily(
        name="authorizerd_snapshot_offset",
        unit="log offset",
        help="Log offset of the ACLs that decisions use, -1 until they are loaded.",
        advice="If it stays at -1, check `/readyz` for the progress of the load.",
        read=lambda scrape: scrape.daemon.applier.statistics().offset,
    ),
    MetricFamily(
        name="authorizerd_high_watermark",
        unit="log offset",
        help="Last committed log offset that the daemon has read, -1 before the first.",
        advice="If it stays above `authorizerd_snapshot_offset`, changes are not applied.",
        read=lambda scrape: scrape.source.high_watermark,
    ),
    MetricFamily(
        name="authorizerd_metadata_version",
        unit="feature level",
        help="Level of metadata.version in the log, -1 if the log does not set it.",
        advice="If it is above `authorizerd_metadata_version_known`, upgrade the daemon.",
        read=lambda scrape: scrape.source.metadata_version,
    ),
    MetricFamily(
        name="authorizerd_metadata_version_known",
        unit="feature level",
        help="Highest level of metadata.version that this version of the daemon supports.",
        advice="Compare with `authorizerd_metadata_version`.",
        read=lambda scrape: METADATA_VERSION_KNOWN,
    ),
    MetricFamily(
        name="authorizerd_kafka_release",
        labels=("release",),
        unit="releases",
        help="1 for a Kafka release whose rules are in force; for several while they are mixed.",
        advice="If the sum stays above 1, `authorizerd doctor` names what keeps releases mixed.",
        read=lambda scrape: {
            release: release in scrape.release.rules.releases for release in Release
        },
    ),
    MetricFamily(
        name="authorizerd_kafka_release_newer",
        unit="1 or 0",
        help="1 while a Kafka release is in use that is newer than those tested, else 0.",
        advice="If it is 1, upgrade the daemon: rules may have changed that it does not know.",
        read=lambda scrape: bool(scrape.release.newer),
    ),
    MetricFamily(
        name="authorizerd_decisions_total",
        labels=(
            "surface",
            "result",
        ),
        unit="questions",
        help="Questions asked, by surface and result.",
        advice="`denied`: read the audit. `not_ready`: check `/readyz`. `invalid`: fix the client.",
        read=_count_decisions,
    ),
    MetricFamily(
        name="authorizerd_endpoint_open",
        labels=("listener",),
        unit="1 or 0",
        help="1 if the endpoint accepts connections, 0 while it waits for the ACLs to load.",
        advice="If it stays at 0, the load or a custom authorizer's start has not finished.",
        read=_list_open_endpoints,
    ),
    MetricFamily(
        name="authorizerd_audit_dropped_total",
        labels=("reason",),
        unit="lines",
        help="Audit lines lost because the queue was full or the output could not be written.",
        advice=(
            "`queue`: audit less or raise `authorizerd.audit.queue.max`. `output`: check the disk."
        ),
        condition=_AUDIT,
        read=_of_audit(
            lambda audit: {"queue": audit.dropped_queue, "output": audit.dropped_output}
        ),
    ),
    MetricFamily(
        name="authorizerd_audit_failing",
        unit="processes",
        help="Processes that currently cannot write their audit lines.",
        advice="The daemon's log names the error, such as a full disk or a missing folder.",
        condition=_AUDIT,
        read=_of_audit(lambda audit: audit.failing),
    ),
    MetricFamily(
        name="authorizerd_audit_written_total",
        unit="lines",
        help="Audit lines written to the output.",
        advice="Use it to plan storage for the audit.",
        condition=_AUDIT,
        read=_of_audit(lambda audit: audit.written),
    ),
    MetricFamily(
        name="authorizerd_audit_filtered_total",
        unit="decisions",
        help="Decisions not audited because a filter excludes their principal or resource.",
        advice="If it is too high, check `authorizerd.audit.*.include` and `.exclude`.",
        condition=_AUDIT,
        read=_of_audit(lambda audit: audit.filtered),
    ),
    MetricFamily(
        name="authorizerd_audit_sampled_total",
        unit="decisions",
        help="Allowed decisions not audited because of sampling.",
        advice="Compare with `authorizerd.audit.sample.allowed`.",
        condition=_AUDIT,
        read=_of_audit(lambda audit: audit.sampled),
    ),
    MetricFamily(
        name="authorizerd_purgatory_size",
        labels=("operation",),
        unit="requests",
        help="Creation and deletion requests that wait for their items to finish.",
        advice="If it grows, the disk or a worker does not keep up with changes.",
        read=_count_delayed,
    ),
    MetricFamily(
        name="authorizerd_delayed_operations",
        labels=("operation",),
        unit="requests",
        help="Creation and deletion requests that wait for their items to finish.",
        advice="KIP-504 has both metrics, and they are always equal here.",
        read=_count_delayed,
    ),
    MetricFamily(
        name="authorizerd_updates_waiting",
        unit="requests",
        help="Requests that the update queue has accepted but not answered.",
        advice="At `queued.max.requests`, the daemon refuses further changes.",
        read=lambda scrape: scrape.updates.requests_waiting,
    ),
    MetricFamily(
        name="authorizerd_updates_timed_out_total",
        unit="requests",
        help=(
            "Creation and deletion requests answered after authorizerd.update.timeout.ms, before "
            "their items finished."
        ),
        advice="The changes may still be applied: list the ACLs before you repeat them.",
        read=lambda scrape: scrape.daemon.purgatory.requests_timed_out,
    ),
    MetricFamily(
        name="authorizerd_log_flushes_total",
        unit="appends",
        help="Appends to the log; each one includes one sync.",
        advice="If it stops while updates wait, the disk hangs.",
        read=lambda scrape: scrape.updates.flushes,
    ),
    MetricFamily(
        name="authorizerd_log_batches_total",
        unit="batches",
        help="Batches written to the log; each change request is one batch.",
        advice="Divide by `authorizerd_log_flushes_total` to get the batches per sync.",
        read=lambda scrape: scrape.updates.batches_written,
    ),
    MetricFamily(
        name="authorizerd_checkpoints_total",
        unit="checkpoints",
        help="Checkpoints written.",
        advice=(
            "If it stops for days despite changes, the log grows and the daemon takes longer to "
            "start."
        ),
        read=lambda scrape: scrape.daemon.origin.checkpoints.written,
    ),
    MetricFamily(
        name="authorizerd_checkpoint_failures_total",
        unit="checkpoints",
        help="Failed attempts to write a checkpoint; the daemon retries.",
        advice="The daemon's log names the error; usually the disk is full.",
        read=lambda scrape: scrape.daemon.origin.checkpoints.failures,
    ),
    MetricFamily(
        name="authorizerd_request_local_seconds",
        is_histogram=True,
        labels=("request",),
        unit="seconds",
        help="Kafka requests: processing time in the daemon, in seconds (Kafka's LocalTimeMs).",
        advice=(
            "If it is high, there is too much load, or requests concern very many ACLs. As in "
            "Kafka, a forwarded request counts under its own API."
        ),
        read=lambda scrape: scrape.daemon.times.local,
    ),
    MetricFamily(
        name="authorizerd_request_remote_seconds",
        is_histogram=True,
        labels=("request",),
        unit="seconds",
        help="Kafka requests: waiting time in purgatory, in seconds (Kafka's RemoteTimeMs).",
        advice="If it is high, the disk syncs slowly, or a worker lags.",
        read=lambda scrape: scrape.daemon.times.remote,
    ),
)
