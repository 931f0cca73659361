"""Clients of a real broker that try a bit of everything, allowed or not."""

from concurrent.futures import wait
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_rig.broker import Broker

TIMEOUT_SECONDS = 20.0
READ_SECONDS = 1.0

Settings = dict[str, str | int | float | bool]


def client_settings(broker: Broker, user: str | None) -> Settings:
    """Return librdkafka's settings for a user; None is anonymous."""
    settings: Settings = {"log_level": 0}
    if user is None:
        return settings | {"bootstrap.servers": broker.plaintext}
    return settings | {
        "bootstrap.servers": broker.sasl_plaintext,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": broker.settings.users[user],
    }


def create_topics(broker: Broker, user: str, *names: str) -> None:
    admin = AdminClient(client_settings(broker, user))
    new = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
    for future in admin.create_topics(new).values():
        future.result(TIMEOUT_SECONDS)


def use_broker(broker: Broker, user: str | None, topics: list[str], group: str) -> None:
    """Describe, administer, write and read; ignore errors."""
    settings = client_settings(broker, user)
    admin = AdminClient(settings)
    for topic in topics:
        admin.list_topics(topic, timeout=TIMEOUT_SECONDS)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    anything: Any = None  # the stubs do not allow None
    every_acl = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    futures = [
        admin.describe_acls(every_acl),
        *admin.describe_configs(resources).values(),
        *admin.create_topics([NewTopic("new", num_partitions=1, replication_factor=1)]).values(),
        *admin.delete_topics(["absent"]).values(),
        *admin.describe_consumer_groups([group]).values(),
        *admin.delete_consumer_groups([group]).values(),
        *admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values(),
    ]
    wait(futures, TIMEOUT_SECONDS)
    _write(settings, topics)
    _read(settings, topics, group)


def _write(settings: Settings, topics: list[str]) -> None:
    producer = Producer(settings | {"message.timeout.ms": "2000"})
    for topic in topics:
        producer.produce(topic, b"value")
    producer.flush(TIMEOUT_SECONDS)


def _read(settings: Settings, topics: list[str], group: str) -> None:
    consumer = Consumer(settings | {"group.id": group, "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    consumer.consume(len(topics), timeout=READ_SECONDS)  # a denial is a message too
    consumer.close()
