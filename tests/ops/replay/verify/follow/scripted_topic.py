"""A topic in memory, whose records are deleted, and which is created again, at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from authorizerd.replay.errors import TrafficError
from authorizerd.replay.topics import Topic
from authorizerd.replay.verify.topic_client import Description, Reading, Record, TopicClient

CONTROL = None
"""In place of a line: a record that consumers do not get."""


class ScriptedTopic(TopicClient):
    """The topic, and the client that reads it.

    Attributes:
        is_away: no broker answers.
        without_leader: the partitions whose leader does not answer.
        repeats: the records of each answer come again in the next one.
        within_read: called once after the next records were taken, and before the caller has them.
    """

    def __init__(self) -> None:
        self.topic = Topic(servers="h:1", name="audit")
        self.topic_id = 0
        self.is_away = self.repeats = False
        self.without_leader: set[int] = set()
        self._given: list[Record] = []
        self.within_read: Callable[[], None] | None = None
        self.recreate(2)

    def recreate(self, partitions: int) -> None:
        self.topic_id += 1
        self._next: dict[int, int] = getattr(self, "_next", {})
        self._begins = [0] * partitions
        self.lines: list[list[str | None]] = [[] for _ in range(partitions)]

    def add_partition(self) -> None:
        self.lines.append([])
        self._begins.append(0)

    def delete_before(self, partition: int, offset: int) -> None:
        self._begins[partition] = max(self._begins[partition], offset)

    def truncate(self, partition: int, offset: int) -> None:
        """Elect a leader that lacks the records from an offset on."""
        del self.lines[partition][offset:]

    def _ask(self) -> None:
        if self.is_away:
            raise TrafficError("kafka://h:1/audit: no answer")

    def close(self) -> None:
        self._next = {}

    def describe(self) -> Description:
        self._ask()
        return Description("cluster", str(self.topic_id), tuple(range(len(self.lines))))

    def find_range(self, partition: int) -> tuple[int, int]:
        self._ask()
        if partition in self.without_leader:
            raise TrafficError("kafka://h:1/audit: no answer")
        return self._begins[partition], len(self.lines[partition])

    def find_end(self, partition: int) -> int:
        return len(self.lines[partition])

    def start(self, offsets: Mapping[int, int]) -> None:
        self._next = dict(offsets)

    def read(self, bytes_max: int) -> Reading:
        """Return records up to a number of bytes, of whichever topic there is now."""
        self._ask()
        found = Reading([], {}, set())
        for partition, offset in [*self._next.items()]:
            if partition >= len(self.lines) or partition in self.without_leader:
                continue
            lines = self.lines[partition]
            if not self._begins[partition] <= offset <= len(lines):
                found.missing.add(partition)
                del self._next[partition]
                continue
            for at, line in enumerate(lines[offset:], offset):
                if bytes_max <= 0:
                    break
                self._next[partition] = at + 1
                if line is not CONTROL:
                    found.records.append(Record(partition, at, line.encode()))
                    bytes_max -= len(line)
            else:
                found.ends[partition] = len(lines)
        if self.repeats:
            found.records[:0], self._given = self._given, [*found.records]
        if self.within_read is not None:
            self.within_read()
            self.within_read = None
        return found
