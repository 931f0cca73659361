"""DescribeQuorum: a quorum of one, described as Kafka 4.3.1 with static voters describes it."""

from types import SimpleNamespace
from typing import Any

import pytest

from authorizerd.acl.model import Operation
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_service import ALICE, EPOCH, ROOT, KafkaService, Start, acl, on_cluster

VERSIONS = APIS[ApiKey.DESCRIBE_QUORUM].versions
METADATA = "__cluster_metadata"
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
MAY_DESCRIBE = on_cluster(Operation.DESCRIBE)
NODE_ID = 7

each_version = pytest.mark.parametrize("version", VERSIONS)


def topics_of(asked: dict[str, list[int]]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            topic_name=name,
            partitions=[SimpleNamespace(partition_index=number) for number in numbers],
        )
        for name, numbers in asked.items()
    ]


async def describe(
    service: KafkaService,
    version: int,
    asked: dict[str, list[int]] | None = None,
    *,
    principal: str = ALICE,
) -> Any:  # noqa: ANN401 - an entity of any version
    topics = topics_of({METADATA: [0]} if asked is None else asked)
    return await service.ask(ApiKey.DESCRIBE_QUORUM, version, principal=principal, topics=topics)


def texts(answered: Any, version: int) -> list[str]:  # noqa: ANN401 - an entity of any version
    """Return the texts of all errors; they exist from version 2."""
    if version < 2:
        return []
    partitions = [each for topic in answered.topics for each in topic.partitions]
    return [each.error_message for each in (answered, *partitions)]


@each_version
async def test_this_node_is_the_leader_and_only_voter(start: Start, version: int) -> None:
    """The epoch is the writer's. The log ends at the high water mark, which is the next offset."""
    service = await start(MAY_DESCRIBE)
    before = now_ms()
    answered = await describe(service, version)
    ((topic,), (partition,)) = answered.topics, answered.topics[0].partitions
    (voter,) = partition.current_voters
    assert (answered.error_code, topic.topic_name) == (0, METADATA)
    assert (partition.partition_index, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (NODE_ID, EPOCH)
    assert (partition.high_watermark, partition.observers) == (2, ())
    assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, 2)
    if version >= 1:
        assert before <= voter.last_caught_up_timestamp == voter.last_fetch_timestamp <= now_ms()
    if version >= 2:
        assert voter.replica_directory_id is None
        ((node,), (listener,)) = answered.nodes, answered.nodes[0].listeners
        assert node.node_id == NODE_ID
        assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "in.example", 9093)
        assert texts(answered, version) == ["", ""]


async def test_high_watermark_follows_acknowledged_writes(start: Start) -> None:
    service = await start(MAY_DESCRIBE)
    assert await service.create([acl("a"), acl("b")]) == [None, None]
    (topic,) = (await describe(service, 2)).topics
    assert topic.partitions[0].high_watermark == 4
    assert topic.partitions[0].current_voters[0].log_end_offset == 4


@pytest.mark.parametrize(
    "asked",
    [
        {"orders": [0]},
        {METADATA: [1]},
        {METADATA: [0, 1]},
        {METADATA: [0, 0]},
        {METADATA: []},
        {METADATA: [0], "orders": [0]},
        {"orders": list(range(600))},
        {},
    ],
    ids=str,
)
@each_version
async def test_other_partitions_are_unknown(
    start: Start, version: int, asked: dict[str, list[int]]
) -> None:
    """So is the metadata log's own partition, unless it is the only one requested. The outer error
    is 0.
    """
    service = await start(MAY_DESCRIBE)
    answered = await describe(service, version, asked)
    assert answered.error_code == ErrorCode.NONE
    assert [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answered.topics
    ] == [(name, [(number, UNKNOWN) for number in numbers]) for name, numbers in asked.items()]
    for topic in answered.topics:
        for each in topic.partitions:
            assert (each.leader_id, each.leader_epoch, each.high_watermark) == (0, 0, 0)
            assert (each.current_voters, each.observers) == ((), ())
    if version >= 2:
        assert answered.nodes == ()
        assert texts(answered, version) == ["", *[UNKNOWN.text] * sum(map(len, asked.values()))]


@each_version
async def test_malformed_request_ends_the_connection_without_the_right(
    service: KafkaService, version: int
) -> None:
    """Kafka, too, reads a request before it checks rights."""
    with pytest.raises(DecodeError):
        await service.raw(ApiKey.DESCRIBE_QUORUM, version, b"\xff", principal=ALICE)


@each_version
async def test_describe_of_the_cluster_is_required(start: Start, version: int) -> None:
    """The error is at the top, without topics. A right that implies DESCRIBE suffices."""
    service = await start(acl())
    denied = await describe(service, version)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (denied.error_code, denied.topics) == (code, ())
    assert texts(denied, version) == [code.text] * (version >= 2)
    assert await service.create([on_cluster(Operation.ALTER)]) == [None]
    assert (await describe(service, version)).error_code == ErrorCode.NONE


@each_version
async def test_quorum_is_refused_before_loading(unloaded: KafkaService, version: int) -> None:
    refused = await describe(unloaded, version)
    code = ErrorCode.AUTHORIZER_NOT_READY
    assert (refused.error_code, refused.topics) == (code, ())
    assert texts(refused, version) == [code.text] * (version >= 2)


@each_version
async def test_super_user_gets_no_leader_unloaded(unloaded: KafkaService, version: int) -> None:
    """The error is NOT_LEADER_OR_FOLLOWER, as from a Kafka node that is not elected yet."""
    answered = await describe(unloaded, version, principal=ROOT)
    assert answered.error_code == ErrorCode.NONE
    (partition,) = answered.topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_voters == ()
