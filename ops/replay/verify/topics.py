"""The topics that ``--logs`` names.

librdkafka is imported only if there is one, since it is an extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.topics import Topic

if TYPE_CHECKING:  # they take long to load
    from authorizerd.kafka_client.client import ClientSettings
    from authorizerd.replay.verify.topic_client import TopicClient


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
