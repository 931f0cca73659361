"""One life of a daemon that follows a cluster: the real origin, over a network with faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import trio

from authorizerd.acl.model import Acl, Operation
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.origins import followed_cluster
from authorizerd.daemon.sources.brokers.acknowledged import KEPT_SECONDS
from authorizerd.daemon.sources.brokers.source import BrokersSource
from authorizerd.daemon.sources.copy_directory import claim_copy_directory, prepare_copy_directory
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.quorum.source import QuorumSource
from authorizerd.metadata.log_copy import LogCopy
from tests.faults.disk import FaultDisk
from tests.model.cluster import LEADS_ALONE_S, Cluster
from tests.model.invariants import Invariants, check
from tests.model.machine import LOG_DIR, Replacement
from tests.model.network import Network
from tests.model.process import Process
from tests.model.reference import Request, State, may
from tests.model.simulated_daemon import GATED
from tests.model.story import PEER, Create, Life

CONVERGES_S_MAX: Final = KEPT_SECONDS + 30.0
"""Time until a daemon has everything, once all faults have ended.

Without DescribeQuorum, a new broker's listings wait so long for an acknowledged change that another
client has undone.
"""
SLACK_S: Final = 5.0 + max(LEADS_ALONE_S)
"""Time that an answer of the cluster may have been under way when it confirmed the state, and for
which an isolated leader confirms it.
"""
AclSets: TypeAlias = Sequence[frozenset[Acl]]
POLLS: Final = 3
"""The age of a listing that confirms the state, in pauses between listings."""


class FollowedInvariants(Invariants):
    """What may be visible of a cluster: each state that it has committed, in order."""

    def _start_life(self) -> None:
        super()._start_life()
        self._promised = -1

    @property
    def promised_offset(self) -> int:
        return self._promised

    def follow(self, cluster: Cluster) -> None:
        """Take the cluster's states as those of the log."""
        self._cluster = cluster
        self._states = cluster.states

    def newest_offset(self, offset: int) -> int:
        """Return the last offset at which the cluster had the state visible at ``offset``."""
        return offset

    def rights(self, principal: str, operation: Operation, first: int, last: int) -> list[bool]:
        """Return for each state between two offsets if it allows this operation on the cluster."""
        states = [state for offset, state in self._states.items() if first <= offset <= last]
        return [may(each.acls, principal, operation) for each in states]

    def see(self, process: Follower) -> None:
        """Check the state that is visible now; called after each step of any task."""
        snapshot = process.applier.snapshot.newest
        if snapshot is None:
            process.unready_at = trio.current_time()
        elif snapshot is not self._snapshot:
            self.counts["snapshots checked"] += 1
            check(snapshot.offset >= self.acknowledged_offset, "the snapshot's offset goes back")
            acls = self._state_at(snapshot.offset).acls
            check(acls == {*snapshot.acls.values()}, "other ACLs are visible than were committed")
            self.acknowledged_offset = snapshot.offset
            self._snapshot = snapshot

    def check_change(self, request: Request, before: int, after: int) -> None:
        """Check an update that the cluster has answered, and that is applied.

        Args:
            before: the last offset that was committed when it was sent.
            after: the offset that is visible when it is answered.
        """
        there, seen = self._changed_between(before, after)
        check(bool(seen), "an update is acknowledged before it is applied")
        if isinstance(request.step, Create):
            for acl in request.step.acls:
                check(any(acl in acls for acls in seen), f"a creation is lost: {acl}")
                self._promised = max(self._promised, self._shows_since(acl, before, after))
            return
        for removed in request.expected:
            assert isinstance(removed, set)
            for acl in removed:
                was_there = any(acl in acls for acls in there)
                check(was_there, f"an ACL is removed that never was: {acl}")
                check(any(acl not in acls for acls in seen), f"a deletion is lost: {acl}")

    def _changed_between(self, before: int, after: int) -> tuple[AclSets, AclSets]:
        """Return the states that an update may have changed, and those that may show it."""
        states = [*self._states_between(before, after).values()]
        return states, states

    def _shows_since(self, acl: Acl, before: int, after: int) -> int:
        """Return the first offset at which an update that has created the ACL may be visible."""
        return next(end for end, acls in self._states_between(before, after).items() if acl in acls)

    def _states_between(self, first: int, last: int) -> dict[int, frozenset[Acl]]:
        """Return the ACLs of the cluster at each offset from ``first`` to ``last``."""
        states = sorted(self._cluster.states.items())
        return {end: state.acls for end, state in states if first <= end <= last}


