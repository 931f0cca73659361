"""The contact of a source with its cluster, for readiness and metrics."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.config.follow.settings import SourceKind

REASONS_MAX: Final = 100
"""Maximum number of reasons in ``SourceStatus.errors``: servers may send any error code."""

OTHER_REASON: Final = "other"


@dataclass(slots=True)
class SourceStatus:
    """Written by the source, read by readiness and metrics.

    Attributes:
        cluster_id: the id of the followed cluster, empty until it is known.
        high_watermark: the last offset that the cluster has committed, as far as known; -1 before
            the first answer. Inclusive, unlike Kafka's.
        read_offset: the last offset that was passed on to the applier, -1 before the first.
        contact_time: the clock's time of the last answer that confirmed the state; None before it.
        lag_since: trio's time since which committed records have been missing here; None if none
            are missing.
        leader_id: the id of the node in use: the leader, or the pinned broker.
        errors: failed exchanges by reason: an error code's name, a ``Cause``'s, or ``connection``,
            ``garbage`` or ``snapshot``; or ``other``, once there are ``REASONS_MAX``.
        last_error: why the last exchange failed, empty after one that confirmed the state.
        fault: why decisions have stopped until an operator acts, empty if nothing is wrong.
        fault_offset: the log offset at which ``fault`` was found, or -1.
        copy_fault: why the local copy cannot be written, empty if it can.
        deadline: the clock's time at which decisions stop unless there is new contact.
        stale_max_s: how long decisions continue after a contact, in seconds.
        clock: measures ``contact_time`` and ``deadline``.
    """

    kind: SourceKind
    cluster_id: str = ""
    high_watermark: int = -1
    read_offset: int = -1
    contact_time: float | None = None
    lag_since: float | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    errors: Counter[str] = field(default_factory=lambda: Counter({"connection": 0}))
    last_error: str = ""
    fault: str = ""
    fault_offset: int = -1
    copy_fault: str = ""
    deadline: float = math.inf
    stale_max_s: float = math.inf
    clock: Clock = boot_time

    @property
    def is_stale(self) -> bool:
        """True while decisions have stopped because contact was lost for too long."""
        return self.clock() >= self.deadline

    @property
    def contact_age(self) -> float | None:
        """The seconds since the last contact, None before it."""
        return None if self.contact_time is None else self.clock() - self.contact_time

    def fail(self, reason: str, offset: int = -1) -> None:
        """Record why decisions stop; later reasons are ignored."""
        if not self.fault:
            self.fault, self.fault_offset = reason, offset

    def count_error(self, reason: str) -> None:
        """Count a failed exchange in ``errors``."""
        is_kept = reason in self.errors or len(self.errors) < REASONS_MAX
        self.errors[reason if is_kept else OTHER_REASON] += 1
