"""The source that follows a KRaft quorum: it carries out the state machine's decisions.

**Invariant:** a kill at any time is harmless. Committed records are passed on and then saved in the
copy; records that were not saved are fetched again. A snapshot is saved and verified before it is
passed on; only then does it replace the copy.

One task runs the machine, so it needs no locks. Files are used in threads.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from typing import Final, assert_never

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import Message
from authorizerd.config.follow.settings import FollowSettings
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.quorum.confirmations import Confirmations
from authorizerd.daemon.sources.quorum.contact import Contact
from authorizerd.daemon.sources.quorum.feed import Feed, MisfitError
from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.daemon.sources.quorum.link import LeaderProbe, Link
from authorizerd.daemon.sources.quorum.machine import Machine
from authorizerd.daemon.sources.quorum.messages import (
    AbandonSnapshot,
    AppendSnapshot,
    ApplySnapshot,
    AskCluster,
    BeginSnapshot,
    ClusterAnswered,
    Confirm,
    Connect,
    CountFailure,
    Disconnect,
    Effect,
    Event,
    PassOn,
    ReleaseBarriers,
    ReportFault,
    ReportLoaded,
    Request,
    SendFetch,
    SendFetchSnapshot,
    SnapshotApplied,
    SnapshotDamaged,
    Stop,
    TimePassed,
    Wait,
)
from authorizerd.daemon.sources.quorum.report import ContactReport
from authorizerd.daemon.sources.quorum.route import choose_addresses
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.image.cluster import ClusterImage
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import OpenNode
from authorizerd.metadata.errors import CopyConflictError, MetadataLogError
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from authorizerd.protocol.records.voters import Voters

PENDING_BYTES_MAX: Final = 64 << 20
"""Maximum size of fetched records that the quorum has not committed."""

_logger = logging.getLogger(__name__)


class QuorumSource:
    """Follows a quorum, and keeps a copy of its log.

    Args:
        copy: the copy, not yet opened.
        open_node: connects to a controller.
        applied: the newest state of the applier, also while decisions are stopped.
        cluster: the image that is published together with it.
        random: returns a number from 0 to 1.
    """

    def __init__(
        self,
        settings: FollowSettings,
        copy: LogCopy,
        open_node: OpenNode,
        *,
        applied: View[AclSnapshot | None],
        cluster: View[ClusterImage],
        freshness: Freshness,
        status: SourceStatus,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._settings: Final = settings
        self._copy: Final = copy
        self._applied: Final = applied
        self._cluster: Final = cluster
        self._freshness: Final = freshness
        self._random: Final = random
        self._link: Final = Link(open_node, request_timeout_ms=settings.request_timeout_ms)
        self._probe: Final = LeaderProbe(
            Link(open_node, request_timeout_ms=settings.request_timeout_ms)
        )
        self._begun: Final = trio.Event()
        self._confirmations: Final = Confirmations(lambda: self._machine, self._probe, applied)
        self._feed: Feed | None = None
        self._answered_as_of = -math.inf
        self._machine = self._new_machine()
        self._learnt: Voters | None = None
        self._reported: Final = ContactReport(status, settings)
        self.status: Final = status

    @property
    def high_watermark(self) -> int:
        """The last offset that is known to be committed, -1 before the first."""
        passed_on = -1 if self._feed is None else self._feed.last_offset
        return max(self._machine.high_watermark - 1, passed_on)

    @property
    def metadata_version(self) -> int:
        """The level of the feature metadata.version, -1 if it is not known."""
        return -1 if self._feed is None else self._feed.metadata_version

    @property
    def address(self) -> Address | None:
        """The leader's address, or None unless its last answer was that of a leader."""
        leader = self._machine.contact.leader
        return None if leader is None else leader[0]

    def report_lost(self, address: Address) -> None:
        """Report that ``address`` does not lead. It counts as the leader again once it answers a
        Fetch."""
        self._machine.contact.doubt_leader(address)

    def is_complete(self, offset: int) -> bool:
        """Return True if no transaction is open at ``offset``, so the state there is complete."""
        return self._feed is not None and self._feed.is_complete(offset)

    async def confirm(
        self,
        created: Sequence[Acl] = (),
        deleted: Sequence[AclFilter] = (),
        *,
        acknowledged_by: Address | None = None,
    ) -> bool:
        """Return True once this daemon has applied all that was committed before the call.

        This waits until the leader answers a Fetch sent after the call, so it never returns while
        no leader answers. It may be cancelled at any time.
        """
        await self._begun.wait()
        await self._confirmations.wait(created, deleted, acknowledged_by)
        return True

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None:
        """Pass on the copy, then all committed records, until cancelled; close ``applier``.

        After a permanent fault, wait for the cancellation.

        Raises:
            MetadataLogError: the copy cannot be read, although it was verified just before, and
                decisions have not begun.
        """
        async with applier:
            self._feed = Feed(applier, self._applied, self._cluster)
            await self._freshness.begin(decides=True)
            try:
                await self._load_copy(self._feed)
                await self._follow(self._feed)
            except MisfitError as error:
                await self._wait_for_operator(str(error), error.offset)
            except CopyConflictError as error:
                await self._wait_for_operator(str(error), -1)
            finally:
                # Shielded: otherwise, if closing the first one were cancelled, the second would
                # stay open.
                with trio.CancelScope(shield=True):
                    await self._link.close()
                    await self._probe.link.close()

    async def _wait_for_operator(self, fault: str, offset: int) -> None:
        await self._freshness.stop(fault, offset)
        await self._link.close()
        await trio.sleep_forever()

    def _new_machine(self) -> Machine:
        log = FetchedLog(
            self._copy.last_offset + 1,
            self._copy.end.epochs.last,
            bytes_max=PENDING_BYTES_MAX,
            last=self._copy.end.last_batch,
        )
        # An empty copy may have an id that was set by mistake.
        known = self._copy.cluster_id if self._copy.last_offset >= 0 else None
        settings = self._settings
        contact = Contact(
            settings.servers,
            epoch=log.committed_epoch,
            random=self._random,
            named_cluster=settings.cluster_id,
        )
        return Machine(contact, log, cluster_id=settings.cluster_id or known or None)

    async def _load_copy(self, feed: Feed) -> None:
        await run_in_thread(self._copy.open)
        if self._settings.cluster_id is not None:
            await run_in_thread(self._copy.adopt_cluster, self._settings.cluster_id)
        await feed.read_copy(self._copy.batches())
        feed.last_offset = self._copy.last_offset  # a checkpoint may have no batch
        if feed.last_offset >= 0:
            _logger.info("the copy of the cluster's log ends at offset %d", feed.last_offset)
            if self._settings.serve_copy:
                await feed.catch_up()
        self._machine = self._new_machine()
        self._begun.set()

    async def _follow(self, feed: Feed) -> None:
        event: Event = TimePassed()
        while True:
            turn = self._machine.step(event, trio.current_time())
            failed: Event | None = None
            for effect in turn.effects:
                failed = await self._make(effect, feed)
                if failed is not None:
                    break
            self._report(feed)
            event = await self._perform(turn.request, feed) if failed is None else failed

    async def _make(self, effect: Effect, feed: Feed) -> Event | None:
        """Carry out an effect. Return an event if it failed."""
        match effect:
            case PassOn():
                await feed.pass_on(effect.batches)
                await run_in_thread(self._copy.append, effect.batches)
            case BeginSnapshot() | AppendSnapshot() | AbandonSnapshot():
                return await self._save_snapshot(effect)
            case ReportLoaded():
                await feed.catch_up()
            case Confirm():
                await self._freshness.confirm(self._answered_as_of)
            case ReleaseBarriers():
                self._confirmations.release(effect)
            case CountFailure():
                self._reported.count(effect)
            case Disconnect():
                await self._link.close()
            case ReportFault():
                await self._freshness.stop(effect.text, effect.offset)
            case _:
                assert_never(effect)
        return None

    async def _save_snapshot(
        self, effect: BeginSnapshot | AppendSnapshot | AbandonSnapshot
    ) -> Event | None:
        copy = self._copy
        try:
            match effect:
                case BeginSnapshot(snapshot):
                    await run_in_thread(copy.begin_snapshot, snapshot.end_offset, snapshot.epoch)
                case AppendSnapshot(data):
                    await run_in_thread(copy.snapshot.append, bytes(data))
                case AbandonSnapshot():
                    await run_in_thread(copy.abandon_snapshot)
        except OSError as error:
            await run_in_thread(copy.abandon_snapshot, error)
            return SnapshotDamaged(str(error))
        return None

    def _report(self, feed: Feed) -> None:
        machine = self._machine
        self.status.copy_fault = self._copy.fault
        self._reported.update(machine, self.high_watermark, feed.last_offset)
        voters = self._copy.end.voters
        if machine.contact.leader is not None and voters is not None and voters is not self._learnt:
            machine.contact.route.add_nodes(choose_addresses(voters, machine.contact.leader[0]))
            self._learnt = voters

    async def _perform(self, request: Request, feed: Feed) -> Event:
        match request:
            case Wait() | Stop():
                await trio.sleep_until(math.inf if isinstance(request, Stop) else request.until)
                return TimePassed()
            case Connect():
                return await self._link.connect(request.address)
            case AskCluster() | SendFetch() | SendFetchSnapshot():
                return await self._ask(request)
            case ApplySnapshot():
                return await self._apply_snapshot(request.snapshot, feed)
            case _:
                assert_never(request)

    async def _ask(self, request: AskCluster | SendFetch | SendFetchSnapshot) -> Event:
        machine, clock = self._machine, self.status.clock
        asked_at = clock()
        event = await self._link.ask(
            request,
            cluster_id=machine.cluster_id,
            is_behind=not 0 <= machine.high_watermark <= machine.log.committed_end,
        )
        if isinstance(request, SendFetch):
            # The leader answers within the wait. Any longer delay is the answer's age.
            latest = asked_at + request.max_wait_ms / 1000
            self._answered_as_of = min(clock(), latest)
        if isinstance(event, ClusterAnswered):
            if not event.cluster_id:
                self._reported.note_hidden_cluster(has_copy=self._copy.last_offset >= 0)
            await run_in_thread(self._copy.adopt_cluster, event.cluster_id)
        return event

    async def _apply_snapshot(self, snapshot: SnapshotId, feed: Feed) -> Event:
        fetched, is_verified = self._copy.snapshot, False
        try:
            await run_in_thread(fetched.verify)
            is_verified = True
            await feed.replace(fetched.batches(), end_offset=snapshot.end_offset)
        except (MetadataLogError, OSError) as error:
            if is_verified and not feed.is_caught_up:
                raise  # a part was already passed on
            await run_in_thread(self._copy.abandon_snapshot, error)
            return SnapshotDamaged(str(error))
        _logger.info("the cluster's snapshot up to offset %d replaces its log", snapshot.end_offset)
        await run_in_thread(self._copy.install_snapshot)
        return SnapshotApplied()
