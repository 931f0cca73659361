"""The metrics of ``authorizerd sync``. They start at 0 with the process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from authorizerd.daemon.telemetry.family import Family

REASONS: Final = (
    "away", "partial", "empty", "invalid", "removals", "tests", "traffic", "other",
)  # fmt: skip
"""Why a round makes no change, although one may be needed."""
NEVER: Final = -1.0


@dataclass(slots=True)
class Status:
    """What the process has done, and what its last round found. Times are seconds since 1970.

    Attributes:
        reasons: why the last round made no change, by the names in ``REASONS``.
        directory_s: when the members were last read as a whole; None without groups.
        success_s: when the ACLs were last as desired.
    """

    reasons: Mapping[str, str] = field(default_factory=dict)
    directory_s: float | None = None
    success_s: float = NEVER
    change_s: float = NEVER
    round_seconds: float = 0.0
    rounds: int = 0
    races: int = 0
    created: int = 0
    deleted: int = 0
    groups: int = 0
    members: int = 0
    group_acls: int = 0


_family = partial(Family[Status], condition="of `authorizerd sync`")

SYNC_METRICS: Final = (
    _family(
        name="authorizerd_sync_blocked",
        labels=("reason",),
        unit="0 or 1",
        help="Whether the last round made no change for this reason, although one may be needed.",
        advice="For each reason, docs/governance.md says what to do.",
        read=lambda status: {(each,): float(each in status.reasons) for each in REASONS},
    ),
    _family(
        name="authorizerd_sync_last_success_timestamp_seconds",
        unit="seconds since 1970",
        help="When the ACLs were last as the files and groups say, -1 before the first time.",
        advice="It moves with each round. If it stands still, changes of members have no effect.",
        read=lambda status: status.success_s,
    ),
    _family(
        name="authorizerd_sync_last_change_timestamp_seconds",
        unit="seconds since 1970",
        help="When ACLs were last changed, -1 before the first change.",
        advice="The log has a line of JSON about each change.",
        read=lambda status: status.change_s,
    ),
    _family(
        name="authorizerd_sync_directory_age_seconds",
        unit="seconds",
        help="Time since the members of all groups were last read.",
        advice="Above a few intervals, the directory is away, and members are as they were then.",
        read=lambda status: (
            None if status.directory_s is None else max(0.0, time.time() - status.directory_s)
        ),
    ),
    _family(
        name="authorizerd_sync_round_seconds",
        unit="seconds",
        help="Duration of the last round.",
        advice="A change of members takes the interval, and this time, to become a change of ACLs.",
        read=lambda status: status.round_seconds,
    ),
    _family(
        name="authorizerd_sync_rounds_total",
        unit="rounds",
        help="Rounds, with those that found nothing new.",
        advice="If it stands still, a server or the directory does not answer.",
        read=lambda status: status.rounds,
    ),
    _family(
        name="authorizerd_sync_races_total",
        unit="rounds",
        help="Rounds that were given up because someone else changed ACLs meanwhile.",
        advice="If it keeps growing, others change ACLs all the time: lengthen their pauses.",
        read=lambda status: status.races,
    ),
    _family(
        name="authorizerd_sync_acls_created_total",
        unit="ACLs",
        help="ACLs that were created.",
        advice="Compare with the changes of members.",
        read=lambda status: status.created,
    ),
    _family(
        name="authorizerd_sync_acls_deleted_total",
        unit="ACLs",
        help="ACLs that were deleted.",
        advice="Compare with the changes of members.",
        read=lambda status: status.deleted,
    ),
    _family(
        name="authorizerd_sync_groups",
        unit="groups",
        help="Groups that the desired files name.",
        advice="0 if there are none, or before the first round.",
        read=lambda status: status.groups,
    ),
    _family(
        name="authorizerd_sync_members",
        unit="principals",
        help="Distinct members of these groups.",
        advice="A sudden change shows that the directory, or a filter, has changed.",
        read=lambda status: status.members,
    ),
    _family(
        name="authorizerd_sync_group_acls",
        unit="ACLs",
        help="ACLs that groups have made.",
        advice="It grows with groups times members: below a million, the plan is made.",
        read=lambda status: status.group_acls,
    ),
)
