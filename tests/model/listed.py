"""What may be visible of a cluster whose ACLs are listed by brokers.

Listings have no offsets, so the daemon numbers its states itself. The simulated brokers note which
state of the cluster each of their listings shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from tests.model.cluster import Cluster
from tests.model.following import FollowedInvariants, Follower
from tests.model.invariants import check
from tests.model.reference import Request, State
from tests.model.story import Create

if TYPE_CHECKING:
    from collections.abc import Iterable


class ListedInvariants(FollowedInvariants):
    """Each state is that of one listing as a whole, and never of an older one than before.

    ``_states`` has the states by the offsets of the daemon.
    """

    def _start_life(self) -> None:
        super()._start_life()
        self._applied: AclSnapshot | None = None
        self._contact: float | None = None
        self._position = -1
        """The cluster's offset of the listing in force."""

    def follow(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._states = {}
        self._first = len(cluster.listed)
        """The number of the first listing that may be accepted next."""

    def newest_offset(self, offset: int) -> int:
        acls = self._state_at(offset).acls
        same = [end for end, state in self._cluster.states.items() if state.acls == acls]
        return max(same, default=-1)

    def see(self, process: Follower) -> None:
        newest = process.applier.applied.newest
        if newest is not None and newest is not self._applied:
            self._applied = newest
            self.check_copy(newest)
        status = process.parts.origin.source.status
        contact = None if status is None else status.contact_time
        if contact != self._contact:
            self._contact = contact
            self._confirm()
        super().see(process)

    def check_copy(self, snapshot: AclSnapshot) -> None:
        """Check a state of the daemon, or of a worker, which may be the first that has it."""
        if snapshot.offset not in self._states:
            acls = frozenset(snapshot.acls.values())
            # The first state may be that of the copy.
            listed = self._cluster.listed[self._first :] if self._states else self._cluster.states
            found = self._find(acls, listed)
            check(found is not None, "an older listing, or a part of one, is in force")
            assert found is not None
            self._position = found
            self._states[snapshot.offset] = State(acls)
            self.counts["listings applied"] += 1
        super().check_copy(snapshot)

    def _confirm(self) -> None:
        """Check that a listing has confirmed the state in force, which may be equal to it."""
        check(self._applied is not None, "contact is confirmed before there are ACLs")
        assert self._applied is not None
        acls = self._states[self._applied.offset].acls
        found = self._find(acls, self._cluster.listed[self._first :])
        # Without DescribeQuorum, an equal listing may be older.
        check(found is not None or self._cluster.hides_quorum, "an older listing is a contact")
        self._position = self._position if found is None else found
        self._first = len(self._cluster.listed)
        self.counts["listings confirmed"] += 1

    def _find(self, acls: frozenset[Acl], offsets: Iterable[int]) -> int | None:
        """Return the lowest of ``offsets`` with these ACLs that is not older than the position."""
        states = self._cluster.states
        return min(
            (each for each in offsets if each >= self._position and states[each].acls == acls),
            default=None,
        )

    def check_change(self, request: Request, before: int, after: int) -> None:
        check(after in self._states, "an update is acknowledged before it is applied")
        acls = self._states[after].acls
        since = self._states_between(before, self._cluster.end_offset)
        # States that the one in force may be, or that are older: another client has changed them.
        seen = self._states_between(before, self.newest_offset(after)).values()
        if isinstance(request.step, Create):
            for acl in request.step.acls:
                has_it = acl in acls or any(acl in each for each in seen)
                check(has_it, f"a creation is lost: {acl}")
                if acl in acls:
                    self._promised = max(self._promised, self._shows_since(acl, after))
            return
        for removed in request.expected:
            assert isinstance(removed, set)
            for acl in removed:
                was_there = any(acl in each for each in since.values())
                check(was_there, f"an ACL is removed that never was: {acl}")
                is_gone = acl not in acls or any(acl not in each for each in seen)
                check(is_gone, f"a deletion is lost: {acl}")

    def _shows_since(self, acl: Acl, last: int) -> int:
        """Return the first offset from which on all states up to ``last`` have an ACL."""
        first = last
        for offset in sorted((each for each in self._states if each <= last), reverse=True):
            if acl not in self._states[offset].acls:
                break
            first = offset
        return first
