"""Requests that ask about the cluster: Metadata, FindCoordinator, DescribeCluster."""

from types import SimpleNamespace
from uuid import UUID

from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.responses import BROKER_ENDPOINTS
from tests.daemon.kafka_service import ALICE, KafkaService

METADATA_VERSIONS = APIS[ApiKey.METADATA].versions
GROUP, TRANSACTION, SHARE = range(3)
COORDINATOR_VERSIONS = APIS[ApiKey.FIND_COORDINATOR].versions


def topic(name: str | None = None, topic_id: UUID | None = None) -> SimpleNamespace:
    """Return a topic of a Metadata request."""
    return SimpleNamespace(name=name, topic_id=topic_id)


async def metadata(
    service: KafkaService,
    version: int,
    *topics: SimpleNamespace,
    principal: str = ALICE,
    wants_operations: bool = False,
    wants_topic_operations: bool = True,
    is_all: bool = False,
) -> SimpleNamespace:
    answer: SimpleNamespace = await service.ask(
        ApiKey.METADATA,
        version,
        principal=principal,
        topics=None if is_all and version else topics,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=wants_operations,
        include_topic_authorized_operations=wants_topic_operations,
    )
    return answer


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
