"""A topic of audit lines on the rig's brokers."""

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.properties import client_properties

TIMEOUT_SECONDS = 60.0


class AuditTopic:
    """A topic with three partitions, and the clients that change it."""

    def __init__(self, servers: str, client_config: Path, password: str, name: str) -> None:
        self.name = name
        self.servers = servers
        self.client_config = client_config
        self.settings = client_properties(ADMIN, password)
        own = {key: text for key, text in self.settings.items() if "jaas" not in key}
        own |= {"sasl.username": ADMIN, "sasl.password": password}
        self._own: dict[str, str | int | float | bool] = {"bootstrap.servers": self.servers, **own}
        self._admin = AdminClient(self._own)

    @property
    def uri(self) -> str:
        return f"kafka://{self.servers}/{self.name}"

    @classmethod
    def of_broker(cls, broker: Broker, name: str) -> "AuditTopic":
        password = broker.settings.users[ADMIN]
        return cls(broker.sasl_plaintext, broker.client_config(ADMIN), password, name)

    @classmethod
    def of_cluster(cls, cluster: Cluster, name: str) -> "AuditTopic":
        password = cluster.settings.node.users[ADMIN]
        return cls(cluster.bootstrap_servers, cluster.client_config(ADMIN), password, name)

    def create(self, replicas: int = 1) -> None:
        (created,) = self._admin.create_topics([NewTopic(self.name, 3, replicas)]).values()
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
        # A new one knows all partitions.
        producer = Producer({**self._own, "enable.idempotence": True})
        producer.list_topics(self.name)
        for number, line in enumerate(lines):
            producer.produce(self.name, line, partition=partition)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(TIMEOUT_SECONDS) == 0

    def feed_transaction(self, lines: Sequence[bytes], *, commits: bool) -> None:
        """Write lines in a transaction, which is committed or aborted."""
        producer = Producer({**self._own, "transactional.id": self.name})
        producer.init_transactions(TIMEOUT_SECONDS)
        producer.begin_transaction()
        for line in lines:
            producer.produce(self.name, line)
        producer.flush(TIMEOUT_SECONDS)
        (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_SECONDS)
