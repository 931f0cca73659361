"""The entries of the catalogue about following a cluster."""

from __future__ import annotations

from functools import partial
from typing import Final

from ops.prometheus.entry import MetricEntry

_entry = partial(MetricEntry, kind="gauge", condition="with `authorizerd.source` other than `log`")

SOURCE_ENTRIES: Final = (
    _entry(
        name="authorizerd_source_contact_age_seconds",
        unit="seconds",
        help="Time since the cluster last confirmed the ACLs, -1 before the first contact.",
        advice="Above `authorizerd.source.stale.max.ms`, decisions stop. The log names the reason.",
    ),
    _entry(
        name="authorizerd_source_stale_max_seconds",
        unit="seconds",
        help="Time for which decisions go on without contact (authorizerd.source.stale.max.ms).",
        advice="Compare with `authorizerd_source_contact_age_seconds`.",
    ),
    _entry(
        name="authorizerd_source_lag_offsets",
        unit="log offsets",
        help="Committed log offsets of the cluster that are not applied yet, as far as known.",
        advice="If it keeps growing, the daemon lacks CPU time.",
    ),
    _entry(
        name="authorizerd_source_lag_seconds",
        unit="seconds",
        help="Time for which committed changes of the cluster have not been applied.",
        advice="Values above a second mean that decisions use old ACLs.",
    ),
    _entry(
        name="authorizerd_source_leader_id",
        unit="node id",
        help="Node that the daemon reads from: the quorum's leader, or the pinned broker; or -1.",
        advice="Frequent changes mean that the cluster's network or nodes are unstable.",
    ),
    _entry(
        name="authorizerd_source_leader_epoch",
        unit="epoch",
        help="Leader epoch of the quorum, -1 if it is not known.",
        advice="It rises with each election. Source `brokers` does not know it.",
    ),
    _entry(
        name="authorizerd_source_stale",
        unit="1 or 0",
        help="1 while decisions have stopped because contact with the cluster was lost.",
        advice="Restore the network, the credentials, or the cluster.",
    ),
    _entry(
        name="authorizerd_source_fault",
        unit="1 or 0",
        help="1 once decisions have stopped until an operator acts.",
        advice="Read `/readyz` or the log, and follow docs/following.md.",
    ),
    _entry(
        name="authorizerd_source_fault_offset",
        unit="log offset",
        help="Log offset at which the fault was found, -1 without a fault or an offset.",
        advice="Look at the records around it with kafka-dump-log.",
    ),
    _entry(
        name="authorizerd_source_copy_failing",
        unit="1 or 0",
        help="1 while the local copy of the cluster's metadata cannot be written.",
        advice="Decisions are not affected, but a restart takes longer. Check the disk.",
    ),
    _entry(
        name="authorizerd_source_errors_total",
        kind="counter",
        labels=("reason",),
        unit="exchanges",
        help="Failed exchanges with the cluster, by error code or reason.",
        advice="A few are normal when the leader changes. The log has the details.",
    ),
    _entry(
        name="authorizerd_source_changes_total",
        kind="counter",
        labels=("result",),
        unit="requests",
        help="Requests to change ACLs that the daemon has sent to the cluster, by result.",
        advice="Check the log for results other than `answered`; `unknown` ones may still apply.",
        condition="with `authorizerd.writes` other than `refuse`",
    ),
)
