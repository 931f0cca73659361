"""The topics that ``--logs`` names.

librdkafka is imported only if there is one, since it is an extra.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizerd.replay.errors import TrafficError
from authorizerd.replay.local.tallies import Tallies
from authorizerd.replay.topics import Topic, name_partition

if TYPE_CHECKING:  # they take long to load
    from authorizerd.kafka_client.client import ClientSettings
    from authorizerd.replay.verify.topic_client import TopicClient

SILENCE_S: Final = 60.0
"""Reading ends with an error if nothing comes for so long."""
_PIECE_BYTES: Final = 4 * 1024 * 1024


class TopicInput(NamedTuple):
    """A topic, and the settings to connect with; the topic has the addresses."""

    topic: Topic
    settings: ClientSettings


@contextmanager
def open_topics(topics: Sequence[TopicInput]) -> Iterator[list[TopicClient]]:
    """Yield a client of each topic, until the block ends.

    Raises:
        TrafficError: confluent-kafka is not installed, or a keystore cannot be read.
    """
    if not topics:
        yield []
        return
    try:
        from authorizerd.replay.verify.topic_client import TopicClient
    except ModuleNotFoundError as error:
        raise TrafficError(
            f"{topics[0].topic.uri}: reading a topic needs {error.name}: install "
            "authorizerd[topics]"
        ) from error
    with ExitStack() as stack:
        yield [stack.enter_context(closing(TopicClient(*each))) for each in topics]


def add_topic(client: TopicClient, tallies: Tallies) -> None:
    """Add each record that a topic has now as one line, once. Blocks.

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
            tallies.begin_file(name_partition(client.topic.name, partition))
            tallies.add_numbered((at, line) for _, at, line in some if at < end)
        # The last offsets may be those of control records, which have no lines.
        nexts = {partition: at + 1 for partition, at, _ in records} | read.ends
        ends = {number: end for number, end in ends.items() if nexts.get(number, 0) < end}
        if nexts:
            came_at = time.monotonic()
        elif time.monotonic() - came_at > SILENCE_S:
            raise TrafficError(f"{client.topic.uri}: no records in {SILENCE_S:g} s")
    if client.describe() != found:
        raise TrafficError(f"{client.topic.uri}: the topic was changed while it was read")
