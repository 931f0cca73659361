"""Metrics of the grants that begin and end: how many there are, and whether anybody ends them."""

from __future__ import annotations

from typing import Final

from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.daemon.telemetry.family import Family, MetricFamily

GRANT_METRICS: Final = (
    Family[GrantKeeper](
        name="authorizerd_grants",
        labels=("state",),
        unit="grants",
        help="Grants with an end, by state: active, or waiting for their begin.",
        advice="`authorizerd acls grants` lists them.",
        read=lambda keeper: {"active": keeper.count().active, "waiting": keeper.count().waiting},
    ),
    Family[GrantKeeper](
        name="authorizerd_grants_overdue",
        unit="grants",
        help="Grants whose end, or begin, has passed, and that nobody has ended, or begun, yet.",
        advice="More than 0 for more than a minute means that nobody ends grants.",
        read=lambda keeper: keeper.count().overdue,
    ),
    Family[GrantKeeper](
        name="authorizerd_grants_overdue_seconds",
        unit="seconds",
        help="Time for which the first overdue grant has been overdue, else 0.",
        advice="Start a daemon with `authorizerd.grants.enforce`, or `authorizerd sync`.",
        read=lambda keeper: keeper.count().overdue_ms / 1000,
    ),
    Family[GrantKeeper](
        name="authorizerd_grant_notes_unreadable",
        unit="notes",
        help="Notes that this version cannot read. Nothing ends their grants.",
        advice="The log names them. Upgrade the daemon; delete notes that nobody needs.",
        read=lambda keeper: keeper.count().unreadable,
    ),
    Family[GrantKeeper](
        name="authorizerd_grants_enforced",
        unit="1 or 0",
        help="1 if this daemon begins and ends grants, 0 if it only counts them.",
        advice="At least one daemon or `authorizerd sync` of a cluster must do so.",
        read=lambda keeper: keeper.enforces,
    ),
    Family[GrantKeeper](
        name="authorizerd_grants_clock_believed",
        unit="1 or 0",
        help="1 if the last reading of the controller's clock could be used, or none was needed.",
        advice="If it stays 0, grants neither begin nor end here. The log has the reason.",
        read=lambda keeper: keeper.is_clock_believed,
    ),
    Family[GrantKeeper](
        name="authorizerd_grant_changes_total",
        labels=("result",),
        unit="grants",
        help="Grants that this daemon has begun and ended, and attempts that failed.",
        advice="The log names each grant, and the reason of each failure.",
        read=lambda keeper: {
            "begun": keeper.statistics.begun,
            "ended": keeper.statistics.ended,
            "failed": keeper.statistics.failures,
        },
    ),
)


def of_origin(metric: Family[GrantKeeper]) -> MetricFamily:
    """Return the metric as a daemon exports it, of the grants that its origin keeps."""
    return MetricFamily(
        **{**vars(metric), "read": lambda scrape: metric.read(scrape.daemon.origin.grants)}
    )
