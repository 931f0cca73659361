"""The metrics of ``authorizerd sync``. They start at 0 with the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from authorizerd.daemon.telemetry.family import Family, Values

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
    races: int = 0
    created: int = 0
    deleted: int = 0
    members: int = 0
    group_acls: int = 0

    @property
    def problem(self) -> str:
        """Why the ACLs may not be as desired; an empty text if they are."""
        if self.reasons:
            return f"the last round made no change: {', '.join(self.reasons)}"
        return "the ACLs were never as desired" if self.success_s == NEVER else ""


def _metric(
    name: str, unit: str, help: str, advice: str, read: Callable[[Status], Values | None]
) -> Family[Status]:
    labels = ("reason",) if name == "blocked" else ()
    return Family(
        name=f"authorizerd_sync_{name}", labels=labels, unit=unit, help=help, advice=advice,
        condition="of `authorizerd sync`", read=read,
    )  # fmt: skip


def _age_s(time_s: float | None) -> float | None:
    return None if time_s is None else max(0.0, time.time() - time_s)


_TIME: Final = "seconds since 1970"
_COMPARE: Final = "Compare with the changes of members."
SYNC_METRICS: Final = (
    _metric("blocked", "1 or 0",
            "1 if the last round made no change for this reason, although one may be needed.",
            "For each reason, `authorizerd docs governance` says what to do.",
            lambda status: {(each,): float(each in status.reasons) for each in REASONS}),
    _metric("last_success_timestamp_seconds", _TIME,
            "When the ACLs were last as the files and groups say, -1 before the first time.",
            "It moves with each round. If it stands still, changes of members have no effect.",
            lambda status: status.success_s),
    _metric("last_change_timestamp_seconds", _TIME,
            "When ACLs were last changed, -1 before the first change.",
            "The log has a line of JSON about each change.",
            lambda status: status.change_s),
    _metric("directory_age_seconds", "seconds",
            "Time since the members of all groups were last read.",
            "Above a few intervals, the directory is away, and members are as they were then.",
            lambda status: _age_s(status.directory_s)),
    _metric("round_seconds", "seconds", "Duration of the last round.",
            "A change of members waits for the interval, and for this time.",
            lambda status: status.round_seconds),
    _metric("races_total", "rounds",
            "Rounds that were given up because someone else changed ACLs meanwhile.",
            "If it keeps growing, others change ACLs all the time: lengthen their pauses.",
            lambda status: status.races),
    _metric("acls_created_total", "ACLs", "ACLs that were created.", _COMPARE,
            lambda status: status.created),
    _metric("acls_deleted_total", "ACLs", "ACLs that were deleted.", _COMPARE,
            lambda status: status.deleted),
    _metric("members", "principals", "Distinct members of the groups that desired files name.",
            "A sudden change shows that the directory, or a filter, has changed.",
            lambda status: status.members),
    _metric("group_acls", "ACLs", "ACLs that groups have made.",
            "All groups together may make 250,000.",
            lambda status: status.group_acls),
)  # fmt: skip
