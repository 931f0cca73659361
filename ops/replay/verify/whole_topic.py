"""Read all records that a topic has when the reading begins.

**Invariant:** each record is read once, or there is an error.
"""

from __future__ import annotations

import time
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.topics import name_partition

if TYPE_CHECKING:  # it imports librdkafka
    from authorizerd.replay.verify.topic_client import TopicClient

SILENCE_S: Final = 60.0
"""Reading ends with an error if nothing comes for so long."""
_PIECE_BYTES: Final = 4 * 1024 * 1024


def add_topic(client: TopicClient, tallies: Tallies) -> None:
    """Add each record of a topic as one line. Blocks.

    Raises:
        NeedsSparkError: there are too many distinct requests to keep.
        TrafficError: the topic cannot be read, or was deleted or shortened meanwhile.
    """
    found = client.describe()
    ranges = {number: client.find_range(number) for number in found.partitions}
    ends = {number: end for number, (begin, end) in ranges.items() if begin < end}
    client.start({number: ranges[number][0] for number in ends})
    came_at = time.monotonic()
    while ends:
        read = client.read(_PIECE_BYTES)
        if read.missing:
            raise TrafficError(
                f"{client.topic.uri}: Kafka deleted records before they were read: set a longer "
                "retention, or repeat the command"
            )
        records = sorted(read.records)
        for partition, some in groupby(records, itemgetter(0)):
            end = ends.get(partition, 0)
            name = name_partition(client.topic.name, partition)
            tallies.add_numbered(name, ((at, line) for _, at, line in some if at < end))
        # The last offsets may be those of control records, which have no lines.
        nexts = {partition: at + 1 for partition, at, _ in records} | read.ends
        ends = {number: end for number, end in ends.items() if nexts.get(number, 0) < end}
        if nexts:
            came_at = time.monotonic()
        elif time.monotonic() - came_at > SILENCE_S:
            raise TrafficError(f"{client.topic.uri}: no records in {SILENCE_S:g} s")
    if client.describe() != found:
        raise TrafficError(f"{client.topic.uri}: the topic was changed while it was read")
