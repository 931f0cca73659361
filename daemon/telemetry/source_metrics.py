"""Metrics of a daemon that follows a cluster: its contact, its lag, and its local copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import trio

from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.sources.writes.delivery import ForwardStatistics
from authorizerd.daemon.telemetry.family import MetricFamily, Values
from authorizerd.daemon.telemetry.metric_sources import Scrape

_family = partial(MetricFamily, condition="with `authorizerd.source` other than `log`")
_RESULTS: Final = ("answered", "denied", "rejected", "not_sent", "unread", "unknown")


def _of_status(read: Callable[[SourceStatus], Values]) -> Callable[[Scrape], Values | None]:
    def read_status(scrape: Scrape) -> Values | None:
        status = scrape.source.status
        return None if status is None else read(status)

    return read_status


def _count_lag(scrape: Scrape) -> float | None:
    status, applied = scrape.source.status, scrape.daemon.applier.applied.newest
    if status is None:
        return None
    applied_offset = -1 if applied is None else applied.offset
    return max(0, status.high_watermark - applied_offset) if status.high_watermark >= 0 else 0


def _count_changes(scrape: Scrape) -> Mapping[str, float] | None:
    updates = scrape.updates
    if scrape.source.status is None or not isinstance(updates, ForwardStatistics):
        return None
    return {result: updates.results[result] for result in _RESULTS}


SOURCE_METRICS: Final = (
    _family(
        name="authorizerd_source_contact_age_seconds",
        unit="seconds",
        help="Time since the cluster last confirmed the ACLs, -1 before the first contact.",
        advice="Above `authorizerd.source.stale.max.ms`, decisions stop. The log names the reason.",
        read=_of_status(lambda status: -1 if status.contact_age is None else status.contact_age),
    ),
    _family(
        name="authorizerd_source_stale_max_seconds",
        unit="seconds",
        help="Time for which decisions continue without contact (authorizerd.source.stale.max.ms).",
        advice="Compare with `authorizerd_source_contact_age_seconds`.",
        read=_of_status(lambda status: status.stale_max_s),
    ),
    _family(
        name="authorizerd_source_lag_offsets",
        unit="log offsets",
        help="Committed log offsets of the cluster that are not applied yet, as far as known.",
        advice="If it keeps growing, the daemon lacks CPU time.",
        read=_count_lag,
    ),
    _family(
        name="authorizerd_source_lag_seconds",
        unit="seconds",
        help="Time for which committed changes of the cluster have not been applied.",
        advice="Values above a second mean that decisions use old ACLs.",
        read=_of_status(
            lambda status: 0 if status.lag_since is None else trio.current_time() - status.lag_since
        ),
    ),
    _family(
        name="authorizerd_source_leader_id",
        unit="node id",
        help="Node that the daemon reads from: the quorum's leader, or the pinned broker; or -1.",
        advice="Frequent changes mean that the cluster's network or nodes are unstable.",
        read=_of_status(lambda status: status.leader_id),
    ),
    _family(
        name="authorizerd_source_leader_epoch",
        unit="epoch",
        help="Leader epoch of the quorum, -1 if it is not known.",
        advice="It rises with each election. Source `brokers` does not know it.",
        read=_of_status(lambda status: status.leader_epoch),
    ),
    _family(
        name="authorizerd_source_stale",
        unit="1 or 0",
        help="1 while decisions have stopped because contact with the cluster was lost.",
        advice="Restore the network, the credentials, or the cluster.",
        read=_of_status(lambda status: status.is_stale),
    ),
    _family(
        name="authorizerd_source_fault",
        unit="1 or 0",
        help="1 once decisions have stopped until an operator acts.",
        advice="Read `/readyz` or the log, and follow `authorizerd docs following`.",
        read=_of_status(lambda status: bool(status.fault)),
    ),
    _family(
        name="authorizerd_source_fault_offset",
        unit="log offset",
        help="Log offset at which the fault was found, -1 without a fault or an offset.",
        advice="Look at the records around it with kafka-dump-log.",
        read=_of_status(lambda status: status.fault_offset),
    ),
    _family(
        name="authorizerd_source_copy_failing",
        unit="1 or 0",
        help="1 while the local copy of the cluster's metadata cannot be written.",
        advice="Decisions are not affected, but a restart takes longer. Check the disk.",
        read=_of_status(lambda status: bool(status.copy_fault)),
    ),
    _family(
        name="authorizerd_source_errors_total",
        labels=("reason",),
        unit="exchanges",
        help="Failed exchanges with the cluster, by error code or reason.",
        advice="A few are normal when the leader changes. The log has the details.",
        read=_of_status(lambda status: dict(status.errors)),
    ),
    _family(
        name="authorizerd_source_changes_total",
        labels=("result",),
        unit="requests",
        help="Requests to change ACLs that the daemon has sent to the cluster, by result.",
        advice="Check the log for results other than `answered`; `unknown` ones may still apply.",
        condition="with `authorizerd.writes` other than `refuse`",
        read=_count_changes,
    ),
)
