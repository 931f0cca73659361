"""Follow a cluster through its brokers: carry out the machine's actions on connections and files.

**Invariant:** a listing is put in force whole, or not at all. Decisions use it only after it was
saved. Until the first listing is accepted, no snapshot is published, unless the copy is served.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Final

import trio

from authorizerd.acl.difference import plan_differences
from authorizerd.acl.listing import Expectation, expect, find_shown
from authorizerd.acl.model import Acl, AclFilter, Change, ChangeBatch
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.acl.steps import free
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp, Message
from authorizerd.actors.steps import finish_in_turns
from authorizerd.config.follow.settings import FollowSettings
from authorizerd.daemon.sources.brokers.acknowledged import KEPT_SECONDS
from authorizerd.daemon.sources.brokers.exchange import Answer, Exchange
from authorizerd.daemon.sources.brokers.listing_copy import ListingCopy
from authorizerd.daemon.sources.brokers.machine import Machine
from authorizerd.daemon.sources.brokers.messages import (
    Accept,
    Action,
    AskListing,
    AskQuorum,
    Broken,
    Done,
    Event,
    Listed,
    Open,
    Opened,
    Stop,
    Target,
    Wait,
    Woken,
)
from authorizerd.daemon.sources.brokers.release_probe import FIRST_LOOK_SECONDS, ReleaseProbe
from authorizerd.daemon.sources.failure_log import FailureLog
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.image.changes import UNKNOWN_LEVEL
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import OpenNode

BARRIERS_MAX: Final = 10_000
PAUSES_PER_STALENESS: Final = 4
"""Large answers never make pauses so long that decisions become stale."""

_NUMBER: Final = re.compile(r"\d+")

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Barrier:
    """A wait for changes. ``passed`` is set once decisions use them."""

    expectation: Expectation
    made_at: float
    passed: trio.Event = field(default_factory=trio.Event)


@dataclass(slots=True)
class _Pending:
    """A listing that was compared but not accepted yet."""

    digest: bytes
    changes: list[Change]


class BrokersSource:
    """Pass on the differences between listings, and the brokers' releases.

    Args:
        applied: the state that the applier has applied.
        open_node: opens connections, as ``NodeOpener.open`` does.
    """

    def __init__(
        self,
        settings: FollowSettings,
        copy: ListingCopy,
        freshness: Freshness,
        status: SourceStatus,
        applied: View[AclSnapshot | None],
        *,
        open_node: OpenNode,
        random: Random | None = None,
    ) -> None:
        self._settings = settings
        self._copy = copy
        self._freshness = freshness
        self.status: Final = status
        self._applied = applied
        self._random = random or SystemRandom()
        self._exchange = Exchange(open_node, settings, status)
        self._open_node = open_node
        self._probe: ReleaseProbe | None = None
        self._machine: Machine | None = None
        self._barriers: dict[int, _Barrier] = {}
        self._last_barrier = 0
        self._is_wanted = trio.Event()
        self._pending: _Pending | None = None
        self._digest = b""
        self._cluster_id = ""
        self._broker_id = -1
        self._has_answered = False
        self._listed_as_of = -math.inf
        self._failures = FailureLog()

    @property
    def high_watermark(self) -> int:
        """The last of our own offsets, -1 before the first."""
        return self.status.high_watermark

    @property
    def address(self) -> Address | None:
        """The address of the pinned broker, None while no broker answers."""
        return self._exchange.address if self._has_answered else None

    def report_lost(self, address: Address) -> None:
        """Do nothing: the source polls the same broker, and soon replaces it."""

    @property
    def metadata_version(self) -> int:
        """The cluster's level, as its brokers report it; -1 if they do not."""
        return UNKNOWN_LEVEL if self._probe is None else self._probe.finalized

    async def confirm(
        self,
        created: Sequence[Acl],
        deleted: Sequence[AclFilter],
        *,
        acknowledged_by: Address | None = None,
    ) -> bool:
        """Return True once decisions use a listing that shows these changes of ACLs.

        The listing was asked for after the call. It contains every created binding, and none that
        a deleted filter matches; or it is known to be newer than the call, so that another client
        has undone a change. After a failover, a listing without the changes is rejected: so pass
        only changes that the cluster has acknowledged, even if no caller is waiting for them any
        longer. Without changes, this waits for the next listing.

        Even after a cancellation, later listings must show the changes.

        Return False if too many changes are awaited, if the source does not run yet, or if no
        listing has shown the changes within a minute.
        """
        expectation = await finish_in_turns(expect(list(created), list(deleted)))
        machine = self._machine
        if machine is None or len(self._barriers) >= BARRIERS_MAX:
            return False
        self._last_barrier += 1
        barrier = _Barrier(expectation, trio.current_time())
        self._barriers[self._last_barrier] = barrier
        machine.acknowledge(self._last_barrier, barrier.made_at)
        self._is_wanted.set()
        with trio.move_on_after(KEPT_SECONDS):
            await barrier.passed.wait()
        return barrier.passed.is_set()

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None:
        """Pass on the copy, then poll brokers until cancelled; close ``applier`` in any case.

        Raises:
            LogDirectoryError, OSError: as ``ListingCopy.read``.
        """
        async with applier:
            await self._copy.read(applier)
            async with trio.open_nursery() as nursery:
                self._probe = ReleaseProbe(self._open_node, nursery)
                try:
                    await self._follow(applier, self._probe)
                finally:
                    with trio.CancelScope(shield=True):
                        await self._exchange.aclose()
                        await self._probe.aclose()
                    nursery.cancel_scope.cancel()

    async def _follow(self, applier: trio.MemorySendChannel[Message], probe: ReleaseProbe) -> None:
        await self._publish_copy(applier, probe)
        settings = self._settings
        await self._check_copy()
        machine = self._machine = Machine(
            [Target(server.host, server.port) for server in settings.servers],
            poll_seconds=settings.poll_ms / 1000,
            pause_seconds_max=settings.stale_max_ms / 1000 / PAUSES_PER_STALENESS,
            cluster_id=settings.cluster_id or self._copy.cluster_id,
            high_watermark=self._copy.high_watermark,
            random=self._random,
        )
        event: Event | None = None
        while True:
            action = machine.advance(event, trio.current_time())
            event = await self._carry_out(action, applier)

    async def _publish_copy(
        self, applier: trio.MemorySendChannel[Message], probe: ReleaseProbe
    ) -> None:
        copy, status = self._copy, self.status
        status.cluster_id = copy.cluster_id or ""
        # A copy may be old: use it only if the configuration permits this before the first contact.
        decides = copy.high_watermark is None or self._settings.serve_copy
        await self._freshness.begin(decides=decides)
        if copy.high_watermark is None:
            return  # the applier loads a first listing much faster than it applies differences
        status.high_watermark = status.read_offset = copy.last_offset
        if decides:
            with trio.move_on_after(FIRST_LOOK_SECONDS):
                await self._look_first(probe)
            found = probe.take_changes()
            await applier.send(ChangeBatch(copy.last_offset, cluster_changes=found))
        await applier.send(CaughtUp(copy.last_offset))
        await self._applied.wait_until(lambda newest: newest is not None)

    async def _look_first(self, probe: ReleaseProbe) -> None:
        """Probe the releases before decisions use the copy."""
        for server in self._settings.servers:
            opened = await self._exchange.open(Target(server.host, server.port))
            if isinstance(opened, Opened) and opened.brokers:
                await probe.look(opened.brokers)
                return

    async def _check_copy(self) -> None:
        """Stop decisions for good if the copy has the ACLs of another cluster."""
        named, copied = self._settings.cluster_id, self._copy.cluster_id
        if named is not None and copied not in (None, named):
            await self._freshness.stop(
                f"expected a copy of cluster {named} (authorizerd.source.cluster.id), found one of"
                f" cluster {copied}: correct the key, or stop the daemon and run"
                " `authorizerd reset-copy`"
            )
            await trio.sleep_forever()

    async def _carry_out(self, action: Action, applier: trio.MemorySendChannel[Message]) -> Event:
        match action:
            case Open(target):
                return await self._open(target)
            case AskQuorum():
                return await self._exchange.ask_quorum()
            case AskListing():
                return await self._list()
            case Accept():
                await self._accept(action, applier)
                return Done()
            case Wait():
                return await self._wait(action)
            case Stop(reason):
                await self._freshness.stop(reason)
                await trio.sleep_forever()
                return Done()

    async def _open(self, target: Target) -> Event:
        await self._forget_pending()
        self._has_answered = False
        opened = await self._exchange.open(target)
        if isinstance(opened, Opened) and target.broker_id is not None:
            self._cluster_id = opened.cluster_id or ""
            self._broker_id = target.broker_id
        return opened

    async def _wait(self, action: Wait) -> Event:
        await self._forget_pending()
        if action.problem:
            self.status.last_error = action.problem
            # Offsets change each time; the brokers of a cluster also mostly differ by a number.
            if self._failures.is_due(_NUMBER.sub("", action.problem)):
                _logger.warning("following the cluster, retrying: %s", action.problem)
        with trio.move_on_after(action.seconds):
            if not action.ends_early:
                await trio.sleep_forever()
            await self._is_wanted.wait()
            self._is_wanted = trio.Event()
            return Woken()
        return Done()

    async def _list(self) -> Event:
        """Ask for all ACLs, and compare them with those in force, unless the answer is equal."""
        await self._forget_pending()
        self._forget_old_barriers()
        self._listed_as_of = self.status.clock()
        # Read this now: barriers added during the wait may be newer than the answer.
        expectations = {key: each.expectation for key, each in self._barriers.items()}
        answer = await self._exchange.ask_listing()
        if not isinstance(answer, Answer):
            return answer
        brokers = await self._exchange.ask_brokers()
        if isinstance(brokers, Broken):
            return brokers
        assert self._probe is not None, "it runs"
        await self._probe.look(brokers)
        snapshot = self._applied.newest or EMPTY_SNAPSHOT
        if answer.digest == self._digest:
            shown = await finish_in_turns(find_shown(snapshot.acls, expectations))
            return Listed(True, shown, answer.seconds, answer.throttle_seconds)
        listing = await self._exchange.decode(answer)
        if isinstance(listing, Broken):
            return listing
        changes = await finish_in_turns(plan_differences(snapshot, listing))
        shown = await finish_in_turns(find_shown(listing, expectations))
        await finish_in_turns(listing.free_in_steps())
        self._pending = _Pending(answer.digest, changes)
        return Listed(not changes, shown, answer.seconds, answer.throttle_seconds)

    async def _accept(self, accept: Accept, applier: trio.MemorySendChannel[Message]) -> None:
        """Save the last listing's differences, let decisions use them, and confirm the state."""
        pending, status = self._pending, self.status
        changes = [] if pending is None else pending.changes
        assert self._probe is not None, "it runs"
        releases = self._probe.take_changes()
        if changes or releases or self._copy.high_watermark is None:
            await self._copy.append(
                self._cluster_id, changes, accept.high_watermark, applier, releases
            )
        if pending is not None:
            self._digest = pending.digest
            await self._forget_pending()
        status.cluster_id, status.leader_id = self._cluster_id, self._broker_id
        status.high_watermark = status.read_offset = self._copy.last_offset
        if accept.is_current:
            status.lag_since = None
            await self._freshness.confirm(self._listed_as_of)
            self._failures.note_contact()
        elif status.lag_since is None:
            status.lag_since = trio.current_time()
        self._has_answered = True
        for key in accept.shown:
            barrier = self._barriers.pop(key, None)
            if barrier is not None:
                barrier.passed.set()

    async def _forget_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            await finish_in_turns(free(pending.changes))

    def _forget_old_barriers(self) -> None:
        now = trio.current_time()
        if self._machine is not None:
            self._machine.forget_old_changes(now)
        oldest = now - KEPT_SECONDS
        for key in [key for key, each in self._barriers.items() if each.made_at < oldest]:
            del self._barriers[key]
