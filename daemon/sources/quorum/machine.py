"""The state machine of an observer of a KRaft quorum: events in, effects and one request out.

It finds the leader, fetches the log, and decides what is committed. It never waits, and has no
clock: each event comes with the time.

**Invariant:** the records that it passes on are a prefix of the committed log, in order, without
repetition. It never follows a leader of an epoch older than a proven one (see ``Contact``), or
older than one announced less than a minute ago. An answer that no leader would send changes nothing
that was passed on. Each connection first shows that its node has the last batch that was passed on:
the log of another cluster may have the same epochs.

Source: KIP-595, KIP-630, KIP-853, KIP-1166; Kafka 4.3 KafkaRaftClient (the observer's side).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from authorizerd.daemon.sources.quorum.barriers import Barriers, Goal
from authorizerd.daemon.sources.quorum.contact import Contact
from authorizerd.daemon.sources.quorum.errors import GarbageError, PermanentFaultError
from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.daemon.sources.quorum.messages import (
    AbandonSnapshot,
    AppendSnapshot,
    ApplySnapshot,
    AskCluster,
    BeginSnapshot,
    ClusterAnswered,
    Confirm,
    Connected,
    ConnectionLost,
    Event,
    FetchAnswered,
    PassOn,
    Probe,
    Reaction,
    ReleaseBarriers,
    ReportFault,
    ReportLoaded,
    Request,
    SendFetch,
    SnapshotAnswered,
    SnapshotApplied,
    SnapshotDamaged,
    Stop,
    TimePassed,
    Wait,
)
from authorizerd.daemon.sources.quorum.snapshot_fetch import SnapshotFetch
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from authorizerd.protocol.records.batch import RecordBatch

FETCH_BYTES: Final = 1 << 20
FETCH_WAIT_MS: Final = 500
"""How long the leader waits for a new record, as for Kafka's own followers."""

SHORT_WAIT_MS: Final = 4
"""The wait at the leader if the answer is needed soon. It doubles while nothing changes."""

DOUBLINGS_MAX: Final = 7
FULL_SECONDS: Final = 0.1
"""The pause between two fetches that can bring only the high watermark."""

THROTTLE_SECONDS_MAX: Final = 30.0

VERSION_WITH_HIGH_WATERMARK: Final = 18
"""The first version of Fetch in which a leader announces a new high watermark at once."""


