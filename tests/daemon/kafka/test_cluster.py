"""Metadata, DescribeCluster, FindCoordinator: the answers for a cluster of one node."""

from uuid import UUID

import pytest

from authorizerd.acl.model import Operation, PermissionType, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from authorizerd.acl.steps import ITEMS_PER_CHUNK
from authorizerd.image.changes import TopicAdded
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.responses import BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS
from tests.daemon.cluster_requests import (
    COORDINATOR_VERSIONS,
    METADATA_VERSIONS,
    SHARE,
    TRANSACTION,
    describe_cluster,
    find_coordinators,
    metadata,
    topic,
)
from tests.daemon.kafka_service import ALICE, CLUSTER, ROOT, KafkaService, Start, acl, on_cluster

TOPIC_ID = UUID(int=5)
EVERY_OPERATION = bit_field(SUPPORTED[ResourceType.CLUSTER])
DESCRIBE_T = acl("t", operation=Operation.DESCRIBE)


@pytest.mark.parametrize("version", METADATA_VERSIONS)
async def test_metadata_describes_one_node(service: KafkaService, version: int) -> None:
    """The node has its advertised address. A request for all topics gets none."""
    answer = await metadata(service, version, is_all=True)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port) == (7, "broker.example", 9092)
    assert answer.topics == ()
    assert getattr(answer, "controller_id", 7) == 7
    assert getattr(answer, "cluster_id", CLUSTER.cluster_id) == CLUSTER.cluster_id
    assert getattr(answer, "error_code", 0) == 0


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("principal", [ALICE, ROOT])
async def test_unknown_topic_id_is_told_to_all(start: Start, version: int, principal: str) -> None:
    """The error is UNKNOWN_TOPIC_ID, with the id and no name. Names next to ids are ignored."""
    service = await start(DESCRIBE_T)
    asked = topic("t"), topic(topic_id=TOPIC_ID), topic("t")
    answer = await metadata(service, version, *asked, principal=principal)
    assert [(each.error_code, each.name, each.topic_id) for each in answer.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, TOPIC_ID)
    ]


@pytest.mark.parametrize("version", METADATA_VERSIONS)
async def test_repeated_topic_is_described_once(start: Start, version: int) -> None:
    service = await start(DESCRIBE_T)
    others = [topic(f"other-{number}") for number in range(3 * ITEMS_PER_CHUNK)]
    answer = await metadata(service, version, topic("t"), topic("t"), *others, topic("t"))
    assert [each.name for each in answer.topics] == ["t", *(each.name for each in others)]


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_without_topic_ids_refuse_them(start: Start, version: int) -> None:
    """Nothing else is answered, whether the topic exists or not. A null name comes back empty."""
    service = await start(DESCRIBE_T, cluster_changes=[TopicAdded("t", TOPIC_ID.bytes)])
    unknown = topic(topic_id=UUID(int=9))
    for unclear in (topic(topic_id=TOPIC_ID), unknown, topic("u", TOPIC_ID), topic()):
        answer = await metadata(service, version, topic("t"), unclear)
        assert [(each.error_code, each.name, each.topic_id) for each in answer.topics] == [
            (ErrorCode.INVALID_REQUEST, "t", None),
            (ErrorCode.INVALID_REQUEST, unclear.name or "", unclear.topic_id),
        ]
        assert answer.brokers == ()
        assert getattr(answer, "cluster_id", None) is None


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(
    ("granted", "denied", "operations"),
    [
        ((), (), 0),
        ((Operation.CREATE, Operation.CLUSTER_ACTION), (), 0),
        ((Operation.DESCRIBE,), (), 1 << Operation.DESCRIBE),
        ((Operation.ALTER,), (), 1 << Operation.ALTER | 1 << Operation.DESCRIBE),
        ((Operation.ALTER,), (Operation.DESCRIBE,), 0),
        ((Operation.ALL,), (), EVERY_OPERATION),
        ((Operation.ALL,), (Operation.ALTER,), EVERY_OPERATION & ~(1 << Operation.ALTER)),
    ],
)
async def test_cluster_operations_are_the_authorized_ones(
    start: Start,
    version: int,
    granted: tuple[Operation, ...],
    denied: tuple[Operation, ...],
    operations: int,
) -> None:
    """KIP-430: without DESCRIBE, which ALTER implies, they are 0. DescribeCluster agrees."""
    rules = [on_cluster(each) for each in granted]
    rules += [on_cluster(each, PermissionType.DENY) for each in denied]
    service = await start(*rules)
    answer = await metadata(service, version, wants_operations=True)
    assert answer.cluster_authorized_operations == operations
    described = await describe_cluster(service, version - 8, wants_operations=True)
    assert described.error_code == 0
    assert described.cluster_authorized_operations == operations
    assert service.events == []  # at TRACE, which this audit does not show


async def test_operations_are_omitted_unless_requested(service: KafkaService) -> None:
    """The field is INT32_MIN, even for a super user, and no rights are checked."""
    for version in (8, 9, 10):
        answer = await metadata(service, version, principal=ROOT)
        assert answer.cluster_authorized_operations == NOT_REQUESTED
    for version in range(3):
        described = await describe_cluster(service, version, principal=ROOT)
        assert described.cluster_authorized_operations == NOT_REQUESTED
    assert service.events == []


def mismatched(*, sent: str, wanted: str) -> tuple[ErrorCode, str]:
    text = (
        f"The request was sent to an endpoint of type {sent}, "
        f"but we wanted an endpoint of type {wanted}"
    )
    return ErrorCode.MISMATCHED_ENDPOINT_TYPE, text