class ListedInvariants(FollowedInvariants):
    """What may be visible of a cluster whose ACLs are listed by brokers.

    Each state is that of one listing as a whole, and never of an older one than before. Listings
    have no offsets, so the daemon numbers its states itself. The simulated brokers note which state
    of the cluster each of their listings shows.

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

    def _changed_between(self, before: int, after: int) -> tuple[AclSets, AclSets]:
        if after not in self._states:
            return (), ()
        there = self._states_between(before, self._cluster.end_offset).values()
        # States that the one in force may be, or that are older: another client has changed them.
        older = self._states_between(before, self.newest_offset(after)).values()
        return [*there], [self._states[after].acls, *older]

    def _shows_since(self, acl: Acl, before: int, after: int) -> int:
        """Return the first offset from which on all states up to ``after`` have it; -1: none."""
        first = -1
        for offset in sorted((each for each in self._states if each <= after), reverse=True):
            if acl not in self._states[offset].acls:
                break
            first = offset
        return first


class Follower(Process):
    """A process that follows a cluster.

    Attributes:
        unready_at: when no snapshot was visible for the last time.
    """

    invariants: FollowedInvariants

    def __init__(
        self,
        life: Life,
        disk: FaultDisk,
        network: Network,
        invariants: FollowedInvariants,
        clusters: list[Cluster],
        source: SourceKind,
    ) -> None:
        """Follow the only item of ``clusters``; found it if there is none."""
        self.source = source
        super().__init__(life, disk, network, invariants)
        self._forwarded = len(clusters[0].forwarded) if clusters else 0
        self.unready_at = 0.0
        self.cluster: Cluster
        self._clusters = clusters
        self.links = Network(
            Random(life.seed), (0.0, 0.01, 0.1), splits=life.splits, partitions=life.outages
        )
        self._played = trio.Event()

    def _prepare(self) -> None:
        prepare_copy_directory(LOG_DIR, self.machine.disk)
        claim_copy_directory(LOG_DIR, self.source, node_id=1, storage=self.machine.disk)

    def _replacements(self) -> tuple[Replacement, ...]:
        async def connect(address: Any) -> trio.abc.HalfCloseableStream:  # noqa: ANN401
            return await self.cluster.connect(address)

        return (
            *super()._replacements(),
            (followed_cluster, "PRIVATE_DISK", self.machine.disk),
            (followed_cluster, "NodeOpener", partial(NodeOpener, open_tcp=connect)),
            (followed_cluster, "LogCopy", partial(LogCopy, clock=trio.current_time)),
            (
                followed_cluster,
                "QuorumSource",
                partial(QuorumSource, random=self.machine.chance.random),
            ),
            (followed_cluster, "BrokersSource", partial(BrokersSource, random=self.machine.chance)),
            (followed_cluster, "now_ms", self.machine.now_ms),
        )

    # The instrument.

    def _observe(self) -> None:
        self.invariants.see(self)
        if self.workers is not None and self.workers.are_unready:
            self.unready_at = trio.current_time()
        self._check_forwarded()

    def _check_forwarded(self) -> None:
        """Check that only clients that are listed have been forwarded, each by its own address."""
        forwarded = self._clusters[0].forwarded if self._clusters else []
        for each in forwarded[self._forwarded :]:
            check(each.principal in self.life.forwards, f"{each.principal} is forwarded")
            check(each.host == PEER, f"{each.principal} is forwarded from {each.host}")
            self.links.faults["changes forwarded"] += 1
        self._forwarded = len(forwarded)

    def check_opening(self, name: str) -> None:
        if name in GATED:
            check(self.is_loaded, f"{name} listens before the ACLs are loaded")

    def may_be_unready(self, since: float) -> bool:
        return self.unready_at >= since

    def check_freshness(self, offset: int, asked_at: float) -> None:
        stale_max_s = self.life.stale_max_ms / 1000
        if self.workers is not None:  # a worker that does not stop is killed after a while
            stale_max_s += 2 * self.life.worker_timeout_ms / 1000
        slack_s = SLACK_S
        if self.source is SourceKind.BROKERS:
            slack_s += POLLS * self.life.poll_ms / 1000
        status = self.parts.origin.source.status
        if self.life.serves_copy and status is not None and status.contact_time is None:
            # How old the copy is was not known when the process began to serve it.
            served_s = asked_at - self.unready_at
            check(served_s <= stale_max_s + slack_s, f"a copy is served for {served_s} s")
            return
        oldest = self.cluster.committed_at(asked_at - stale_max_s - slack_s)
        newest = self.invariants.newest_offset(offset)
        check(newest >= oldest, f"a decision at offset {offset} is older than {stale_max_s} s")

    # The process.

    async def _run(self, visitors: Callable[[], Any]) -> None:
        async with trio.open_nursery() as nursery:
            if not self._clusters:
                chance = self.machine.chance
                self._clusters.append(Cluster(nursery, self.links, chance))
            [self.cluster] = self._clusters
            has_brokers = self.source is SourceKind.BROKERS
            self.cluster.begin_life(nursery, self.links, self.life, has_brokers=has_brokers)
            self.invariants.follow(self.cluster)
            nursery.start_soon(self._play)
            await super()._run(visitors)
            nursery.cancel_scope.cancel()

    async def _play(self) -> None:
        await self.cluster.play(self.life.events)
        self._played.set()

    async def _settle(self) -> None:
        """Check that the daemon gets everything soon after all faults have ended."""
        await self._played.wait()
        await trio.sleep_until(max((end for _, end in self.life.outages), default=0.0))
        with trio.move_on_after(CONVERGES_S_MAX) as converging:
            await self.applier.snapshot.wait_until(
                lambda newest: newest is not None and self._is_current(newest.offset)
            )
        check(not converging.cancelled_caught, f"not current after {CONVERGES_S_MAX:g} s")
        await super()._settle()

    def _is_current(self, offset: int) -> bool:
        return self.invariants.newest_offset(offset) >= self.cluster.end_offset

    def check_end(self, *, is_crash: bool) -> None:
        super().check_end(is_crash=is_crash)
        check(self.links.ends_open == 0, "connections to the cluster are left open")
        status = self.parts.origin.source.status
        check(status is None or not status.fault, f"decisions have stopped: {status}")
