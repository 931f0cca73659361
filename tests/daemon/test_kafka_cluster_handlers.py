"""Metadata, DescribeCluster, FindCoordinator: what is told of a cluster of one node."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest
import trio

from acl.audit import AuditLevel
from acl.model import Operation, PermissionType, ResourceType
from acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from daemon.kafka_answers import BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS
from protocol.kafka_api import APIS, ApiKey
from protocol.kafka_errors import ErrorCode
from tests.daemon.kafka_service import ALICE, CLUSTER, ROOT, KafkaService, acl, on_cluster, start

TOPIC_ID = UUID(int=5)
EVERY_OPERATION = bit_field(SUPPORTED[ResourceType.CLUSTER])
METADATA_VERSIONS = APIS[ApiKey.METADATA].versions
COORDINATOR_VERSIONS = APIS[ApiKey.FIND_COORDINATOR].versions
DESCRIBE_T = acl("t", operation=Operation.DESCRIBE)
GROUP, TRANSACTION, SHARE = range(3)


def topic(name: str | None = None, topic_id: UUID | None = None) -> SimpleNamespace:
    return SimpleNamespace(name=name, topic_id=topic_id)


async def metadata(
    service: KafkaService,
    version: int,
    *topics: SimpleNamespace,
    principal: str = ALICE,
    wants_operations: bool = False,
    is_all: bool = False,
) -> SimpleNamespace:
    answer: SimpleNamespace = await service.ask(
        ApiKey.METADATA,
        version,
        principal=principal,
        topics=None if is_all and version else topics,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=wants_operations,
        include_topic_authorized_operations=True,
    )
    return answer


@pytest.mark.parametrize("version", METADATA_VERSIONS)
async def test_metadata_tells_of_one_node(nursery: trio.Nursery, version: int) -> None:
    """By its advertised address; no topics where all are asked for."""
    service = await start(nursery)
    answer = await metadata(service, version, is_all=True)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port) == (7, "broker.example", 9092)
    assert answer.topics == ()
    assert getattr(answer, "controller_id", 7) == 7
    assert getattr(answer, "cluster_id", CLUSTER.cluster_id) == CLUSTER.cluster_id
    assert getattr(answer, "error_code", 0) == 0
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", METADATA_VERSIONS)
async def test_a_topic_is_unknown_only_to_who_may_describe_it(
    nursery: trio.Nursery, version: int
) -> None:
    """To everyone else it is TOPIC_AUTHORIZATION_FAILED, with no id, in the request's order."""
    service = await start(nursery, DESCRIBE_T)
    answer = await metadata(service, version, topic("hidden"), topic("t"), topic("other"))
    assert [(each.error_code, each.name) for each in answer.topics] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "hidden"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "other"),
    ]
    assert {getattr(each, "topic_id", None) for each in answer.topics} == {None}
    assert [event.level for event in service.events] == [
        AuditLevel.INFO,
        AuditLevel.DEBUG,
        AuditLevel.INFO,
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("principal", [ALICE, ROOT])
async def test_an_unknown_id_is_unknown_to_everyone(
    nursery: trio.Nursery, version: int, principal: str
) -> None:
    """UNKNOWN_TOPIC_ID with the id and no name, beside topics that have one."""
    service = await start(nursery, DESCRIBE_T)
    asked = topic(topic_id=TOPIC_ID), topic("t"), topic(topic_id=TOPIC_ID)
    answer = await metadata(service, version, *asked, principal=principal)
    unknown = (ErrorCode.UNKNOWN_TOPIC_ID, None, TOPIC_ID)
    assert [(each.error_code, each.name, each.topic_id) for each in answer.topics] == [
        unknown,
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t", None),
        unknown,
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_without_topic_ids_refuse_them(nursery: trio.Nursery, version: int) -> None:
    """A null name, which their answers cannot repeat, is INVALID_REQUEST with an empty one."""
    service = await start(nursery)
    answer = await metadata(service, version, topic(topic_id=TOPIC_ID))
    (refused,) = answer.topics
    assert (refused.error_code, refused.name) == (ErrorCode.INVALID_REQUEST, "")
    nursery.cancel_scope.cancel()


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
async def test_the_clusters_operations_are_those_that_are_authorized(
    nursery: trio.Nursery,
    version: int,
    granted: tuple[Operation, ...],
    denied: tuple[Operation, ...],
    operations: int,
) -> None:
    """KIP-430: 0 without DESCRIBE, which ALTER implies; the same in DescribeCluster."""
    rules = [on_cluster(each) for each in granted]
    rules += [on_cluster(each, PermissionType.DENY) for each in denied]
    service = await start(nursery, *rules)
    answer = await metadata(service, version, wants_operations=True)
    assert answer.cluster_authorized_operations == operations
    described = await describe_cluster(service, version - 8, wants_operations=True)
    assert described.error_code == 0
    assert described.cluster_authorized_operations == operations
    assert service.events == []  # at TRACE, which this audit does not show
    nursery.cancel_scope.cancel()


async def test_operations_that_are_not_asked_for_are_not_told(nursery: trio.Nursery) -> None:
    """INT32_MIN, to a super user as well; nobody's rights are looked at."""
    service = await start(nursery)
    for version in (8, 9, 10):
        answer = await metadata(service, version, principal=ROOT)
        assert answer.cluster_authorized_operations == NOT_REQUESTED
    for version in range(3):
        described = await describe_cluster(service, version, principal=ROOT)
        assert described.cluster_authorized_operations == NOT_REQUESTED
    assert service.events == []
    nursery.cancel_scope.cancel()


async def describe_cluster(
    service: KafkaService,
    version: int,
    *,
    principal: str = ALICE,
    listener_name: str = "BROKER",
    endpoint_type: int = BROKER_ENDPOINTS,
    wants_operations: bool = False,
) -> SimpleNamespace:
    answer: SimpleNamespace = await service.ask(
        ApiKey.DESCRIBE_CLUSTER,
        version,
        principal=principal,
        listener_name=listener_name,
        include_cluster_authorized_operations=wants_operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=False,
    )
    return answer


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster_tells_of_one_node(nursery: trio.Nursery, version: int) -> None:
    """Anyone may ask."""
    service = await start(nursery)
    answer = await describe_cluster(service, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER.cluster_id, 7)
    (node,) = answer.brokers
    assert (node.broker_id, node.host, node.port) == (7, "broker.example", 9092)
    assert getattr(answer, "endpoint_type", BROKER_ENDPOINTS) == BROKER_ENDPOINTS
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("listener_name", "endpoint_type", "error"),
    [
        ("BROKER", BROKER_ENDPOINTS, ErrorCode.NONE),
        ("BROKER", CONTROLLER_ENDPOINTS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        ("BROKER", 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ("CONTROLLER", CONTROLLER_ENDPOINTS, ErrorCode.NONE),
        ("CONTROLLER", BROKER_ENDPOINTS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        ("CONTROLLER", 0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_a_listener_tells_of_endpoints_of_its_own_type(
    nursery: trio.Nursery, version: int, listener_name: str, endpoint_type: int, error: ErrorCode
) -> None:
    """KIP-919: brokers on a broker's listener, controllers on a controller's."""
    service = await start(nursery)
    answer = await describe_cluster(
        service, version, listener_name=listener_name, endpoint_type=endpoint_type
    )
    assert answer.error_code == error
    ports = [] if error else [CLUSTER.node_of(listener_name).port]
    assert [node.port for node in answer.brokers] == ports
    assert answer.endpoint_type == endpoint_type
    nursery.cancel_scope.cancel()


async def find_coordinators(
    service: KafkaService, version: int, *keys: str, key_type: int = GROUP, principal: str = ALICE
) -> list[SimpleNamespace]:
    answer = await service.ask(
        ApiKey.FIND_COORDINATOR,
        version,
        principal=principal,
        key=keys[0] if keys else "",
        key_type=key_type,
        coordinator_keys=keys,
    )
    return list(answer.coordinators) if version >= 4 else [answer]


@pytest.mark.parametrize("version", COORDINATOR_VERSIONS)
async def test_the_coordinator_of_a_group_is_told_to_who_may_describe_it(
    nursery: trio.Nursery, version: int
) -> None:
    """It is this node; READ of the group implies that right."""
    service = await start(nursery, acl("g", resource_type=ResourceType.GROUP))
    (found,) = await find_coordinators(service, version, "g")
    assert (found.error_code, found.node_id, found.host, found.port) == (
        ErrorCode.NONE,
        7,
        "broker.example",
        9092,
    )
    (hidden,) = await find_coordinators(service, version, "hidden")
    assert (hidden.error_code, hidden.node_id, hidden.host, hidden.port) == (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        -1,
        "",
        -1,
    )
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (TRANSACTION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (SHARE, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_other_keys_have_rights_of_their_own(
    nursery: trio.Nursery, version: int, key_type: int, error: ErrorCode
) -> None:
    """A transactional id's is DESCRIBE of it; kinds that are not known are refused."""
    service = await start(nursery, acl("g", resource_type=ResourceType.GROUP))
    (refused,) = await find_coordinators(service, version, "g", key_type=key_type)
    assert refused.error_code == error
    (found,) = await find_coordinators(service, version, "g", key_type=TRANSACTION, principal=ROOT)
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 7)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_many_keys_are_answered_one_by_one(nursery: trio.Nursery, version: int) -> None:
    """KIP-699: each with its own key and error, in the request's order; none for none."""
    service = await start(nursery, acl("g", resource_type=ResourceType.GROUP))
    found = await find_coordinators(service, version, "hidden", "g", "other")
    assert [(each.key, each.error_code, each.node_id) for each in found] == [
        ("hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
        ("g", ErrorCode.NONE, 7),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
    ]
    assert await find_coordinators(service, version) == []
    nursery.cancel_scope.cancel()