@pytest.mark.parametrize("version", range(3))
async def test_any_client_may_describe_the_cluster(service: KafkaService, version: int) -> None:
    answer = await describe_cluster(service, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER.cluster_id, 7)
    (node,) = answer.brokers
    assert (node.broker_id, node.host, node.port) == (7, "broker.example", 9092)
    assert getattr(answer, "endpoint_type", BROKER_ENDPOINTS) == BROKER_ENDPOINTS


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("listener_name", "endpoint_type", "told"),
    [
        ("BROKER", BROKER_ENDPOINTS, (ErrorCode.NONE, None)),
        ("BROKER", CONTROLLER_ENDPOINTS, mismatched(sent="BROKER", wanted="CONTROLLER")),
        ("BROKER", 3, (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3")),
        ("CONTROLLER", CONTROLLER_ENDPOINTS, (ErrorCode.NONE, None)),
        ("CONTROLLER", BROKER_ENDPOINTS, mismatched(sent="CONTROLLER", wanted="BROKER")),
        ("CONTROLLER", 0, (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0")),
    ],
)
async def test_listener_describes_endpoints_of_its_own_type(
    service: KafkaService,
    version: int,
    listener_name: str,
    endpoint_type: int,
    told: tuple[ErrorCode, str | None],
) -> None:
    """KIP-919: brokers on a broker's listener, controllers on a controller's, with Kafka's texts.

    Versions without endpoint types have a different error.
    """
    answer = await describe_cluster(
        service, version, listener_name=listener_name, endpoint_type=endpoint_type, principal=ROOT
    )
    assert (answer.error_code, answer.error_message) == told
    is_error = told[0] != ErrorCode.NONE
    ports = [] if is_error else [CLUSTER.node_of(listener_name).port]
    assert [node.port for node in answer.brokers] == ports
    assert answer.endpoint_type == (BROKER_ENDPOINTS if is_error else endpoint_type)


@pytest.mark.parametrize("version", range(3))
async def test_controllers_are_described_only_with_alter(start: Start, version: int) -> None:
    """KIP-919: DESCRIBE is not enough, whichever endpoint type is requested."""
    for granted, is_told in ((Operation.DESCRIBE, False), (Operation.ALTER, True)):
        service = await start(on_cluster(granted, PermissionType.ALLOW))
        for endpoint_type in (CONTROLLER_ENDPOINTS, 0):
            answer = await describe_cluster(
                service, version, listener_name="CONTROLLER", endpoint_type=endpoint_type
            )
            refused = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert refused != is_told
            assert not refused or answer.error_message == "Cluster authorization failed."
        if is_told and not version:  # version 0 has no types: it asks for brokers
            assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", COORDINATOR_VERSIONS)
async def test_group_coordinator_requires_describe(start: Start, version: int) -> None:
    """The coordinator is this node. READ of the group implies DESCRIBE."""
    service = await start(acl("g", resource_type=ResourceType.GROUP))
    (found,) = await find_coordinators(service, version, "g")
    assert (found.error_code, found.node_id, found.host, found.port) == (
        ErrorCode.NONE,
        7,
        "broker.example",
        9092,
    )
    text = {0: None, 1: "NONE", 2: "NONE", 3: "NONE"}.get(version, "")
    assert getattr(found, "error_message", None) == text
    (hidden,) = await find_coordinators(service, version, "hidden")
    text = {0: None}.get(version, "" if version >= 4 else "Group authorization failed.")
    assert getattr(hidden, "error_message", None) == text
    assert (hidden.error_code, hidden.node_id, hidden.host, hidden.port) == (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        -1,
        "",
        -1,
    )


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (TRANSACTION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (SHARE, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_transactional_id_coordinator_requires_its_own_right(
    start: Start, version: int, key_type: int, error: ErrorCode
) -> None:
    """A transactional id needs DESCRIBE of it; unknown key types are refused."""
    service = await start(acl("g", resource_type=ResourceType.GROUP))
    (refused,) = await find_coordinators(service, version, "g", key_type=key_type)
    assert refused.error_code == error
    (found,) = await find_coordinators(service, version, "g", key_type=TRANSACTION, principal=ROOT)
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize(
    ("version", "key_type", "principal", "error", "text"),
    [
        (5, SHARE, ALICE, ErrorCode.INVALID_REQUEST, ""),
        (6, SHARE, ALICE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
        (6, SHARE, ROOT, ErrorCode.INVALID_REQUEST, ""),
        (6, 3, ALICE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text),
    ],
)
async def test_share_groups_have_no_coordinator(
    start: Start, version: int, key_type: int, principal: str, error: ErrorCode, text: str
) -> None:
    """Version 6 has their type, for callers with CLUSTER_ACTION. Unknown types are refused."""
    service = await start(acl("g", resource_type=ResourceType.GROUP))
    found = await find_coordinators(
        service, version, "g", "h", key_type=key_type, principal=principal
    )
    assert [(each.error_code, each.error_message) for each in found] == [(error, text)] * 2


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_each_of_many_keys_gets_its_own_answer(start: Start, version: int) -> None:
    """KIP-699: each answer has its key and error, in the request's order; without keys, none."""
    service = await start(acl("g", resource_type=ResourceType.GROUP))
    found = await find_coordinators(service, version, "hidden", "g", "other")
    assert [(each.key, each.error_code, each.node_id) for each in found] == [
        ("hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
        ("g", ErrorCode.NONE, 7),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
    ]
    assert await find_coordinators(service, version) == []
