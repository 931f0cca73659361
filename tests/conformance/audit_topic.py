"""A topic of audit lines on the rig's broker."""

import time
from collections.abc import Sequence

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.properties import client_properties

TIMEOUT_SECONDS = 60.0


class AuditTopic:
    """A topic with three partitions, and the clients that change it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.servers = broker.sasl_plaintext
        self.client_config = broker.client_config(ADMIN)
        password = broker.settings.users[ADMIN]
        self.settings = client_properties(ADMIN, password)
        own = {key: text for key, text in self.settings.items() if "jaas" not in key}
        own |= {"sasl.username": ADMIN, "sasl.password": password}
        self._own: dict[str, str | int | float | bool] = {"bootstrap.servers": self.servers, **own}
        self._admin = AdminClient(self._own)

    @property
    def uri(self) -> str:
        return f"kafka://{self.servers}/{self.name}"

    def create(self) -> None:
        (created,) = self._admin.create_topics([NewTopic(self.name, 3)]).values()
        created.result(TIMEOUT_SECONDS)

    def delete(self) -> None:
        (deleted,) = self._admin.delete_topics([self.name]).values()
        deleted.result(TIMEOUT_SECONDS)

    def add_partition(self) -> None:
        """Give the topic a fourth partition."""
        (added,) = self._admin.create_partitions([NewPartitions(self.name, 4)]).values()
        added.result(TIMEOUT_SECONDS)
        ends_at = time.monotonic() + TIMEOUT_SECONDS
        while len(self._admin.list_topics(self.name).topics[self.name].partitions) != 4:
            assert time.monotonic() < ends_at, "no fourth partition"
            time.sleep(0.1)

    def delete_records(self, partition: int, before: int) -> None:
        end = TopicPartition(self.name, partition, before)
        (deleted,) = self._admin.delete_records([end]).values()
        deleted.result(TIMEOUT_SECONDS)

    def feed(self, lines: Sequence[bytes], *, partition: int = -1) -> None:
        """Write each line as a record, by default to any partition."""
        producer = Producer(self._own)  # a new one, which knows all partitions
        producer.list_topics(self.name)
        for number, line in enumerate(lines):
            producer.produce(self.name, line, partition=partition)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(TIMEOUT_SECONDS) == 0
