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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.topics import name_partition
from authorizerd.replay.verify.follow.state import PartitionPosition, State
from authorizerd.replay.verify.follow.waiting import WAITING_BYTES_MAX, FollowedLog, Line

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

    def __init__(self, position: PartitionPosition) -> None:
        super().__init__()
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

    Attributes:
        partitions: by number; empty before the cluster has answered.
        lost_partitions: the number of partitions of which an unknown number of records is lost.
        lost_records: the number of offsets that Kafka deleted before they were read.
        problem: why a partition may have more lines than are known, or an empty text.
        silent_ms: since when there is a problem.
    """

    problem = ""
    silent_ms: int | None = None

    def __init__(self, client: TopicClient, find_time: Callable[[bytes], int | None]) -> None:
        self.partitions: dict[int, FollowedPartition] = {}
        self.lost_partitions = self.lost_records = 0
        self._client: Final = client
        self._find_time: Final = find_time
        self._found: Description | None = None
        """The topic that is being read, None while nothing is."""
        self._readings = 0

    def close(self) -> None:
        self._found = None
        self._client.close()

    def read(self, bytes_max: int, claim: Callable[[str, str], list[PartitionPosition]]) -> None:
        """Accept the next records. Blocks.

        Args:
            claim: returns the positions in a topic, given its cluster's id and its name.

        Raises:
            TrafficError: the topic cannot be read now. Nothing is lost.
        """
        try:
            if self._found is None and not self._open(self._client.describe(), claim):
                return
            read = self._client.read(bytes_max)
            found = self._client.describe()
            if self._found is None or found.topic_id != self._found.topic_id:
                self.close()  # and forget what was read
                return
            self._accept(read)
            self._check()
            is_passed = [self._pass_gap(each) for each in self.partitions.values() if each.has_gap]
            if any(is_passed) or self._add(found, begin=0):
                self._start()
        except TrafficError:
            self.close()
            raise

    def _accept(self, read: Reading) -> None:
        for partition, offset, text in read.records:
            each = self.partitions[partition]
            if offset >= each.next:
                each.next = offset + 1
                each.add_line(Line(text, offset, len(text), self._find_time(text)))
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
        self.problem = ""
        for number in self.partitions:
            try:
                self._client.find_range(number)
            except TrafficError as error:
                self.problem = f"{error} (partition {number})"

    def _open(
        self, found: Description, claim: Callable[[str, str], list[PartitionPosition]]
    ) -> bool:
        """Begin to read; return False if lines of an earlier topic must be counted before."""
        name = self._client.topic.name
        for position in claim(found.cluster_id, name):
            self.partitions[position.partition] = FollowedPartition(position)
        is_new = not self.partitions
        if any(each.position.topic_id != found.topic_id for each in self.partitions.values()):
            if any(each.waiting for each in self.partitions.values()):
                return False
            self.lost_partitions += len(self.partitions)
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
            self.partitions[number] = FollowedPartition(position)
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
            self.lost_records += begin - partition.next
            partition.pass_to(begin)
        else:
            # A leader without the newest records was elected: others have their offsets now.
            self.lost_partitions += 1
            partition.next = min(partition.next, end)
            partition.pass_to(partition.next)
        partition.has_gap = False
        return True


class FollowedTopics:
    """All topics that are followed, and the positions in others, which are kept."""

    def __init__(
        self,
        clients: Iterable[TopicClient],
        positions: Iterable[PartitionPosition],
        find_time: Callable[[bytes], int | None],
    ) -> None:
        self._topics: Final = [FollowedTopic(each, find_time) for each in clients]
        self._positions = list(positions)
        self._is_first = not self._positions

    def __iter__(self) -> Iterator[FollowedPartition]:
        return (each for topic in self._topics for each in topic.partitions.values())

    def read(self, since_ms: int) -> None:
        """Read what is new in all topics. Report the beginning of a problem. Blocks.

        Raises:
            TrafficError: a topic cannot be read, and none was before.
        """
        for topic in self._topics:
            room = WAITING_BYTES_MAX - sum(each.waiting_bytes for each in self)
            problem = topic.problem
            try:
                if room > 0:
                    topic.read(room, self._claim)
                    problem = topic.problem
            except TrafficError as error:
                if self._is_first:
                    raise
                problem = str(error)
            if not problem:
                topic.silent_ms = None
            elif topic.silent_ms is None:
                topic.silent_ms = since_ms
                print(f"authorizerd verify: {problem}; trying again", file=sys.stderr, flush=True)
        self._is_first = False

    @property
    def silent_ms(self) -> int | None:
        """Since when one of the topics does not answer."""
        times = [each.silent_ms for each in self._topics]
        return min((each for each in times if each is not None), default=None)

    def _claim(self, cluster_id: str, name: str) -> list[PartitionPosition]:
        """Hand over the positions in a topic."""
        claimed = [
            each for each in self._positions if (each.cluster_id, each.topic) == (cluster_id, name)
        ]
        self._positions = [each for each in self._positions if each not in claimed]
        return claimed

    def save(self, state: State) -> State:
        """Return the state with the positions and the numbers of what was lost."""
        files = sum(topic.lost_partitions for topic in self._topics)
        records = sum(topic.lost_records for topic in self._topics)
        for topic in self._topics:
            topic.lost_partitions = topic.lost_records = 0
        counts = replace(
            state.counts,
            lost_files=state.counts.lost_files + files,
            lost_records=state.counts.lost_records + records,
        )
        positions = (*self._positions, *(each.position for each in self))
        return replace(state, counts=counts, partitions=positions)

    def close(self) -> None:
        for topic in self._topics:
            topic.close()
