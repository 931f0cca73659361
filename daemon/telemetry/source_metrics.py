"""Metrics of a daemon that follows a cluster: its contact, its lag, and its local copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from authorizerd.actors.updates import UpdateStatistics
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.sources.writes.delivery import ForwardStatistics

_RESULTS: Final = ("answered", "denied", "rejected", "not_sent", "unread", "unknown")


def change_metrics(statistics: UpdateStatistics) -> Iterable[Metric]:
    """Yield the counter of the changes that were sent to the cluster, by result."""
    if isinstance(statistics, ForwardStatistics):
        changes = CounterMetricFamily(
            "authorizerd_source_changes",
            "Requests to change ACLs that the daemon has sent to the cluster, by result.",
            labels=["result"],
        )
        for result in _RESULTS:
            changes.add_metric([result], statistics.results[result])
        yield changes


def source_metrics(status: SourceStatus, applied_offset: int) -> Iterable[Metric]:
    """Yield the metrics of the source.

    Args:
        applied_offset: the log offset of the newest state, -1 before the first.
    """
    now = trio.current_time()
    for name, help_text, value in (
        (
            "authorizerd_source_contact_age_seconds",
            "Time since the cluster last confirmed the ACLs, -1 before the first contact.",
            -1 if status.contact_age is None else status.contact_age,
        ),
        (
            "authorizerd_source_stale_max_seconds",
            "Time for which decisions go on without contact (authorizerd.source.stale.max.ms).",
            status.stale_max_s,
        ),
        (
            "authorizerd_source_lag_offsets",
            "Committed log offsets of the cluster that are not applied yet, as far as known.",
            max(0, status.high_watermark - applied_offset) if status.high_watermark >= 0 else 0,
        ),
        (
            "authorizerd_source_lag_seconds",
            "Time for which committed changes of the cluster have not been applied.",
            0 if status.lag_since is None else now - status.lag_since,
        ),
        (
            "authorizerd_source_leader_id",
            "Node that the daemon reads from: the quorum's leader, or the pinned broker; or -1.",
            status.leader_id,
        ),
        (
            "authorizerd_source_leader_epoch",
            "Leader epoch of the quorum, -1 if it is not known.",
            status.leader_epoch,
        ),
        (
            "authorizerd_source_stale",
            "1 while decisions have stopped because contact with the cluster was lost.",
            int(status.is_stale),
        ),
        (
            "authorizerd_source_fault",
            "1 once decisions have stopped until an operator acts.",
            int(bool(status.fault)),
        ),
        (
            "authorizerd_source_fault_offset",
            "Log offset at which the fault was found, -1 without a fault or an offset.",
            status.fault_offset,
        ),
        (
            "authorizerd_source_copy_failing",
            "1 while the local copy of the cluster's metadata cannot be written.",
            int(bool(status.copy_fault)),
        ),
    ):
        yield GaugeMetricFamily(name, help_text, value)
    errors = CounterMetricFamily(
        "authorizerd_source_errors",
        "Failed exchanges with the cluster, by error code or reason.",
        labels=["reason"],
    )
    for reason, count in status.errors.items():
        errors.add_metric([reason], count)
    yield errors
