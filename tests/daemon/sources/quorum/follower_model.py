"""Drive the machine against the model of a quorum, and check each of its effects."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace as with_fields
from random import Random

from msgspec.structs import replace

from authorizerd.config.follow.settings import Server
from authorizerd.daemon.sources.quorum import messages
from authorizerd.daemon.sources.quorum.contact import Contact
from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.daemon.sources.quorum.machine import Machine
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.quorum_messages import EpochEnd
from authorizerd.protocol.records.batch import RecordBatch
from tests.daemon.sources.quorum.quorum_model import (
    ModelNode,
    Quorum,
    below,
    end_of,
    new_batch,
    snapshot_bytes,
)

Garbage = Callable[[messages.FetchAnswered, Random], messages.FetchAnswered]


def repeat(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    return with_fields(event, batches=[*event.batches[:1], *event.batches])


def jump(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    return with_fields(event, batches=event.batches[1:] or [new_batch(9_999, 1, 1, b"")])


def go_back_in_epochs(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    if not event.batches:
        return jump(event, random)
    *kept, last = event.batches
    return with_fields(event, batches=[*kept, replace(last, leader_epoch=0)])


def skip_the_leader_change(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    if not event.batches or event.batches[-1].is_control:
        return jump(event, random)
    *kept, last = event.batches
    return with_fields(event, batches=[*kept, replace(last, leader_epoch=last.leader_epoch + 1)])


def truncate_nothing(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    diverging = EpochEnd(event.answer.leader_epoch, 10**9)
    return messages.FetchAnswered(replace(event.answer, diverging=diverging))


def lack_the_epoch(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    return with_fields(event, answer=replace(event.answer, leader_epoch=-1, leader_id=-1))


def fail(event: messages.FetchAnswered, random: Random) -> messages.FetchAnswered:
    code = random.choice((-1, 3, 31, 35, 42, 56, 100, 777))
    return messages.FetchAnswered(replace(event.answer, error_code=code, high_watermark=-1))


GARBAGE: tuple[Garbage, ...] = (
    repeat, jump, go_back_in_epochs, skip_the_leader_change, truncate_nothing, lack_the_epoch, fail,
)  # fmt: skip


class Follower:
    """The machine, and a record of all that it passed on.

    ``faults`` is how often, from 0 to 1, an exchange goes wrong. ``seen`` counts what happened.
    """

    def __init__(self, quorum: Quorum, random: Random, *, fetch_version: int) -> None:
        self.quorum = quorum
        self.random = random
        self.fetch_version = fetch_version
        self.faults = 0.0
        self.now = 0.0
        self.passed: list[RecordBatch] = []
        self.pieces: bytes | None = None
        self.node: ModelNode | None = None
        self.seen: Counter[str] = Counter()
        self.fault: str | None = None
        self.barriers: dict[int, int] = {}
        self._loading_end: int | None = None
        self.machine = self.new_machine()
        self.event: messages.Event = messages.TimePassed()

    def new_machine(self) -> Machine:
        servers = [Server(node.address.host, 9093) for node in self.quorum.nodes.values()]
        end = end_of(self.passed)
        epoch = self.passed[-1].leader_epoch if self.passed else 0
        last = self.passed[-1].mark if self.passed else None
        return Machine(
            Contact(servers, epoch=epoch, random=self.random.random),
            FetchedLog(end, epoch, bytes_max=80, last=last),
            cluster_id=None,
        )

    def restart(self) -> None:
        """Begin again with a part of what was passed on: the rest was not saved before a kill."""
        self.passed = self.passed[: self.random.randint(0, len(self.passed))]
        self.machine, self.event = self.new_machine(), messages.TimePassed()
        self.pieces = self.node = self._loading_end = None
        self.barriers.clear()

    def step(self) -> None:
        """Let the machine handle the last event, and make the next one."""
        turn = self.machine.step(self.event, self.now)
        for effect in turn.effects:
            self._check(effect)
        self.now += 0.001
        self.event = self._perform(turn.request)
        assert self.passed == below(self.quorum.committed, end_of(self.passed)), "not a prefix"

    def _check(self, effect: messages.Effect) -> None:
        match effect:
            case messages.PassOn(batches):
                assert batches[0].base_offset == end_of(self.passed)
                self.passed += batches
            case messages.BeginSnapshot() | messages.AppendSnapshot() | messages.AbandonSnapshot():
                self._check_snapshot(effect)
            case messages.ReportLoaded():
                self.seen["loaded"] += 1
                assert self._loading_end is None or end_of(self.passed) >= self._loading_end
            case messages.Confirm():
                self.seen["confirmed"] += 1
            case messages.ReleaseBarriers(ticket, _):
                self._release(ticket)
            case messages.CountFailure(reason):
                self.seen[reason] += 1
            case messages.Disconnect():
                assert self.node is not None
                self.node = None
            case messages.ReportFault(text):
                self.fault = text

    def _check_snapshot(
        self, effect: messages.BeginSnapshot | messages.AppendSnapshot | messages.AbandonSnapshot
    ) -> None:
        match effect:
            case messages.BeginSnapshot():
                assert self.pieces is None
                self.pieces = b""
            case messages.AppendSnapshot(data):
                assert self.pieces is not None
                self.pieces += data
            case messages.AbandonSnapshot():
                assert self.pieces is not None
                self.pieces = None
                self.seen["abandoned"] += 1

    def _release(self, ticket: int) -> None:
        for passed in [number for number in self.barriers if number <= ticket]:
            assert end_of(self.passed) >= self.barriers.pop(passed), "an early barrier"
            self.seen["barrier"] += 1

    def write_and_wait(self) -> None:
        """Write through the leader that the machine names, as a client does; add a barrier."""
        quorum, leader = self.quorum, self.machine.contact.leader
        if leader is None or leader[0] != quorum.leader.address:
            return
        quorum.write()
        quorum.commit()
        if quorum.leader.high_watermark == quorum.committed_end:
            self.barriers[self.machine.barriers.add()] = quorum.committed_end

    def _perform(self, request: messages.Request) -> messages.Event:
        match request:
            case messages.Wait(until):
                self.quorum.pass_time(max(until - self.now, 0.0))
                self.now = max(self.now, until)
                return messages.TimePassed()
            case messages.Stop():
                assert self.fault is not None
                return messages.TimePassed()
            case messages.Connect(address):
                assert self.node is None
                self.node = self.quorum.find(address)
                if self.node is None or self._goes_wrong():
                    self.node = None
                    return messages.ConnectionLost("connection", "refused")
                return messages.Connected(self.fetch_version)
            case messages.ApplySnapshot(snapshot):
                log = below(self.quorum.committed, snapshot.end_offset)
                assert snapshot.end_offset > end_of(self.passed)
                assert self.pieces == snapshot_bytes(log), "mixed pieces"
                self.passed, self.pieces = log, None
                self.seen["snapshot"] += 1
                return messages.SnapshotApplied()
            case messages.AskCluster() | messages.SendFetch() | messages.SendFetchSnapshot():
                return self._exchange(request)

    def _goes_wrong(self) -> bool:
        return self.random.random() < self.faults

    def _exchange(
        self, request: messages.AskCluster | messages.SendFetch | messages.SendFetchSnapshot
    ) -> messages.Event:
        node = self.node
        assert node is not None
        if not node.is_up or self.quorum.find(node.address) is not node or self._goes_wrong():
            return messages.ConnectionLost("connection", "cut")
        match request:
            case messages.AskCluster():
                return messages.ClusterAnswered("cluster")
            case messages.SendFetch(position):
                # The last batch is asked for again on each new connection.
                assert position.offset >= (self.passed[-1].base_offset if self.passed else 0)
                event = messages.FetchAnswered(*self.quorum.fetch(node, position))
                if event.answer.error_code == ErrorCode.NONE and self._loading_end is None:
                    self._loading_end = event.answer.high_watermark
                self.seen["diverging"] += event.answer.diverging is not None
                if self._goes_wrong():
                    return self.random.choice(GARBAGE)(event, self.random)
                return event
            case messages.SendFetchSnapshot(snapshot, position, epoch):
                answer = self.quorum.fetch_snapshot(node, snapshot, position, epoch)
                if self._goes_wrong():
                    answer = replace(answer, position=answer.position + 1)
                return messages.SnapshotAnswered(answer)