class Machine:
    """Follows a quorum.

    Args:
        contact: the facts about the leader. log: the end of the records passed on before.
        cluster_id: the id that the cluster must have; None if the machine must ask for it.

    Attributes:
        high_watermark: the highest one reported by a leader (exclusive), -1 before the first.
    """

    def __init__(self, contact: Contact, log: FetchedLog, *, cluster_id: str | None) -> None:
        self.contact: Final = contact
        self.log: Final = log
        self.barriers: Final = Barriers()
        self._snapshot: SnapshotFetch | None = None
        self._fetch_version = 0
        self._reported = Goal(-1, -1)
        self._goal: Goal | None = None
        self._is_loaded = False
        self._is_stopped = False
        self._is_checked = False
        self._short_waits = 0
        self._ticket_sent = 0
        self.cluster_id = cluster_id
        self.high_watermark = -1

    def begin_probe(self) -> Probe | None:
        """Return a Fetch that reports at once what is committed, if a barrier needs one.

        The usual Fetch may wait half a second at the leader. A probe uses another connection, and
        affects only barriers. Also return None if no leader is known.
        """
        leader = self.contact.leader
        if leader is None or not self.barriers.are_waiting:
            return None
        return Probe(self.barriers.newest, leader[0], SendFetch(self._position(), 0, 1))

    def end_probe(self, probe: Probe, answer: FetchAnswer) -> ReleaseBarriers | None:
        """Return the release of the barriers that a probe's answer lets pass, or None."""
        epoch = probe.request.position.leader_epoch
        is_current = answer.leader_epoch == epoch == self.contact.route.epoch
        if answer.error_code or not is_current or answer.high_watermark < 0:
            return None
        self.barriers.answer(probe.ticket, Goal(answer.high_watermark, epoch), probe.address)
        return self.barriers.reach(self.log)

    def step(self, event: Event, now: float) -> Reaction:
        """Return the reaction to an event.

        Args:
            now: seconds on a monotonic clock.
        """
        self.contact.now = now
        try:
            request = Stop() if self._is_stopped else self._handle(event)
        except GarbageError as error:
            text = f"expected an answer of the quorum's leader: {error}"
            request = self.contact.give_up("garbage", text)
        except PermanentFaultError as error:
            request = self._stop(str(error))
        effects = tuple(self.contact.effects)
        self.contact.effects.clear()
        return Reaction(effects, request)

    def _handle(self, event: Event) -> Request:
        match event:
            case TimePassed():
                return self._ask()
            case Connected():
                self.contact.is_connected = True
                self._is_checked = False
                self._fetch_version = event.fetch_version
                return self._ask()
            case ConnectionLost():
                return self.contact.give_up(event.reason, event.text, is_silent=event.is_silent)
            case ClusterAnswered():
                self.cluster_id = event.cluster_id
                return self._ask()
            case FetchAnswered():
                return self._on_fetch(event.answer, event.batches)
            case SnapshotAnswered():
                return self._on_snapshot_piece(event.answer)
            case SnapshotApplied():
                return self._on_snapshot_applied()
            case SnapshotDamaged():
                self._snapshot = None
                return self.contact.give_up("snapshot", event.text)
            case _:
                assert_never(event)

    def _stop(self, text: str) -> Request:
        self._abandon_snapshot()
        self.contact.disconnect()
        self.contact.effects.append(ReportFault(text, self.log.committed_end - 1))
        self._is_stopped = True
        return Stop()

    def _ask(self) -> Request:
        """Return the next request on the connection, or to open one."""
        if not self.contact.is_connected:
            return self.contact.connect()
        if self.cluster_id is None:
            return AskCluster()
        self.contact.begin_request()
        if self._snapshot is not None:
            # Another leader's snapshot of the same id may have different bytes.
            if self._snapshot.leader_epoch == self.contact.route.epoch:
                return self._snapshot.request(FETCH_BYTES)
            self._abandon_snapshot()
        if not self._is_checked and self.log.last is not None:
            again = self._position_at(self.log.last.base_offset, self.log.committed_epoch)
            return SendFetch(again, 0, 1)
        self._ticket_sent = self.barriers.newest
        return SendFetch(self._position(), self._choose_wait_ms(), FETCH_BYTES)

    def _position(self) -> FetchPosition:
        return self._position_at(self.log.end_offset, self.log.last_epoch)

    def _position_at(self, offset: int, last_epoch: int) -> FetchPosition:
        return FetchPosition(
            offset=offset,
            last_epoch=last_epoch,
            leader_epoch=self.contact.route.epoch,
            high_watermark=self._known_watermark(),
        )

    def _choose_wait_ms(self) -> int:
        """Return how long the leader may wait for a new record before it answers."""
        is_announced = self._fetch_version >= VERSION_WITH_HIGH_WATERMARK
        if not self.barriers.are_waiting and (is_announced or not self.log.has_pending):
            self._short_waits = 0
            return FETCH_WAIT_MS
        wait_ms = SHORT_WAIT_MS << min(self._short_waits, DOUBLINGS_MAX)
        self._short_waits += 1
        return min(wait_ms, FETCH_WAIT_MS)

    def _known_watermark(self) -> int:
        """Return the high watermark that the newest leader reported, or -1.

        An earlier leader's high watermark does not count: records above the new one may be
        truncated.
        """
        is_current = self._reported.leader_epoch == self.contact.route.epoch
        return self._reported.high_watermark if is_current else -1

    def _judge(self, answer: FetchAnswer | SnapshotAnswer) -> Wait | None:
        """Like ``Contact.judge``, but also drop what was fetched in a forgotten epoch."""
        before = self.contact.route.epoch
        other = self.contact.judge(answer)
        if self.contact.route.epoch < before:
            self.log.replace(self.log.committed_end, self.log.committed_epoch)
            self._abandon_snapshot()
        return other

    def _on_fetch(self, answer: FetchAnswer, batches: Sequence[RecordBatch]) -> Request:
        other = self._judge(answer)
        if other is not None:
            return other
        if answer.error_code:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.log.go_back(self.log.end_offset)
            return self._on_log_error(answer.error_code)
        if not self._is_checked and answer.diverging is None:
            self._is_checked = True
            if self.log.last is not None:
                # A leader that offers a snapshot no longer has that batch.
                if answer.snapshot is None:
                    self.log.check_last(batches)
                return self._ask_after(answer.throttle_ms)
        if answer.diverging is not None:
            if not self.log.truncate(answer.diverging):
                raise GarbageError(f"{answer.diverging} truncates nothing")
        elif answer.snapshot is not None:
            self._begin_snapshot(answer.snapshot)
        else:
            self._take_records(answer, batches)
            self.contact.succeed()
        return self._ask_after(answer.throttle_ms)

    def _ask_after(self, throttle_ms: int) -> Request:
        """Return the next request, after a pause if the leader throttles or memory is short."""
        if throttle_ms > 0:
            return Wait(self.contact.now + min(throttle_ms / 1000, THROTTLE_SECONDS_MAX))
        if self.log.is_full:
            return Wait(self.contact.now + FULL_SECONDS)
        return self._ask()

    def _on_log_error(self, code: int) -> Request:
        self.contact.count(ApiError(code).name, "the leader's log lacks what was requested")
        self._abandon_snapshot()
        return self.contact.pause()

    def _take_records(self, answer: FetchAnswer, batches: Sequence[RecordBatch]) -> None:
        self.log.append(batches, leader_epoch=answer.leader_epoch)
        if batches:
            self._short_waits = 0
        if answer.high_watermark < 0:
            self._advance()
            return
        goal = Goal(answer.high_watermark, answer.leader_epoch)
        highest = max(answer.high_watermark, self._known_watermark())
        self._reported = Goal(highest, answer.leader_epoch)
        self.contact.proven_epoch = answer.leader_epoch
        self.high_watermark = max(answer.high_watermark, self.high_watermark)
        self._goal = goal if self._goal is None else self._goal
        assert self.contact.target is not None, "it answered"
        self.barriers.answer(self._ticket_sent, goal, self.contact.target)
        self._advance()
        if self._is_loaded and goal.is_reached(self.log):
            self.contact.effects.append(Confirm())

    def _advance(self) -> None:
        """Pass on committed batches, and report what this completes."""
        effects = self.contact.effects
        committed = self.log.commit(self._known_watermark())
        if committed:
            self._short_waits = 0
            effects.append(PassOn(committed))
        if not self._is_loaded and self._goal is not None and self._goal.is_reached(self.log):
            self._is_loaded = True
            effects.append(ReportLoaded())
        release = self.barriers.reach(self.log)
        if release is not None:
            effects.append(release)

    def _begin_snapshot(self, snapshot: SnapshotId) -> None:
        if snapshot.end_offset == 0 == self.log.committed_end:
            raise GarbageError("a snapshot that ends at offset 0")
        if snapshot.end_offset <= self.log.committed_end:
            self.log.go_back(snapshot.end_offset)
            return
        # After accepting a wrong epoch, the daemon would mistake the real leader for an old one.
        if not self.log.committed_epoch <= snapshot.epoch <= self.contact.route.epoch:
            raise GarbageError(f"a snapshot of epoch {snapshot.epoch}")
        self._snapshot = SnapshotFetch(snapshot, self.contact.route.epoch)
        self.contact.effects.append(BeginSnapshot(snapshot))

    def _abandon_snapshot(self) -> None:
        if self._snapshot is not None:
            self.contact.effects.append(AbandonSnapshot())
        self._snapshot = None

    def _on_snapshot_piece(self, answer: SnapshotAnswer) -> Request:
        # Up to 4.3.1, Kafka reports every other error with this code, and does not name the leader.
        if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            return self._on_log_error(answer.error_code)
        other = self._judge(answer)
        if other is not None:
            return other
        if answer.error_code:
            return self._on_log_error(answer.error_code)
        assert self._snapshot is not None, "only pieces of this snapshot are requested"
        try:
            self._snapshot.add(answer)
        except GarbageError:
            self._abandon_snapshot()
            raise
        self.contact.effects.append(AppendSnapshot(answer.data))
        if self._snapshot.is_complete:
            return ApplySnapshot(self._snapshot.snapshot)
        return self._ask_after(answer.throttle_ms)

    def _on_snapshot_applied(self) -> Request:
        assert self._snapshot is not None, "only a complete snapshot is applied"
        snapshot, self._snapshot = self._snapshot.snapshot, None
        self.log.replace(snapshot.end_offset, snapshot.epoch)
        self.contact.proven_epoch = max(snapshot.epoch, self.contact.proven_epoch)
        self.contact.succeed()
        self._advance()
        return self._ask()
