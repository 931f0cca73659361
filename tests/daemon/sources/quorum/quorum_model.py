"""A model of a KRaft quorum: nodes, their logs, elections, and what each answers to a follower.

The model knows what is committed. Nodes answer by Kafka's rules, so a deposed leader, for example,
goes on to answer as the leader of its epoch.

Source: Kafka 4.3 KafkaRaftClient.tryCompleteFetchRequest, ReplicatedLog.validateOffsetAndEpoch,
LeaderState.maybeUpdateHighWatermark.
"""

from dataclasses import dataclass, field
from functools import cache
from random import Random

from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.batch import RecordBatch, decode_batch, encode_batch
from authorizerd.protocol.records.control import leader_change

PIECE_BYTES = 7
RESIGNATION_SECONDS = 5.0


def new_batch(base_offset: int, epoch: int, count: int, data: bytes) -> RecordBatch:
    """Return a batch of data. The machine never looks into ``data``."""
    return RecordBatch(
        base_offset=base_offset,
        leader_epoch=epoch,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        attributes=0,
        count=count,
        data=data,
    )


@cache
def leader_change_batch(base_offset: int, epoch: int) -> RecordBatch:
    """Return the batch that begins an epoch."""
    return decode_batch(encode_batch(base_offset, epoch, 0, [leader_change(1)], is_control=True))


def end_of(log: list[RecordBatch]) -> int:
    return log[-1].last_offset + 1 if log else 0


def below(log: list[RecordBatch], end: int) -> list[RecordBatch]:
    """Return the batches below offset ``end``."""
    return [batch for batch in log if batch.last_offset < end]


