"""Requests to read and change configs, and their results."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from authorizerd.config.alterations import AlterOperation
from authorizerd.config.configuration import Configuration
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService
from tests.support.acls import acl

Resource = SimpleNamespace
Result = tuple[int, str | None]

BROKER = 4
KEY = "max.connections"
SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND
MAY_ALTER = acl(ALICE, "ALTER_CONFIGS", cluster=True)
OK = (0, None)
NOT_AUTHORIZED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def invalid(text: str) -> Result:
    return ErrorCode.INVALID_REQUEST, text


def guarded(key: str) -> Result:
    """Return the refusal of a change that only super users may make."""
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Only a super user may change {key}"


def altered(*changes: tuple[str, int, str | None], name: str = "7", kind: int = BROKER) -> Resource:
    """Return a resource of IncrementalAlterConfigs."""
    configs = [
        SimpleNamespace(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return SimpleNamespace(resource_type=kind, resource_name=name, configs=configs)


async def alter(
    service: KafkaService,
    *resources: Resource,
    principal: str = ROOT,
    validate_only: bool = False,
    api_key: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS,
    version: int = 1,
) -> list[Result]:
    answer = await service.ask(
        api_key, version, principal=principal, resources=resources, validate_only=validate_only
    )
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [(int(each.error_code), each.error_message) for each in answer.responses]


def described(
    name: str = "7", keys: Sequence[str] | None = None, *, kind: int = BROKER
) -> Resource:
    """Return a resource of DescribeConfigs; without keys, all are asked for."""
    return SimpleNamespace(resource_type=kind, resource_name=name, configuration_keys=keys)


async def describe(
    service: KafkaService, *resources: Resource, principal: str = ROOT, version: int = 4
) -> list[Any]:
    """Return the results, entities of any version."""
    answer = await service.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        principal=principal,
        resources=resources or (described(),),
        include_synonyms=True,
        include_documentation=True,
    )
    return list(answer.results)


async def describe_key(service: KafkaService, key: str, *, name: str = "7") -> Any:  # noqa: ANN401
    """Return the entry of one key."""
    (result,) = await describe(service, described(name, [key]))
    (entry,) = result.configs
    return entry


def max_connections(service: KafkaService) -> int:
    """Return the value in force."""
    seen: list[Configuration] = []
    service.settings.subscribe(seen.append)
    return seen[-1].max_connections
