"""The newest state, and whether decisions may use it.

**Invariant:** the snapshot and the image of one offset are published together: a task that reads
both without awaiting in between sees one state of the log. Each snapshot uses the rules of the
Kafka releases that its image proves. No snapshot is available for decisions while nothing is
loaded, the state is too old, decisions are suspended, or a release is untested.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import trio

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE, ReleaseInForce
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.boot_clock import Clock
from authorizerd.actors.published import Expiring, Published, View
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage

NOT_LOADED: Final = "the ACLs are not loaded yet"
STALE: Final = "the ACLs are stale: contact with the followed cluster is lost"
UNCONFIRMED: Final = "the followed cluster has not confirmed the ACLs since the start"
STOPPED: Final = "decisions have stopped until an operator acts: /readyz names the reason"
UNTESTED: Final = "decisions have stopped: the cluster runs a Kafka release that was not tested"

_logger = logging.getLogger(__name__)


class PublishedState:
    """The state that the applier publishes and others read.

    Args:
        journal: is notified when decisions stop, and when they resume.
        judge: returns the releases whose rules judge the ACLs of an image.
        stops_if_newer: True to publish no snapshot while a release is newer than those tested.
        deadline: how long the state may be used before it is renewed. why_expired: the text for
            callers once the deadline has passed.
    """

    def __init__(
        self,
        journal: AclJournal,
        *,
        judge: Callable[[ClusterImage], ReleaseInForce],
        stops_if_newer: bool,
        deadline: float,
        why_expired: str,
        clock: Clock,
    ) -> None:
        self.journal: Final = journal
        self._judge = judge
        self._stops_if_newer = stops_if_newer
        self._is_loaded = False
        self._suspended = self._untested = ""
        self._why_expired = why_expired
        self._snapshot: Expiring[AclSnapshot] = Expiring(deadline=deadline, clock=clock)
        self._applied: Published[AclSnapshot | None] = Published(None)
        self._cluster: Published[ClusterImage] = Published(EMPTY_IMAGE)
        self._release: Published[ReleaseInForce] = Published(UNKNOWN_RELEASE)

    @property
    def snapshot(self) -> View[AclSnapshot | None]:
        """The snapshot to decide by.

        It is None until it is loaded, while decisions are stopped, and once it is too old.
        """
        return self._snapshot

    @property
    def not_ready_reason(self) -> str:
        """The text for callers while no snapshot is available for decisions. Invalid otherwise."""
        if self._why_stopped:
            return self._why_stopped
        if not self._is_loaded:
            return NOT_LOADED
        return UNCONFIRMED if self._snapshot.deadline == -math.inf else self._why_expired

    @property
    def has_stopped_for_newer(self) -> bool:
        """True if there is no snapshot because a release is newer than those tested."""
        return bool(self._untested)

    @property
    def release(self) -> View[ReleaseInForce]:
        """The releases whose rules judge the newest state, and why."""
        return self._release

    @property
    def applied(self) -> View[AclSnapshot | None]:
        """The newest state, also while decisions are stopped; None until it is loaded."""
        return self._applied

    @property
    def cluster(self) -> View[ClusterImage]:
        """The newest cluster image, empty until it is loaded."""
        return self._cluster

    async def _notice_expiry(self) -> None:
        """Tell watchers and the log when the state becomes too old. Decisions check the deadline
        anyway.

        This may be late: trio's clock does not count the time of a suspended machine.
        """
        snapshot = self._snapshot
        while True:
            await snapshot.wait_until(lambda newest: newest is not None and snapshot.expires)
            while not snapshot.has_passed(snapshot.deadline):  # noqa: ASYNC110 - it may be moved
                await trio.sleep(snapshot.seconds_left)
            snapshot.publish_until(None, snapshot.deadline)  # wakes those who wait for this
            if not self._why_stopped:
                _logger.error("decisions stop: %s", self._why_expired)
                self.journal.stop(self._why_expired)

    def _publish(self, snapshot: AclSnapshot, cluster: ClusterImage) -> AclSnapshot:
        """Publish both, and return the published snapshot, which has the rules in force.

        The image comes first, since other tasks wait for the snapshot's offset.
        """
        before = self._cluster.newest
        if cluster is not before:
            self._cluster.publish(cluster)
        if not self._is_loaded or _evidence(cluster) != _evidence(before):
            self._judge_release(cluster)
        snapshot = with_rules(snapshot, self._release.newest.rules)
        if not self._why_stopped:
            self._snapshot.publish_until(snapshot, self._snapshot.deadline)
        self._applied.publish(snapshot)
        return snapshot

    def _judge_release(self, cluster: ClusterImage) -> None:
        release = self._judge(cluster)
        if release != self._release.newest:
            self._release.publish(release)
        untested = UNTESTED if release.newer and self._stops_if_newer else ""
        if untested != self._untested:
            self._untested = untested
            if self._is_loaded:
                self._withhold_or_show(self._snapshot.deadline)

    def _suspend(self, reason: str) -> None:
        self._suspended = reason
        self._withhold_or_show(self._snapshot.deadline)

    def _renew(self, deadline: float) -> None:
        had_expired = self.journal.stop_reason == self._why_expired
        self._withhold_or_show(deadline)
        if had_expired and not self.journal.stop_reason:
            _logger.warning("decisions resume: the ACLs are confirmed again")

    @property
    def _why_stopped(self) -> str:
        """Why no snapshot may be published, empty if there is no reason."""
        return self._suspended or self._untested

    @property
    def _why_withheld(self) -> str:
        """Why no decision uses the newest state; empty if decisions use it."""
        return "" if self._snapshot.newest is not None else self.not_ready_reason

    def _withhold_or_show(self, deadline: float) -> None:
        """Publish the newest snapshot, or none while there is a reason not to."""
        self._snapshot.publish_until(None if self._why_stopped else self._applied.newest, deadline)
        reason = self._why_withheld
        if reason and reason != self.journal.stop_reason:
            self.journal.stop(reason)
        elif not reason and self.journal.stop_reason:
            self.journal.resume()


def _evidence(cluster: ClusterImage) -> tuple[int, int, int]:
    """Return a check whether an image proves the same releases as another, living image."""
    return id(cluster.features), id(cluster.nodes), id(cluster.voters)
