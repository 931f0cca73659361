"""A topic of librdkafka's mock cluster, whose brokers are in this process."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from authorizerd.replay.topics import SCHEME
from authorizerd.replay.verify.topic_client import Description, TopicClient

TIMEOUT_S = 30.0
KEPT_BYTES = 5 * 1024 * 1024
"""A partition keeps about so much of its newest records."""


def _describe(client: TopicClient) -> Description:
    """Describe a topic of a cluster that names no controller, and whose topics have no ids."""
    found = client._admin.list_topics(client.topic.name, TIMEOUT_S)
    return Description("mock", "", tuple(found.topics[client.topic.name].partitions))


class MockTopic:
    """A topic with four partitions on three brokers, which ends with the process."""

    def __init__(self, name: str, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(TopicClient, "describe", _describe)
        self.name = name
        self._producer = Producer(
            {"bootstrap.servers": "mock:1", "test.mock.num.brokers": 3, "log_level": 0}
        )
        self.feed([], 0)

    @property
    def servers(self) -> str:
        brokers = self._producer.list_topics(self.name, TIMEOUT_S).brokers.values()
        return ",".join(f"{each.host}:{each.port}" for each in brokers)

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.servers}/{self.name}"

    def feed(self, lines: Iterable[str | None], partition: int) -> None:
        """Write each line as a record."""
        self._producer.list_topics(self.name, TIMEOUT_S)
        for line in lines:
            self._producer.produce(self.name, line, partition=partition)
        assert self._producer.flush(TIMEOUT_S) == 0
