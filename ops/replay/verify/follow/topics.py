"""Read topics as they are written, across retention, recreation, new partitions and restarts.

**Invariant:** a record is accepted only if the topic had one id before and after it was read, so
that offsets are never those of another topic of the same name. Each record is counted once, or as
lost if Kafka deleted it before; where nobody can know how many were lost, the partition counts as
a lost file.

A partition is read on only once the lines before a gap are counted: so the gap is counted with the
position that is past it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from authorizerd.replay.errors import TrafficError
from authorizerd.replay.topics import name_partition
from authorizerd.replay.verify.follow.state import PartitionPosition, State
from authorizerd.replay.verify.follow.waiting import FindTime, FollowedLog, Line

if TYPE_CHECKING:  # it imports librdkafka
    from authorizerd.replay.verify.topic_client import Description, Reading, TopicClient

READINGS_A_CHECK: Final = 10


class FollowedPartition(FollowedLog):
    """A partition, the place up to which it was read, and the lines that wait.

    Attributes:
        position: the place up to which its lines are counted.
        next: the offset that is read next.
        end: the end of the partition, as far as it is known.
        has_gap: it lacks the next offset.
    """

    def __init__(self, position: PartitionPosition, find_time: FindTime) -> None:
        super().__init__(find_time)
        self.position = position
        self.next = self.end = position.offset
        self.has_gap = False

    @property
    def name(self) -> str:
        return name_partition(self.position.topic, self.position.partition)

    @property
    def records_behind(self) -> int:
        return max(self.end, self.next) - self.position.offset

    def pass_to(self, offset: int) -> None:
        """Note that there is no record before an offset that was not read."""
        self.next = max(self.next, offset)
        self._move(())

    def _move(self, lines: Sequence[Line]) -> None:
        offset = self._waiting[0].number if self._waiting else self.next
        self.position = replace(self.position, offset=offset)


class FollowedTopic:
    """A topic, which is opened again after each problem.

    Args:
        positions: of all topics.
        bytes_max: the most bytes of its lines that wait.

    Attributes:
        partitions: by number; empty before the cluster has answered.
        silent_ms: since when it may have more lines than are known, because of a problem.
    """

    silent_ms: int | None = None

    def __init__(
        self,
        client: TopicClient,
        positions: Sequence[PartitionPosition],
        find_time: FindTime,
        bytes_max: int,
    ) -> None:
        self.partitions: dict[int, FollowedPartition] = {}
        self._lost_partitions = self._lost_records = 0
        self._client: Final = client
        self._positions: Final = positions
        self._find_time: Final = find_time
        self._bytes_max: Final = bytes_max
        self._found: Description | None = None
        """The topic that is being read, None while nothing is."""
        self._cluster_id: str | None = None
        self._readings = 0
        self._silent_partitions = ""
        self._is_first = not positions

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self.partitions.values())

    def close(self) -> None:
        self._found = None
        self._client.close()

    def read(self, since_ms: int) -> None:
        """Read what is new. Report the beginning of a problem. Blocks.

        Raises:
            TrafficError: no topic was ever read, and this one cannot be.
        """
        try:
            self._read()
            problem = self._silent_partitions
        except TrafficError as error:
            self.close()
            if self._is_first:
                raise
            problem = str(error)
        self._is_first = False
        if not problem:
            self.silent_ms = None
        elif self.silent_ms is None:
            self.silent_ms = since_ms
            print(f"authorizerd verify: {problem}; trying again", file=sys.stderr, flush=True)

    def save(self, state: State) -> State:
        """Return the state with the positions and the numbers of what was lost."""
        files, records = self._lost_partitions, self._lost_records
        self._lost_partitions = self._lost_records = 0
        counts = replace(
            state.counts,
            lost_files=state.counts.lost_files + files,
            lost_records=state.counts.lost_records + records,
        )
        others = (each for each in state.partitions if not self._owns(each))
        positions = (*others, *(each.position for each in self))
        return replace(state, counts=counts, partitions=positions)

    def _owns(self, position: PartitionPosition) -> bool:
        place = self._cluster_id, self._client.topic.name
        return (position.cluster_id, position.topic) == place

    def _read(self) -> None:
        """Accept the next records.

        Raises:
            TrafficError: the topic cannot be read now. Nothing is lost.
        """
        room = self._bytes_max - sum(each.waiting_bytes for each in self)
        if room <= 0 or (self._found is None and not self._open(self._client.describe())):
            return
        read = self._client.read(room)
        found = self._client.describe()
        if self._found is None or found.topic_id != self._found.topic_id:
            self.close()  # and forget what was read
            return
        self._accept(read)
        self._check()
        is_passed = [self._pass_gap(each) for each in self if each.has_gap]
        if any(is_passed) or self._add(found, begin=0):
            self._start()

    def _accept(self, read: Reading) -> None:
        for partition, offset, text in read.records:
            each = self.partitions[partition]
            if offset >= each.next:
                each.next = offset + 1
                each.add_line(text, offset, len(text))
        for number, end in read.ends.items():
            self.partitions[number].pass_to(end)
        for number, each in self.partitions.items():
            each.has_gap = each.has_gap or number in read.missing
            each.end = self._client.find_end(number)

    def _check(self) -> None:
        """Ask all leaders now and then: librdkafka does not say that one does not answer."""
        self._readings += 1
        if self._readings % READINGS_A_CHECK:
            return
        self._silent_partitions = ""
        for number in self.partitions:
            try:
                self._client.find_range(number)
            except TrafficError as error:
                self._silent_partitions = f"{error} (partition {number})"

    def _open(self, found: Description) -> bool:
        """Begin to read; return False if lines of an earlier topic must be counted before."""
        if self._cluster_id is None:
            self._cluster_id = found.cluster_id
            for each in filter(self._owns, self._positions):
                self.partitions[each.partition] = FollowedPartition(each, self._find_time)
        is_new = not self.partitions
        if any(each.position.topic_id != found.topic_id for each in self):
            if any(each.waiting for each in self):
                return False
            self._lost_partitions += len(self.partitions)
            self.partitions.clear()
        self._add(found, begin=None if is_new else 0)
        self._found = found
        self._start()
        return True

    def _add(self, found: Description, begin: int | None) -> bool:
        """Begin with partitions that are new, at an offset or the first one that there is."""
        client = self._client
        new = sorted(set(found.partitions) - self.partitions.keys())
        offsets = [client.find_range(each)[0] if begin is None else begin for each in new]
        for number, offset in zip(new, offsets, strict=True):
            position = PartitionPosition(
                cluster_id=found.cluster_id,
                topic=client.topic.name,
                topic_id=found.topic_id,
                partition=number,
                offset=offset,
            )
            self.partitions[number] = FollowedPartition(position, self._find_time)
        return bool(new)

    def _start(self) -> None:
        self._client.start({
            number: each.next for number, each in self.partitions.items() if not each.has_gap
        })  # fmt: skip

    def _pass_gap(self, partition: FollowedPartition) -> bool:
        """Count what a partition no longer has, once all lines before are counted."""
        if partition.waiting:
            return False
        begin, end = self._client.find_range(partition.position.partition)
        if begin > partition.next:
            self._lost_records += begin - partition.next
            partition.pass_to(begin)
        else:
            # A leader without the newest records was elected: others have their offsets now.
            self._lost_partitions += 1
            partition.next = min(partition.next, end)
            partition.pass_to(partition.next)
        partition.has_gap = False
        return True