@dataclass
class ModelNode:
    """A controller. ``start`` and ``snapshot`` are 0 and None until it takes a snapshot."""

    id: int
    address: Address
    epoch: int = 0
    leader: int = -1
    log: list[RecordBatch] = field(default_factory=list)
    high_watermark: int = -1
    snapshot: SnapshotId | None = None
    is_up: bool = True
    deposed_seconds: float = 0.0

    @property
    def start(self) -> int:
        return 0 if self.snapshot is None else self.snapshot.end_offset

    def end_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the last epoch up to ``epoch``, and where it ends."""
        found = EpochEnd(0, 0) if self.snapshot is None else _end_of_snapshot(self.snapshot)
        for batch in self.log:
            if batch.leader_epoch <= epoch and batch.last_offset >= self.start:
                found = EpochEnd(batch.leader_epoch, batch.last_offset + 1)
        return found


def _end_of_snapshot(snapshot: SnapshotId) -> EpochEnd:
    return EpochEnd(snapshot.epoch, snapshot.end_offset)


class Quorum:
    """Three controllers. Only the newest leader commits.

    Args:
        is_hasty: new leaders report an older high watermark instead of none.
    """

    def __init__(self, random: Random, *, is_hasty: bool = False) -> None:
        self.random = random
        self.is_hasty = is_hasty
        self.committed: list[RecordBatch] = []
        self.nodes = {
            number: ModelNode(number, Address(f"controller-{number}", 9093)) for number in (1, 2, 3)
        }
        self.leader_id = -1
        self._moves = 0
        self._written = 0
        self.elect()

    @property
    def leader(self) -> ModelNode:
        return self.nodes[self.leader_id]

    @property
    def committed_end(self) -> int:
        return end_of(self.committed)

    def elect(self, leader_id: int | None = None) -> None:
        """Let a node with everything that is committed begin an epoch; the others do not know."""
        epoch = 1 + max(node.epoch for node in self.nodes.values())
        new = self.nodes[leader_id or self.random.choice(list(self.nodes))]
        # It has what is committed, and a part of what some node has beyond that.
        end = self.committed_end
        tails = [
            node.log
            for node in self.nodes.values()
            if below(node.log, end) == self.committed and end_of(node.log) >= end
        ]
        tail = self.random.choice(tails) if tails else self.committed
        new.log = below(tail, self.random.randint(end, max(end_of(tail), end)))
        new.log.append(leader_change_batch(end_of(new.log), epoch))
        new.epoch, new.leader, new.is_up = epoch, new.id, True
        new.high_watermark = self.random.randint(-1, end) if self.is_hasty else -1
        new.deposed_seconds = 0.0
        self.leader_id = new.id

    def pass_time(self, seconds: float) -> None:
        """Let a deposed leader resign after a while, since no majority fetches from it."""
        for node in self.nodes.values():
            if node.leader == node.id != self.leader_id:
                node.deposed_seconds += seconds
                if node.deposed_seconds > RESIGNATION_SECONDS:
                    node.leader = -1

    def inform(self) -> None:
        """Tell one node who leads. It truncates its log and follows."""
        node = self.random.choice(list(self.nodes.values()))
        if node is not self.leader:
            node.epoch, node.leader = self.leader.epoch, self.leader_id
            node.log = list(self.leader.log)
            node.snapshot = self.leader.snapshot

    def write(self) -> None:
        """Let any node that believes to lead append batches."""
        node = self.random.choice(list(self.nodes.values()))
        if node.leader != node.id:
            node = self.leader
        for _ in range(self.random.randint(1, 4)):
            self._written += 1
            data = self._written.to_bytes(8, "big")
            batch = new_batch(end_of(node.log), node.epoch, self.random.randint(1, 3), data)
            node.log.append(batch)

    def commit(self, *, everything: bool = False) -> None:
        """Let the leader's followers catch up with a part of its log."""
        log = self.leader.log
        fresh = [batch for batch in log if batch.last_offset >= self.committed_end]
        if not fresh:
            return
        last = fresh[-1] if everything else self.random.choice(fresh)
        end = last.last_offset + 1
        # A leader commits nothing until it can commit a record of its own epoch.
        if last.leader_epoch == self.leader.epoch:
            self.committed = below(log, end)
            self.leader.high_watermark = end

    def take_snapshot(self) -> None:
        """Let a node replace a part of its committed log by a snapshot."""
        node = self.random.choice(list(self.nodes.values()))
        end = min(node.high_watermark, self.committed_end, end_of(node.log))
        candidates = [batch for batch in node.log if node.start <= batch.last_offset < end]
        if candidates:
            last = self.random.choice(candidates)
            node.snapshot = SnapshotId(last.last_offset + 1, last.leader_epoch)

    def move(self) -> None:
        """Give a node another address, but the first keeps its own."""
        self._moves += 1
        node = self.nodes[self.random.choice((2, 3))]
        node.address = Address(f"moved-{self._moves}", 9093)

    def toggle(self) -> None:
        """Stop a node that does not lead, or start it again."""
        node = self.random.choice(list(self.nodes.values()))
        node.is_up = node is self.leader or not node.is_up

    def find(self, address: Address) -> ModelNode | None:
        """Return the running node at an address."""
        for node in self.nodes.values():
            if node.address == address and node.is_up:
                return node
        return None

    def _refusal(self, node: ModelNode, epoch: int) -> ErrorCode:
        if epoch < node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > node.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if node.leader == node.id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _endpoints(self, node: ModelNode) -> dict[int, tuple[str, int]]:
        leader = self.nodes.get(node.leader)
        return {} if leader is None else {leader.id: (leader.address.host, leader.address.port)}

    def fetch(
        self, node: ModelNode, position: FetchPosition
    ) -> tuple[FetchAnswer, list[RecordBatch]]:
        """Return a node's answer to a Fetch, and the batches in it."""
        code = self._refusal(node, position.leader_epoch)
        snapshot = diverging = None
        batches: list[RecordBatch] = []
        if not code:
            snapshot, diverging = _validate(node, position)
        if not (code or snapshot or diverging):
            batches = [batch for batch in node.log if batch.base_offset >= position.offset]
            batches = batches[: self.random.randint(1, 5)]
        answer = FetchAnswer(
            error_code=code,
            high_watermark=-1 if code else node.high_watermark,
            leader_id=node.leader,
            leader_epoch=node.epoch,
            diverging=diverging,
            snapshot=snapshot,
            endpoints=self._endpoints(node),
        )
        return answer, batches

    def fetch_snapshot(
        self, node: ModelNode, snapshot: SnapshotId, position: int, epoch: int
    ) -> SnapshotAnswer:
        """Return a node's answer to a FetchSnapshot."""
        code = self._refusal(node, epoch)
        if not code and node.snapshot != snapshot:
            code = ErrorCode.SNAPSHOT_NOT_FOUND
        data = snapshot_bytes(below(node.log, snapshot.end_offset))
        if not code and position >= len(data):
            code = ErrorCode.POSITION_OUT_OF_RANGE
        return SnapshotAnswer(
            error_code=code,
            leader_id=node.leader,
            leader_epoch=node.epoch,
            snapshot=None if code else snapshot,
            size=0 if code else len(data),
            position=position,
            data=b"" if code else data[position : position + PIECE_BYTES],
            endpoints=self._endpoints(node),
        )


def snapshot_bytes(log: list[RecordBatch]) -> bytes:
    """Return bytes that identify the state after ``log``."""
    return f"state at {end_of(log)}: {hash(tuple(batch.data for batch in log))}".encode()


def _validate(
    node: ModelNode, position: FetchPosition
) -> tuple[SnapshotId | None, EpochEnd | None]:
    """Return the snapshot to fetch, or where the logs diverge, or neither."""
    offset, epoch, snapshot = position.offset, position.last_epoch, node.snapshot
    if offset == 0 and epoch == 0:
        return snapshot, None
    if snapshot is not None and (
        offset < node.start
        or (offset == node.start and epoch != snapshot.epoch)
        or epoch < snapshot.epoch
    ):
        return snapshot, None
    end = node.end_for_epoch(epoch)
    return None, (end if end.epoch != epoch or end.end_offset < offset else None)
