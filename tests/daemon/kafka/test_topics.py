"""Metadata's topics: which of them a caller sees, and with which operations."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from authorizerd.acl.steps import ITEMS_PER_CHUNK, finish
from authorizerd.actors.authorizer import Action, RequestContext
from authorizerd.daemon.kafka.permissions import RequestRights
from authorizerd.daemon.kafka.topics import TopicAnswers
from authorizerd.image.changes import (
    ClusterChange,
    Partition,
    PartitionAdded,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, ITEMS_PER_STEP
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX, encode_response
from authorizerd.protocol.kafka.responses import MetadataAnswer
from tests.daemon.cluster_requests import metadata, topic
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, acl
from tests.support.acls import acl as rule
from tests.support.kio_codec import decode_response

VERSIONS = APIS[ApiKey.METADATA].versions
WITH_OPERATIONS = VERSIONS[8:]
WITH_IDS = VERSIONS[10:]
BY_ID = VERSIONS[12:]
NODE_ID = 7
NOBODY = "User:nobody"
EVERY_OPERATION = bit_field(SUPPORTED[ResourceType.TOPIC])
UNKNOWN_ID = UUID(int=99)


def id_of(name: str) -> UUID:
    return UUID(bytes=name.encode().rjust(16, b"-")[-16:])


def partition(leader: int = NODE_ID, replicas: tuple[int, ...] = (NODE_ID, 8)) -> Partition:
    return Partition(
        replicas=replicas, isr=replicas[:1], leader=leader, leader_epoch=5, partition_epoch=6
    )


def created(name: str, *partitions: Partition) -> list[ClusterChange]:
    topic_id = id_of(name).bytes
    return [
        TopicAdded(name, topic_id),
        *(PartitionAdded(topic_id, number, each) for number, each in enumerate(partitions)),
    ]


TOPICS = [*created("seen", partition()), *created("hidden", partition())]
DESCRIBE_SEEN = acl("seen", operation=Operation.DESCRIBE)
DESCRIBE_ALL = acl("*", operation=Operation.DESCRIBE)
DENY_WRITE = rule(ALICE, "WRITE", topic="se", pattern="PREFIXED", deny=True)


async def told(
    service: KafkaService,
    version: int,
    *asked: str | UUID,
    principal: str = ALICE,
    wants_operations: bool = False,
    is_all: bool = False,
) -> list[SimpleNamespace]:
    """Return the answers for these names and ids, or for all topics."""
    topics = [topic(each) if isinstance(each, str) else topic(topic_id=each) for each in asked]
    answer = await metadata(
        service,
        version,
        *topics,
        principal=principal,
        wants_topic_operations=wants_operations,
        is_all=is_all,
    )
    return list(answer.topics)


def error_name_id(topic: SimpleNamespace) -> tuple[int, str | None, UUID | None]:
    return topic.error_code, topic.name, getattr(topic, "topic_id", None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_topic_without_describe_is_denied_existing_or_not(start: Start, version: int) -> None:
    """Both answers have TOPIC_AUTHORIZATION_FAILED, a zero id and no partition."""
    service = await start(DESCRIBE_SEEN, cluster_changes=TOPICS)
    exists, misses = await told(service, version, "hidden", "absent", wants_operations=version >= 8)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert error_name_id(exists) == (denied, "hidden", None)
    assert error_name_id(misses) == (denied, "absent", None)
    for each in exists, misses:
        assert each.partitions == ()
        assert getattr(each, "topic_authorized_operations", NOT_REQUESTED) == NOT_REQUESTED


@pytest.mark.parametrize("version", VERSIONS)
async def test_describable_topic_is_described_as_in_the_log(start: Start, version: int) -> None:
    """The answer has its id, and each partition's leader, epoch, replicas and in-sync replicas."""
    topics = created("seen", partition(), partition(leader=8, replicas=(8, NODE_ID, 9)))
    service = await start(DESCRIBE_SEEN, cluster_changes=topics)
    (topic,) = await told(service, version, "seen")
    expected_id = id_of("seen") if version in WITH_IDS else None
    assert error_name_id(topic) == (ErrorCode.NONE, "seen", expected_id)
    assert getattr(topic, "is_internal", False) is False
    led, unled = topic.partitions
    assert (led.error_code, led.partition_index, led.leader_id) == (ErrorCode.NONE, 0, NODE_ID)
    assert (led.replica_nodes, led.isr_nodes) == ((NODE_ID, 8), (NODE_ID,))
    assert getattr(led, "leader_epoch", 5) == 5
    assert getattr(led, "offline_replicas", (8,)) == (8,)
    # No node but this one is registered.
    assert (unled.error_code, unled.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (unled.replica_nodes, unled.isr_nodes) == ((8, NODE_ID, 9), (8,))
    assert getattr(unled, "offline_replicas", (8, 9)) == (8, 9)


@pytest.mark.parametrize("version", VERSIONS)
async def test_list_of_all_topics_omits_those_without_describe(start: Start, version: int) -> None:
    """A null list asks for all topics; in version 0, an empty list does. Omitted topics are audited
    at TRACE only.
    """
    service = await start(DESCRIBE_SEEN, cluster_changes=TOPICS)
    topics = await told(service, version, is_all=True)
    assert [each.name for each in topics] == ["seen"]
    assert [(event.level, event.question.resource_name) for event in service.events] == [
        (AuditLevel.DEBUG, "seen")
    ]
    everything = await told(service, version, is_all=True, principal=ROOT)
    assert {each.name for each in everything} == {"seen", "hidden"}
    assert await told(service, version, is_all=True, principal=NOBODY) == []
    if version:
        assert await told(service, version, principal=ROOT) == []


@pytest.mark.parametrize("version", BY_ID)
async def test_topic_id_is_unknown_hidden_or_described(start: Start, version: int) -> None:
    """An unknown id gets UNKNOWN_TOPIC_ID.

    A hidden topic gets TOPIC_AUTHORIZATION_FAILED and a null name.
    """
    service = await start(DESCRIBE_SEEN, cluster_changes=TOPICS)
    asked = UNKNOWN_ID, id_of("hidden"), id_of("seen")
    assert [error_name_id(each) for each in await told(service, version, *asked)] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, UNKNOWN_ID),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, id_of("hidden")),
        (ErrorCode.NONE, "seen", id_of("seen")),
    ]
    assert [event.question.resource_name for event in service.events] == ["hidden", "seen"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_missing_topic_is_told_only_to_authorized_callers(start: Start, version: int) -> None:
    """They get UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION for an illegal name. No topic
    is created.
    """
    service = await start(DESCRIBE_ALL)
    names = ["absent", "a/b", "", ".", "..", "x" * 249, "x" * 250, "...", "ä"]
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    codes = [unknown, *[invalid] * 4, unknown, invalid, unknown, invalid]
    assert [each.error_code for each in await told(service, version, *names)] == codes
    denied = await told(service, version, *names, principal=NOBODY)
    assert {each.error_code for each in denied} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert await told(service, version, is_all=True, principal=ROOT) == []
    if version in WITH_OPERATIONS:
        (absent,) = await told(service, version, "absent", wants_operations=True)
        assert absent.topic_authorized_operations == 1 << Operation.DESCRIBE


@pytest.mark.parametrize("version", WITH_OPERATIONS)
@pytest.mark.parametrize(
    ("rules", "operations"),
    [
        ([DESCRIBE_SEEN], 1 << Operation.DESCRIBE),
        ([acl("seen")], 1 << Operation.READ | 1 << Operation.DESCRIBE),
        ([acl("seen", operation=Operation.ALL)], EVERY_OPERATION),
        (
            [acl("*", operation=Operation.ALL), DENY_WRITE],
            EVERY_OPERATION & ~(1 << Operation.WRITE),
        ),
    ],
    ids=["describe", "read", "all", "all but one"],
)
async def test_topic_operations_are_the_authorized_ones(
    start: Start, version: int, rules: list[Acl], operations: int
) -> None:
    """This holds by name, by id and among all topics. Implied operations are included.

    INT32_MIN means that the operations were not requested.
    """
    service = await start(*rules, cluster_changes=created("seen", partition()))
    asked: list[str | UUID] = ["seen"]
    if version in BY_ID:
        asked.append(id_of("seen"))
    for answer in [
        *await told(service, version, *asked, wants_operations=True),
        *await told(service, version, is_all=True, wants_operations=True),
    ]:
        assert answer.topic_authorized_operations == operations
    for answer in await told(service, version, *asked):
        assert answer.topic_authorized_operations == NOT_REQUESTED


async def test_only_describe_is_audited_when_operations_are_requested(start: Start) -> None:
    """Questions about operations are audited at TRACE only, allowed or denied."""
    service = await start(acl("seen"), cluster_changes=TOPICS)
    await told(service, 13, "seen", "hidden", wants_operations=True)
    assert [
        (event.level, event.question.operation, event.question.resource_name)
        for event in service.events
    ] == [
        (AuditLevel.DEBUG, Operation.DESCRIBE, "seen"),
        (AuditLevel.INFO, Operation.DESCRIBE, "hidden"),
    ]


async def test_kafkas_own_topics_are_internal(start: Start) -> None:
    """They need not exist. Without DESCRIBE they are hidden like others."""
    there = created("__consumer_offsets", partition())
    service = await start(DESCRIBE_ALL, cluster_changes=there)
    names = ["__consumer_offsets", "__transaction_state", "__share_group_state", "__mine"]
    topics = await told(service, 13, *names)
    assert [each.is_internal for each in topics] == [True, True, True, False]
    assert not any(each.is_internal for each in await told(service, 13, *names, principal=NOBODY))


async def test_topics_that_change_while_running_are_seen(start: Start) -> None:
    service = await start(DESCRIBE_ALL, cluster_changes=TOPICS)
    await service.commit(TopicRemoved(id_of("seen").bytes), *created("new"))
    await trio.testing.wait_all_tasks_blocked()
    seen, new = await told(service, 13, "seen", "new")
    (by_id,) = await told(service, 13, id_of("seen"))
    assert seen.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert new.error_code == ErrorCode.NONE


@pytest.mark.parametrize("are_all", [False, True])
async def test_long_request_is_answered_from_one_state(start: Start, are_all: bool) -> None:
    """A change of ACLs or topics during the request does not affect the answer."""
    names = [f"t{number}" for number in range(REQUEST_ITEMS_MAX // 4)]
    topics = [change for name in names for change in created(name)]
    service = await start(DESCRIBE_ALL, cluster_changes=topics)
    changed = trio.Event()

    async def change() -> None:
        while not service.events:  # once the first topic has been asked about
            await trio.lowlevel.checkpoint()
        assert await service.create([rule(ALICE, "DESCRIBE", topic="*", deny=True)]) == [None]
        await service.commit(*(TopicRemoved(id_of(name).bytes) for name in names[-100:]))
        await service.running.applier.snapshot.wait_until(
            lambda newest: newest is not None and newest.offset == service.running.log.last_offset
        )
        changed.set()

    async with trio.open_nursery() as asking:
        asking.start_soon(change)
        with trio.fail_after(30):
            answers = await told(
                service, 13, *([] if are_all else names), is_all=are_all, wants_operations=True
            )
        assert changed.is_set(), "the state changed meanwhile"
    assert len(answers) == len(names)
    assert {(each.error_code, each.topic_authorized_operations) for each in answers} == {
        (ErrorCode.NONE, 1 << Operation.DESCRIBE)
    }
    assert await told(service, 13, is_all=True) == []


def test_long_answer_is_created_in_small_steps() -> None:
    """A few items are written in each step. The body comes in chunks."""
    names = [f"t{number}" for number in range(10 * ITEMS_PER_CHUNK)]
    changes = [change for name in names for change in created(name)]
    changes += created("wide", *[partition()] * 10_000)
    image = apply_cluster_changes(EMPTY_IMAGE, changes)

    def authorize(context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return [True] * len(actions)

    context = RequestContext(principal=ALICE, host=None, request_name="Metadata")
    answers = TopicAnswers(image, RequestRights(authorize, context), NODE_ID, wants_operations=True)
    answers.add_described([*image.topics.values()])
    whole = MetadataAnswer(brokers=(), topics=answers)
    assert len(list(encode_response(ApiKey.METADATA, 13, whole))) > 10_000 // ITEMS_PER_STEP
    chunks = finish(encode_response(ApiKey.METADATA, 13, whole))
    assert len(chunks) > 1
    assert max(map(len, chunks)) < CHUNK_BYTES + 1000
    body: Any = finish(decode_response(ApiKey.METADATA, 13, b"".join(chunks)))
    [wide] = [topic for topic in body.topics if topic.name == "wide"]
    assert [each.partition_index for each in wide.partitions] == list(range(10_000))
    assert len(body.topics) == len(names) + 1
