"""Which records of Kafka topics a table does not have yet.

**Invariant:** each record counts once. A commit has the next offset of each partition. The next
ingest reads from there up to end offsets that it looked up beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from authorizerd.replay.errors import JobError
from authorizerd.replay.topics import Topic, parse_topic

Offsets = Mapping[str, Mapping[int, int]]
"""The next offset of each partition, by topic (``Topic.uri``)."""


class NewRecords(NamedTuple):
    """The records of a topic from ``begins`` up to ``ends``, by partition.

    ``name`` is the address under which the topic was first read.
    """

    topic: Topic
    name: str
    begins: Mapping[int, int]
    ends: dict[int, int]

    @property
    def is_recorded(self) -> bool:
        """True if the table has all records; False for a topic that was never read."""
        return self.begins == self.ends


def find_recorded(topic: Topic, recorded: Iterable[str]) -> str:
    """Return the address under which the table recorded the topic, or the topic's own.

    Addresses that have a server in common name the same cluster.

    Raises:
        JobError: the table has a topic of the same name, perhaps from another cluster.
    """
    servers = set(topic.servers.split(","))
    for address in recorded:
        other = parse_topic(address, {})
        if other.name == topic.name:
            if servers.isdisjoint(other.servers.split(",")):
                raise JobError(
                    f"{topic.uri}: the table has records from {address}, which may be the same: "
                    "expected one of its servers in --input. For a topic of another cluster, use "
                    "another --out"
                )
            return address
    return topic.uri


def check_continues(topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Check that the topic still has the partitions and the records that were read.

    Raises:
        JobError: the topic has been recreated.
    """
    for partition, begin in begins.items():
        end = ends.get(partition, 0)
        if end < begin:
            raise JobError(
                f"{topic.uri}: partition {partition} ends at offset {end}, but the table has its "
                f"records up to offset {begin}: the topic was recreated: use another --out, or "
                "start over with --overwrite"
            )
